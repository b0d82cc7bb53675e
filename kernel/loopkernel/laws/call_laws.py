"""Trace laws about tool calls: ONE-END, ASKED, AT-MOST-ONCE and SIBLING."""

from collections.abc import Iterator, Sequence

from loopkernel.data.blocks import ToolResult
from loopkernel.data.choices import OnToolFailure
from loopkernel.data.effects import AbortTool, Effect, StartChild, StartTool
from loopkernel.data.events import MessageAdded, ToolEnded, TurnEnded
from loopkernel.data.ids import CallId, RunOperation
from loopkernel.data.ledgers import LedgerEntry
from loopkernel.data.messages import AssistantMessage, ResultMessage
from loopkernel.data.states import State
from loopkernel.data.tool_deltas import ToolFailed
from loopkernel.data.tools import Decision, EffectClass, Tool
from loopkernel.data.words import OPEN_STATUSES, CallStatus, CancelReason
from loopkernel.laws.reports import Breach
from loopkernel.laws.views import call_of_run, entry_of_call, ledger_in, refuses, tool_named, turn_of
from loopkernel.planning.approval import decide
from loopkernel.replay import StepRecord

# --- ONE-END ------------------------------------------------------------------------------------------

FIRST_REPLY = 1  # replies numbered below it, and their answers, were recorded elsewhere (rule RESUME-5)


def one_end(records: Sequence[StepRecord]) -> Iterator[Breach]:
    """Each call that stays is answered once, before its turn ends; its answer never changes."""
    ended: dict[CallId, ToolResult] = {}
    owed: dict[CallId, None] = {}  # the calls of kept replies that have no answer yet, in order
    for entry in _entries(records[0].before) if records else ():
        if entry.result is not None:
            ended[entry.call.id] = entry.result
    for step, record in enumerate(records):
        for effect in record.effects:
            for wrong in _end(effect, ended, owed):
                yield Breach("ONE-END", step, wrong)
        for wrong in _changed_ends(record):
            yield Breach("ONE-END", step, wrong)


def _end(effect: Effect, ended: dict[CallId, ToolResult], owed: dict[CallId, None]) -> Iterator[str]:
    """What is wrong with this effect, given the answers so far; both tables are brought up to date."""
    if isinstance(effect, ToolEnded):
        yield from _answered(effect.result, ended)
        ended.setdefault(effect.result.call, effect.result)
        owed.pop(effect.result.call, None)
    elif isinstance(effect, MessageAdded) and isinstance(effect.message, AssistantMessage):
        owed.update((call.id, None) for call in effect.message.calls if call.id not in ended)
    elif isinstance(effect, MessageAdded) and isinstance(effect.message, ResultMessage):
        for result in effect.message.results:
            if result.call.reply < FIRST_REPLY:
                ended.setdefault(result.call, result)
                owed.pop(result.call, None)
            if result.call not in ended:
                yield f"the thread answers call {result.call}, which has not ended"
            elif ended[result.call] != result:
                yield f"the thread answers call {result.call} otherwise than it ended"
    elif isinstance(effect, TurnEnded):
        yield from (f"the turn ends, and call {call} has no answer" for call in owed)
        owed.clear()


def _answered(result: ToolResult, ended: dict[CallId, ToolResult]) -> Iterator[str]:
    if result.status in OPEN_STATUSES:
        yield f"call {result.call} ends as {result.status.value}, which is no end"
    if result.call in ended:
        first = ended[result.call].status.value
        yield f"call {result.call} ends as {result.status.value}, after it had ended as {first}"


def _entries(state: State) -> tuple[LedgerEntry, ...]:
    ledger = ledger_in(state)
    return () if ledger is None else tuple(ledger.entries)


def _changed_ends(record: StepRecord) -> Iterator[str]:
    """TOOL-4 in the ledger: a terminal status, and the answer with it, never changes."""
    before, after = ledger_in(record.before), ledger_in(record.after)
    if before is None or after is None or before is after or before.reply != after.reply:
        return
    for old, new in zip(before.entries, after.entries, strict=False):
        if old is not new and not old.is_open and (old.status, old.result) != (new.status, new.result):
            yield f"call {old.call.id} had ended as {old.status.value}, and is now {new.status.value}"


# --- ASKED --------------------------------------------------------------------------------------------


def asked(records: Sequence[StepRecord]) -> Iterator[Breach]:
    """What starts is allowed. No person can be asked yet, so a call that needs one never starts either."""
    for step, record in enumerate(records):
        for effect in record.effects:
            if isinstance(effect, StartTool | StartChild):
                decision = _decision(effect, record.after)
                if decision is not Decision.ALLOW:
                    yield Breach("ASKED", step, f"call {effect.call} ({effect.tool}) starts, decided: {decision.value}")


def _decision(start: StartTool | StartChild, state: State) -> Decision:
    """ASK-1, under the settings that hold when the call starts; a tool that is not offered has no profile."""
    if state.session is None:
        return Decision.DENY
    settings = state.session.settings
    tool = tool_named(state, start.tool) or Tool(name=start.tool)
    return decide(settings.policy, settings.remembered, tool, start.input)


# --- AT-MOST-ONCE -------------------------------------------------------------------------------------


def at_most_once(records: Sequence[StepRecord]) -> Iterator[Breach]:
    """A dangerous call starts once, any other once per run number; ids and keys belong to one call alone."""
    runs: dict[CallId, int] = {}
    operations: dict[RunOperation, CallId] = {}
    keys: dict[str, CallId] = {}
    for entry in _entries(records[0].before) if records else ():
        runs[entry.call.id] = entry.runs
        if entry.operation is not None:
            operations[entry.operation] = entry.call.id
    for step, record in enumerate(records):
        for effect in record.effects:
            if isinstance(effect, StartTool):
                for wrong in _repeated(effect, record.after, runs):
                    yield Breach("AT-MOST-ONCE", step, wrong)
                if keys.setdefault(effect.key, effect.call) != effect.call:
                    yield Breach("AT-MOST-ONCE", step, f"call {effect.call} has the key of call {keys[effect.key]}")
            if isinstance(effect, StartTool | StartChild):
                if effect.operation in operations:
                    taken = operations[effect.operation]
                    wrong = f"call {effect.call} starts as run {effect.operation}, which call {taken} has started as"
                    yield Breach("AT-MOST-ONCE", step, wrong)
                operations[effect.operation] = effect.call


def _repeated(start: StartTool, state: State, runs: dict[CallId, int]) -> Iterator[str]:
    """What is wrong with a start, given how often each call has run; the count is brought up to date."""
    before = runs.get(start.call, 0)
    runs[start.call] = before + 1
    if start.run != before + 1:
        yield f"call {start.call} ({start.tool}) starts as its run number {start.run}, after {before} runs"
    tool = tool_named(state, start.tool)
    effect = EffectClass.DANGEROUS if tool is None or tool.profile is None else tool.profile.effect
    if before and effect is EffectClass.DANGEROUS:
        yield f"dangerous call {start.call} ({start.tool}) starts again"


# --- SIBLING ------------------------------------------------------------------------------------------


def sibling(records: Sequence[StepRecord]) -> Iterator[Breach]:
    """A run that fails leaves the other calls of its reply, and what was counted, as they are."""
    for step, record in enumerate(records):
        delta = record.context.delta
        if isinstance(delta, ToolFailed) and not refuses(record):
            failed = call_of_run(record.before, delta.operation)
            if failed is not None:
                for wrong in _dropped(record, failed):
                    yield Breach("SIBLING", step, f"when call {failed.call.id} fails, {wrong}")


def _dropped(record: StepRecord, failed: LedgerEntry) -> Iterator[str]:
    session = record.before.session
    spared = session is None or session.settings.policy.on_tool_failure is OnToolFailure.CONTINUE
    aborted = {effect.operation for effect in record.effects if isinstance(effect, AbortTool)}
    ended = {effect.result.call: effect.result for effect in record.effects if isinstance(effect, ToolEnded)}
    for entry in _entries(record.before):
        call = entry.call.id
        if call == failed.call.id:
            continue
        now = entry_of_call(ledger_in(record.after), call)
        if entry.result is not None:
            if now is not None and now.result != entry.result:
                yield f"the result of call {call} is lost"
        elif spared and entry.operation in aborted:
            yield f"the run of call {call} is aborted"
        elif spared and call in ended and ended[call].reason is CancelReason.SIBLING:
            yield f"call {call} is cancelled"
        elif entry.status is CallStatus.BLOCKED_ON_USER and now is not None and now.status is not entry.status:
            yield f"call {call} no longer waits for its approval"
    before, after = turn_of(record.before), turn_of(record.after)
    if before is not None and after is not None and before.number == after.number and after.replies < before.replies:
        yield "the count of replies goes down"
