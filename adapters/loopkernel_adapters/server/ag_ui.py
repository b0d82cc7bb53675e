"""AG-UI: one request is one run of its protocol, in which the last message of the user is said, or what waits answered.

Its thread is a run here. What the client has of earlier messages is not looked at: the log has them. A client that goes
away stops nothing; it can cancel, or follow the events of the run.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress

from ag_ui.core import (
    BaseEvent,
    Interrupt,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunStartedEvent,
)
from ag_ui.core import Message as ShownMessage
from ag_ui.core import UserMessage as ShownUserMessage
from loopkernel.data.blocks import TextBlock
from loopkernel.data.errors import CodecError
from loopkernel.data.json_text import JsonValue, checked
from loopkernel.data.states import State
from loopkernel.data.user_deltas import CallAnswer, Say
from loopkernel.data.words import RefusalReason, TurnEndReason
from pydantic import ValidationError
from starlette.responses import Response, StreamingResponse

from loopkernel_adapters.asked_calls import NoAnswer, address_of, answer_to, asked_as_json, asked_id, call_asked
from loopkernel_adapters.driver.asyncio_driver import AT_REST
from loopkernel_adapters.server.ag_ui_events import Translation, snapshot_of
from loopkernel_adapters.server.bodies import Object, Wrong
from loopkernel_adapters.server.event_stream import HEADERS, HEARTBEAT_SECONDS
from loopkernel_adapters.server.feed import Feed
from loopkernel_adapters.server.open_runs import AlreadyThere, OpenRuns
from loopkernel_adapters.server.operations import LONGEST_TEXT, RUN_NAME
from loopkernel_adapters.waiting_calls import WaitingCall


async def ag_ui_run(runs: OpenRuns, body: Object) -> Response:
    """Its events, to the end of the turn or to what waits for a person. Raises Wrong, and what saying raises."""
    try:
        asked = RunAgentInput.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise Wrong(400, "body", f"the body is not a RunAgentInput of AG-UI: {where}: {first['msg']}") from error
    run = asked.thread_id
    if not RUN_NAME.fullmatch(run):
        raise Wrong(400, "thread", "threadId is to have letters, digits and _.- alone, and at most 100 of them")
    said = _said(asked.messages)
    with suppress(AlreadyThere):
        await runs.begin(run)
    feed = await runs.feed(run)
    place = len(feed.told)
    if asked.resume:
        await _answered(runs, run, [(each.interrupt_id, _answer(each.status, each.payload)) for each in asked.resume])
    elif said is not None:
        fate = await runs.say(run, said)
        if fate.refused not in (None, RefusalReason.DUPLICATE):  # a message that was said already is no fault
            raise Wrong(409, fate.refused.value, f"the message was not taken: {fate.refused.value}")
    events = _told(runs, feed, place, run, asked.run_id)
    return StreamingResponse(events, media_type="text/event-stream", headers=HEADERS)


async def _told(runs: OpenRuns, feed: Feed, place: int, thread: str, run: str) -> AsyncIterator[str]:
    translation = Translation()
    yield _line(RunStartedEvent(thread_id=thread, run_id=run))
    while True:
        while place < len(feed.told):
            told, state = feed.told[place], feed.state
            place += 1
            for event in translation.of(told.event, state):
                yield _line(event)
        state, waiting = await runs.waiting(thread)
        if place < len(feed.told):
            continue
        if feed.over or isinstance(state, tuple(AT_REST)):
            for event in _end(translation, state, waiting, thread, run):
                yield _line(event)
            return
        if not await feed.more_than(place, HEARTBEAT_SECONDS):
            yield ": still here\n\n"


def _end(
    translation: Translation, state: State, waiting: Sequence[WaitingCall], thread: str, run: str
) -> Iterator[BaseEvent]:
    yield from translation.close()
    session = state.session
    if translation.differs and session is not None:
        yield snapshot_of(session.thread)
    if waiting:
        interrupts = [_interrupt(call, thread) for call in waiting]
        outcome = RunFinishedInterruptOutcome(type="interrupt", interrupts=interrupts)
        yield RunFinishedEvent(thread_id=thread, run_id=run, outcome=outcome)
    elif session is not None and session.last_end is TurnEndReason.ERROR:
        message = "the model failed" if session.error is None else session.error.message
        code = None if session.error is None else session.error.error.value
        yield RunErrorEvent(message=message, code=code)
    else:
        ended = None if session is None or session.last_end is None else session.last_end.value
        yield RunFinishedEvent(thread_id=thread, run_id=run, result={"reason": ended})


def _interrupt(call: WaitingCall, thread: str) -> Interrupt:
    asked = asked_as_json(call, thread)
    reason = "question" if call.question is not None else "after_crash" if call.after_crash else "approval"
    return Interrupt(
        id=asked_id(call, thread),
        reason=reason,
        message=call.question or f"{call.tool} is to run with the input of the call {address_of(call)}",
        tool_call_id=address_of(call),
        response_schema={
            "type": "object",
            "properties": {
                "answer": {"enum": asked["answers"]},
                "why": {"type": "string"},
                "text": {"type": "string"},
                "input": {"type": "object"},
            },
            "required": ["answer"],
        },
        metadata={"loopkernel": asked},
    )


def _said(messages: Sequence[ShownMessage]) -> Say | None:
    """The last message, where it is the user's. Raises Wrong."""
    last = messages[-1] if messages else None
    if not isinstance(last, ShownUserMessage):
        return None
    content = last.content
    parts = [content] if isinstance(content, str) else [part.text for part in content if part.type == "text"]
    if not isinstance(content, str) and len(parts) < len(content):
        raise Wrong(400, "media", "messages with other parts than text are not taken here")
    text = "\n".join(parts)
    if not text.strip() or len(text) > LONGEST_TEXT:
        raise Wrong(400, "body", f"the last message is empty, or longer than {LONGEST_TEXT} characters")
    return Say(content=(TextBlock(text),), key=f"ag-ui/{last.id}")


def _answer(status: str, payload: object) -> Mapping[str, JsonValue] | None:
    """What is answered, as for `answer`; None: that it is declined."""
    if status == "cancelled" or payload is False:
        return None
    if payload is True:
        return {"answer": "yes"}
    given = checked(payload)
    if not isinstance(given, dict):
        raise Wrong(400, "answer", "the payload of an answer is as responseSchema of its interrupt says")
    return given


async def _answered(runs: OpenRuns, run: str, answers: Sequence[tuple[str, Mapping[str, JsonValue] | None]]) -> None:
    """Answer each. Nothing is answered where one of them answers nothing that waits. Raises Wrong."""
    _, waiting = await runs.waiting(run)
    full: list[tuple[WaitingCall, CallAnswer]] = []
    for asked, answer in answers:
        call = call_asked(waiting, run, asked)
        if call is None:
            raise Wrong(409, "changed", f"nothing waits that was asked as {asked}; look at what is waiting now")
        try:
            full.append((call, answer_to(call, _declined(call) if answer is None else answer)))
        except (NoAnswer, CodecError) as error:
            raise Wrong(400, "answer", str(error)) from error
    for call, said in full:
        await runs.answer(run, call, said)


def _declined(call: WaitingCall) -> Mapping[str, JsonValue]:
    return {"answer": "decline" if call.question is not None else "cancel" if call.after_crash else "no"}


def _line(event: BaseEvent) -> str:
    return f"data: {event.model_dump_json(by_alias=True, exclude_none=True)}\n\n"
