"""The fold from the steps of a run to what is told of it: a pure function, without OpenTelemetry and without a clock.

It looks at deltas, commands, events and states alone, so a log that is folded again leads to the same facts, with the
same times and the same identities. A turn is a span; within it lie its model calls, tool runs, and waits for people.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, assert_never

from loopkernel.data.blocks import text_of
from loopkernel.data.effects import (
    AbortModel,
    AbortOther,
    AbortTool,
    CallModel,
    HandOff,
    StartChild,
    StartTool,
    Summarise,
)
from loopkernel.data.events import (
    LimitReached,
    LineageForked,
    MessageAdded,
    MessageReplaced,
    ReplyAborted,
    ReplyFailed,
    RetryScheduled,
    SessionResumed,
    ToolEnded,
    TurnEnded,
    WorkCancelled,
)
from loopkernel.data.ids import CallId, OperationKind
from loopkernel.data.ledgers import ApprovalWait, CrashWait, LedgerEntry, QuestionWait
from loopkernel.data.messages import ResultMessage
from loopkernel.data.model_deltas import (
    FromModel,
    ModelCompleted,
    ModelFailed,
    ModelStarted,
    ModelUsage,
)
from loopkernel.data.outside_deltas import ChildEnded, HandoffDone, HandoffFailed, SummaryFailed, SummaryReady
from loopkernel.data.records import StepRecord
from loopkernel.data.sessions import Turn
from loopkernel.data.states import (
    Backoff,
    Compacting,
    Confirming,
    Dispatching,
    Executing,
    Finishing,
    State,
    Streaming,
    Thinking,
)
from loopkernel.data.thread_deltas import Created, Resumed
from loopkernel.data.tool_deltas import ToolFailed, ToolLost, ToolStopped, ToolSucceeded
from loopkernel.data.usage import NO_USAGE, Usage
from loopkernel.data.words import CallStatus, TurnEndReason
from loopkernel.loop.algorithms.budget import cost_usd

from loopkernel_adapters.telemetry import conventions as named
from loopkernel_adapters.telemetry.conventions import LinkReason, Metric, Operation
from loopkernel_adapters.telemetry.facts import Attributes, AttributeValue, Fact, Link
from loopkernel_adapters.telemetry.tracing import Kind, Slot, Telling, Tracing, link_to

# What waits for a person: the call, and what it waits for.
Waits: TypeAlias = Mapping[Slot, tuple[LedgerEntry, str]]

_WITH_CALLS = (Streaming, Executing, Confirming, Dispatching)
_IN_TURN = (*_WITH_CALLS, Thinking, Backoff, Finishing)


def told(tracing: Tracing, step: StepRecord) -> tuple[Tracing, tuple[Fact, ...]]:
    """The run after one more step, and what is to be told of that."""
    telling = Telling(tracing, step.context.now_ms)
    if step.before.session is not None:
        telling.total = step.before.session.usage
    _note_life(telling, step)
    _note_report(telling, step)
    waiting = dict(_waiting(step.after))
    _end_waits(telling, waiting)
    _open_turns(telling, step.after)
    for effect in step.effects:
        note = _NOTES.get(type(effect))
        if note is not None:
            note(telling, step.after, effect)
    _begin_waits(telling, waiting)
    return telling.after(), tuple(telling.facts)


def left_open(tracing: Tracing) -> tuple[Fact, ...]:
    """What is to be told where the log ends: what is under way then ends with it, marked as unfinished."""
    telling = Telling(tracing, tracing.now_ms)
    telling.end_all(tracing.now_ms)
    return tuple(telling.facts)


# --- the life of a session --------------------------------------------------------------------------------


def _note_life(telling: Telling, step: StepRecord) -> None:
    """A session begins, goes on after a restart, or parts from the one that it was."""
    delta = step.context.delta
    after = step.after.session
    if isinstance(delta, Created) and step.before.session is None and after is not None:
        telling.session_id = delta.session_id
        telling.identity = f"{delta.session_id} {delta.nonce}"
    if isinstance(delta, Resumed) and any(isinstance(effect, SessionResumed) for effect in step.effects):
        _part(telling, LinkReason.BEFORE_RESTART)
        if delta.nonce:
            telling.identity = f"{telling.session_id} {delta.nonce}"
        turn = _turn_of(step.before)
        if turn is not None:  # under way: a part of its own, that follows the one which was interrupted
            telling.turns = turn.number - 1
    forked = next((effect for effect in step.effects if isinstance(effect, LineageForked)), None)
    if forked is not None:
        _part(telling, LinkReason.FORKED_FROM)
        telling.session_id = forked.session_id
        telling.identity = f"{forked.session_id} {telling.identity}"
        telling.turns = 0 if after is None else after.counters.turns


def _part(telling: Telling, reason: LinkReason) -> None:
    """What was under way will not be heard of again; its last sign of life was the record before this."""
    if telling.turn is not None:
        telling.previous = link_to(telling.open[telling.turn], reason)
    elif telling.previous is not None and reason is LinkReason.FORKED_FROM:
        telling.previous = Link(telling.previous.to, reason)
    telling.end_all(telling.before.now_ms)


# --- turns ------------------------------------------------------------------------------------------------


def _open_turns(telling: Telling, after: State) -> None:
    """The next turn begins, if it has and none is under way."""
    session = after.session
    if session is None or telling.turn is not None or telling.turns >= session.counters.turns:
        return
    telling.turns += 1
    about, slot = telling.about, (Kind.TURN, telling.turns)
    attributes = {**_model_asked(telling, session.settings.policy.model), named.TURN: telling.turns}
    if about.agent_name is not None:
        attributes[named.AGENT_NAME] = about.agent_name
    started = [key for from_ms, key in telling.before.parents if from_ms <= telling.now_ms]
    telling.begin(
        slot,
        Operation.INVOKE_AGENT,
        about.agent_name,
        attributes,
        parent=started[-1] if started else None,
        links=() if telling.previous is None else (telling.previous,),
        usage=telling.total,
    )
    telling.previous = link_to(telling.open[slot], LinkReason.EARLIER_TURN)


def _turn_ended(telling: Telling, after: State, ended: TurnEnded) -> None:
    slot = telling.turn
    if slot is not None:
        used = ended.usage.beyond(telling.open[slot].usage)
        error = None
        if ended.reason is TurnEndReason.ERROR:
            shown = None if after.session is None else after.session.error
            error = ended.reason.value if shown is None else shown.error.value
        telling.end(slot, {named.TURN_END: ended.reason.value, **_usage(used), **_cost(used, after)}, error)
    telling.total = ended.usage
    _open_turns(telling, after)


def _retry_scheduled(telling: Telling, after: State, scheduled: RetryScheduled) -> None:
    attributes: dict[str, AttributeValue] = {}
    if isinstance(after, Backoff):
        attributes[named.ERROR_TYPE] = after.error.value
    telling.measure(Metric.RETRIES, 1, attributes)
    waits = {named.DELAY_MS: scheduled.delay_ms, named.ATTEMPT: scheduled.attempt}
    telling.happen(telling.turn, named.RETRY_EVENT, {**attributes, **waits})


def _limit_reached(telling: Telling, after: State, reached: LimitReached) -> None:
    telling.happen(telling.turn, named.LIMIT_EVENT, {named.LIMIT: reached.limit.value})


def _work_cancelled(telling: Telling, after: State, cancelled: WorkCancelled) -> None:
    telling.happen(telling.turn, named.CANCEL_EVENT, {named.CANCEL_REASON: cancelled.reason.value})


def _message(telling: Telling, after: State, event: MessageAdded | MessageReplaced) -> None:
    if not isinstance(event.message, ResultMessage):
        telling.hear(event.message)


# --- model calls, summaries, handoffs ---------------------------------------------------------------------


def _model_called(telling: Telling, after: State, command: CallModel) -> None:
    request = command.request
    attributes = {**_model_asked(telling, request.model), named.REQUEST_REASON: request.reason.value}
    if request.max_output_tokens is not None:
        attributes[named.REQUEST_MAX_TOKENS] = request.max_output_tokens
    slot = (Kind.CHAT, command.operation)
    telling.begin(slot, Operation.CHAT, request.model, attributes, within=telling.turn)


def _note_reply(telling: Telling, after: State, delta: FromModel) -> None:
    """A report of the model call under way; of any other it is late, and told nowhere."""
    slot = (Kind.CHAT, delta.operation)
    if slot not in telling.open:
        return
    if isinstance(delta, ModelStarted):
        telling.learn(slot, {named.RESPONSE_MODEL: delta.model})
    elif isinstance(delta, ModelUsage):
        telling.learn(slot, {}, delta.usage)
    elif isinstance(delta, ModelCompleted):
        _end_reply(telling, after, slot, delta.usage, {named.FINISH_REASONS: (delta.stop.value,)}, None)
    elif isinstance(delta, ModelFailed):
        _end_reply(telling, after, slot, delta.usage, {}, delta.error.value)
    elif named.TIME_TO_FIRST_CHUNK not in telling.open[slot].learnt:
        telling.learn(slot, {named.TIME_TO_FIRST_CHUNK: (telling.now_ms - telling.open[slot].begun.at_ms) / 1000})


def _end_reply(
    telling: Telling, after: State, slot: Slot, usage: Usage, attributes: Attributes, error: str | None
) -> None:
    telling.learn(slot, attributes, usage)
    used = telling.open[slot].usage
    telling.end(slot, {**_usage(used), **_cost(used, after)}, error)


def _reply_failed(telling: Telling, after: State, event: ReplyFailed) -> None:
    """Nothing has come of the call, and what has noticed it is not the provider: it was silent, say."""
    slot = (Kind.CHAT, event.reply)
    if slot in telling.open:
        _end_reply(telling, after, slot, NO_USAGE, {}, event.error.value)


def _reply_aborted(telling: Telling, after: State, ended: AbortModel | ReplyAborted) -> None:
    slot = (Kind.CHAT, ended.operation if isinstance(ended, AbortModel) else ended.reply)
    if slot in telling.open:
        _end_reply(telling, after, slot, NO_USAGE, {}, ABORTED)


def _summarised(telling: Telling, after: State, command: Summarise) -> None:
    model = "" if after.session is None else after.session.settings.policy.model
    slot = (Kind.SUMMARY, command.operation)
    telling.begin(slot, Operation.SUMMARISE, None, _model_asked(telling, model), within=telling.turn)


def _handed_off(telling: Telling, after: State, command: HandOff) -> None:
    slot = (Kind.HANDOFF, command.operation)
    telling.begin(slot, Operation.HAND_OFF, None, {named.PROVIDER_NAME: telling.about.provider_name})


def _note_outcome(
    telling: Telling, after: State, delta: SummaryReady | SummaryFailed | HandoffDone | HandoffFailed
) -> None:
    kind = Kind.SUMMARY if isinstance(delta, SummaryReady | SummaryFailed) else Kind.HANDOFF
    slot = (kind, delta.operation)
    if slot in telling.open:
        failed = isinstance(delta, SummaryFailed | HandoffFailed)
        done = {named.HANDOFF_SESSION: delta.thread} if isinstance(delta, HandoffDone) else {}
        _end_reply(telling, after, slot, delta.usage, done, f"{kind.value}_failed" if failed else None)


def _other_aborted(telling: Telling, after: State, command: AbortOther) -> None:
    for kind, started in ((OperationKind.SUMMARY, Kind.SUMMARY), (OperationKind.HANDOFF, Kind.HANDOFF)):
        if command.kind is kind and (started, command.operation) in telling.open:
            telling.end((started, command.operation), error=ABORTED)


# --- tool runs and sub-agents -----------------------------------------------------------------------------


def _run_started(telling: Telling, after: State, command: StartTool | StartChild) -> None:
    attributes: dict[str, AttributeValue] = {
        named.TOOL_NAME: command.tool,
        named.TOOL_TYPE: "function",
        named.CALL: str(command.call),
        named.RUN: command.run,
    }
    entry = _entry_of(after, command.call)
    if entry is not None:
        attributes[named.TOOL_CALL_ID] = entry.call.provider_id
    if telling.about.content:
        attributes[named.TOOL_ARGUMENTS] = command.input.text
    child = command.created.session_id if isinstance(command, StartChild) else None
    if child is not None:
        attributes[named.CHILD_SESSION] = child
    if _in_background(after, command.operation):  # a restart repeats it, outside of any turn
        _begin_background(telling, command.operation, attributes)
    else:
        slot = (Kind.TOOL, command.operation)
        telling.begin(slot, Operation.EXECUTE_TOOL, command.tool, attributes, within=telling.turn, child_session=child)


def _begin_background(telling: Telling, operation: int, attributes: Attributes, links: tuple[Link, ...] = ()) -> None:
    """A run that its turn does not wait for is a tree of its own."""
    slot = (Kind.BACKGROUND, operation)
    name = str(attributes[named.TOOL_NAME])
    telling.begin(slot, Operation.EXECUTE_TOOL, name, {**attributes, named.BACKGROUND: True}, links=links)


def _note_run(
    telling: Telling, after: State, delta: ToolSucceeded | ToolFailed | ToolStopped | ToolLost | ChildEnded
) -> None:
    """How a run has ended. One that was aborted has ended for the turn by then."""
    content: dict[str, AttributeValue] = {}
    if telling.about.content and isinstance(delta, ToolSucceeded | ToolFailed):
        content[named.TOOL_RESULT] = text_of(delta.output.content)
    if isinstance(delta, ChildEnded):
        content[named.CHILD_END] = delta.reason.value
    for slot in _runs_open(telling, delta.operation):
        span = telling.open[slot].begun
        telling.end(slot, content, _failure(delta))
        if slot[0] is Kind.TOOL and _in_background(after, delta.operation):
            begun = {name: span.attributes[name] for name in _OF_A_RUN if name in span.attributes}
            _begin_background(telling, delta.operation, begun, (Link(span.key, LinkReason.STARTED_BY),))


def _runs_open(telling: Telling, operation: int) -> list[Slot]:
    """The run, where it is under way: in its turn, or in the background."""
    slots: tuple[Slot, ...] = ((Kind.TOOL, operation), (Kind.BACKGROUND, operation))
    return [slot for slot in slots if slot in telling.open]


def _failure(delta: ToolSucceeded | ToolFailed | ToolStopped | ToolLost | ChildEnded) -> str | None:
    match delta:
        case ToolSucceeded():
            return None
        case ToolFailed():
            return "tool_error"
        case ToolStopped():
            return "stopped"
        case ToolLost():
            return "lost"
        case ChildEnded():
            return "child_error" if delta.reason is TurnEndReason.ERROR else None
        case _:
            assert_never(delta)


def _run_aborted(telling: Telling, after: State, command: AbortTool) -> None:
    for slot in _runs_open(telling, command.operation):
        telling.end(slot, error=command.reason.value)


def _call_answered(telling: Telling, after: State, ended: ToolEnded) -> None:
    """An answered call has no run that its turn waits for, whatever has ended it."""
    call = str(ended.result.call)
    for slot in [slot for slot in telling.open if slot[0] is Kind.TOOL]:
        if telling.open[slot].begun.attributes[named.CALL] == call:
            telling.end(slot, error=None if ended.result.status is CallStatus.DONE else ended.result.status.value)


# --- waiting for people -----------------------------------------------------------------------------------


def _end_waits(telling: Telling, waiting: Waits) -> None:
    """Before anything that follows from an answer."""
    for slot in [slot for slot in telling.open if slot[0] is Kind.WAIT and slot not in waiting]:
        telling.end(slot)


def _begin_waits(telling: Telling, waiting: Waits) -> None:
    for slot, (entry, kind) in waiting.items():
        if slot not in telling.open and telling.turn is not None:
            run = (Kind.TOOL, entry.operation or 0)
            telling.begin(
                slot,
                Operation.WAIT_FOR_PERSON,
                entry.tool,
                {named.TOOL_NAME: entry.tool, named.CALL: str(entry.call.id), named.WAIT_KIND: kind},
                within=run if run in telling.open else telling.turn,
            )


def _waiting(after: State) -> Iterator[tuple[Slot, tuple[LedgerEntry, str]]]:
    """What a sub-agent waits for is told of the sub-agent, so that no wait is counted twice."""
    if not isinstance(after, _WITH_CALLS) or after.ledger.waiting == 0:
        return
    for entry in after.ledger.entries:
        kind = _WAITS.get(type(entry.person.wait)) if entry.status is CallStatus.BLOCKED_ON_USER else None
        if kind is not None:
            yield (Kind.WAIT, entry.call.id), (entry, kind)


# --- what is looked up ------------------------------------------------------------------------------------


def _note_report(telling: Telling, step: StepRecord) -> None:
    delta, after = step.context.delta, step.after
    if isinstance(delta, FromModel):
        _note_reply(telling, after, delta)
    elif isinstance(delta, ToolSucceeded | ToolFailed | ToolStopped | ToolLost | ChildEnded):
        _note_run(telling, after, delta)
    elif isinstance(delta, SummaryReady | SummaryFailed | HandoffDone | HandoffFailed):
        _note_outcome(telling, after, delta)


def _turn_of(state: State) -> Turn | None:
    """The turn that is under way."""
    if isinstance(state, _IN_TURN):
        return state.turn
    return state.within if isinstance(state, Compacting) and isinstance(state.within, Turn) else None


def _entry_of(state: State, call: CallId) -> LedgerEntry | None:
    if not isinstance(state, _WITH_CALLS):
        return None
    return next((entry for entry in state.ledger.entries if entry.call.id == call), None)


def _in_background(state: State, operation: int) -> bool:
    held = () if state.session is None else state.session.held
    return any(run.operation == operation and run.background for run in held)


def _model_asked(telling: Telling, model: str) -> dict[str, AttributeValue]:
    return {named.PROVIDER_NAME: telling.about.provider_name, named.REQUEST_MODEL: model}


def _usage(usage: Usage) -> Attributes:
    """As the conventions count: what was read from a cache, or written to it, is input too."""
    if usage == NO_USAGE:
        return {}
    tokens: dict[str, AttributeValue] = {
        named.INPUT_TOKENS: usage.input + usage.cache_read + usage.cache_write,
        named.OUTPUT_TOKENS: usage.output,
    }
    if usage.cache_read:
        tokens[named.CACHE_READ_TOKENS] = usage.cache_read
    if usage.cache_write:
        tokens[named.CACHE_WRITE_TOKENS] = usage.cache_write
    return tokens


def _cost(usage: Usage, state: State) -> Attributes:
    """What it costs, where the policy has prices."""
    if usage == NO_USAGE or state.session is None or not state.session.settings.policy.prices.known:
        return {}
    return {named.COST_USD: float(cost_usd(usage, state.session.settings.policy.prices))}


ABORTED = "aborted"
_OF_A_RUN = (named.TOOL_NAME, named.TOOL_TYPE, named.CALL, named.RUN, named.TOOL_CALL_ID)
_WAITS: Mapping[type, str] = {ApprovalWait: "approval", QuestionWait: "question", CrashWait: "after a crash"}
# By the type of the effect. An effect that is not here tells nothing: it is within a step, or about the thread.
_NOTES: Mapping[type, Callable[[Telling, State, Any], None]] = {  # Any: each takes the effects of its own type alone
    CallModel: _model_called,
    AbortModel: _reply_aborted,
    ReplyAborted: _reply_aborted,
    ReplyFailed: _reply_failed,
    Summarise: _summarised,
    HandOff: _handed_off,
    AbortOther: _other_aborted,
    StartTool: _run_started,
    StartChild: _run_started,
    AbortTool: _run_aborted,
    ToolEnded: _call_answered,
    TurnEnded: _turn_ended,
    RetryScheduled: _retry_scheduled,
    LimitReached: _limit_reached,
    WorkCancelled: _work_cancelled,
    MessageAdded: _message,
    MessageReplaced: _message,
}
