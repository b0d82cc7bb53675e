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
from ag_ui.core import Tool as ShownTool
from ag_ui.core import ToolMessage as ShownToolMessage
from ag_ui.core import UserMessage as ShownUserMessage
from loopkernel.data.blocks import MediaBlock, text_of
from loopkernel.data.errors import CodecError
from loopkernel.data.json_text import Json, JsonValue, checked
from loopkernel.data.states import State
from loopkernel.data.tools import Tool
from loopkernel.data.user_deltas import AnswerQuestion, CallAnswer, Say
from loopkernel.data.words import RefusalReason, TurnEndReason
from pydantic import ValidationError
from starlette.responses import Response, StreamingResponse

from loopkernel_adapters.driver.asyncio_driver import AT_REST
from loopkernel_adapters.server.ag_ui_content import NotTaken, blocks_of, result_as_json
from loopkernel_adapters.server.ag_ui_events import Translation, snapshot_of
from loopkernel_adapters.server.bodies import Object, Wrong
from loopkernel_adapters.server.client_tools import NotBrought, brought_in, client_tool, for_client
from loopkernel_adapters.server.event_stream import HEADERS, HEARTBEAT_SECONDS
from loopkernel_adapters.server.feed import Feed
from loopkernel_adapters.server.open_runs import AlreadyThere, OpenRuns
from loopkernel_adapters.server.operations import LONGEST_TEXT, RUN_NAME
from loopkernel_adapters.sessions.asked_calls import (
    NoAnswer,
    address_of,
    answer_to,
    asked_as_json,
    asked_id,
    call_asked,
)
from loopkernel_adapters.sessions.waiting_calls import WaitingCall


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
    said, tools = _said(asked.messages), _tools(asked.tools or [])
    with suppress(AlreadyThere):
        await runs.begin(run)
    feed = await runs.feed(run)
    place = len(feed.told)
    waiting = [call for call in (await runs.waiting(run))[1] if for_client(call, feed.state)]
    if tools or brought_in(feed.state):
        try:
            await runs.bring(run, tools)
        except NotBrought as error:
            raise Wrong(400, "tools", str(error)) from error
    await _told_results(runs, run, waiting, asked.messages, gone_on=said is not None)
    if asked.resume:
        await _answered(runs, run, [(each.interrupt_id, _answer(each.status, each.payload)) for each in asked.resume])
    elif said is not None:
        fate = await runs.say(run, said)
        if fate.refused not in (None, RefusalReason.DUPLICATE):  # a message that was said already is not a fault
            raise Wrong(409, fate.refused.value, f"the message was not taken: {fate.refused.value}")
    sent = frozenset(each.tool_call_id for each in asked.messages if isinstance(each, ShownToolMessage))
    events = _told(runs, feed, place, asked, sent)
    return StreamingResponse(events, media_type="text/event-stream", headers=HEADERS)


async def _told(
    runs: OpenRuns, feed: Feed, place: int, asked: RunAgentInput, sent: frozenset[str]
) -> AsyncIterator[str]:
    """`sent`: the calls whose results the client has."""
    thread, run = asked.thread_id, asked.run_id
    translation = Translation(sent)
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
    asking = [call for call in waiting if not for_client(call, state)]  # those of the client are calls like any other
    if asking:
        interrupts = [_interrupt(call, thread) for call in asking]
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
    try:
        content = blocks_of(last.content)
    except NotTaken as error:
        raise Wrong(400, "media", str(error)) from error
    length = len(text_of(content))
    if length > LONGEST_TEXT or not any(isinstance(each, MediaBlock) or each.text.strip() for each in content):
        raise Wrong(400, "body", f"the last message is empty, or longer than {LONGEST_TEXT} characters")
    return Say(content=content, key=f"ag-ui/{last.id}")


def _tools(given: Sequence[ShownTool]) -> list[Tool]:
    """The tools that the client runs. Raises Wrong."""
    try:
        return [client_tool(each.name, each.description, checked(each.parameters)) for each in given]
    except (NotBrought, CodecError) as error:
        raise Wrong(400, "tools", str(error)) from error


async def _told_results(
    runs: OpenRuns, run: str, waiting: Sequence[WaitingCall], messages: Sequence[ShownMessage], *, gone_on: bool
) -> None:
    """What the client says came of the calls that it was to run; `gone_on`: it says something else instead."""
    results = {each.tool_call_id: each for each in messages if isinstance(each, ShownToolMessage)}
    for call in waiting:
        result = results.get(address_of(call))
        if result is not None or gone_on:
            value = None if result is None else Json.of(result_as_json(result))
            await runs.answer(run, call, AnswerQuestion(call=call.path[-1], value=value))


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
