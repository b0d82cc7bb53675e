"""The step law about what a run gets: FINAL-ARGS."""

from collections.abc import Iterator

from loopkernel.data.blocks import RawInput
from loopkernel.data.choices import Oversize
from loopkernel.data.effects import CheckCall, StartChild, StartTool
from loopkernel.data.events import EditRefused
from loopkernel.data.ids import CallId
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import ApprovalWait, Edit, Ledger, LedgerEntry
from loopkernel.data.outside_deltas import HookAnswered, HookModify
from loopkernel.data.states import State, Streaming
from loopkernel.data.thread_deltas import Acquired, Resumed
from loopkernel.data.tool_deltas import ToolChecked
from loopkernel.data.tools import ValidCall
from loopkernel.laws.call_input import names_no_call, refers, sources_of, to_run_with
from loopkernel.laws.changes import changed_pairs
from loopkernel.laws.reports import Findings
from loopkernel.laws.shadow.standing import may_stream_early
from loopkernel.laws.shadow.step import JudgedStep
from loopkernel.laws.views import Start, entry_of_call, entry_that, ledger_in, named


def final_args(step: JudgedStep) -> Findings:
    """What starts is a complete call, found valid with the very input it gets: the model's, or a person's."""
    starts, checks = step.starts, step.told(CheckCall)
    heard = isinstance(step.taken, ToolChecked | HookAnswered)
    if not (starts or checks or heard):
        return None
    found = [*_verdict_kept(step), *_changed_unchecked(step), *_hooked_otherwise(step)]
    for check in checks:
        found.extend(_asked_otherwise(check, step.ledger))
    asked = {check.call for check in checks}
    for start in starts:
        found.extend(f"call {start.call} starts, {wrong}" for wrong in _not_final(start, step, asked))
        if isinstance(start, StartTool):
            found.extend(_spills_otherwise(start, step))
    return found


# --- checks ---------------------------------------------------------------------------------------------


def _edit_in_check(entry: LedgerEntry) -> Edit | None:
    """The edit of a person that the open check is about; None: it is about the call itself."""
    return entry.person.wait.edit if isinstance(entry.person.wait, ApprovalWait) else None


def _verdict_kept(step: JudgedStep) -> Iterator[str]:
    """The ledger keeps the verdict that came, for the call, or the edit of it, that it was asked about."""
    delta, before = step.delta, step.ledger_before
    if not isinstance(delta, ToolChecked) or before is None:
        return
    entry = entry_that(before, lambda one: one.check == delta.operation, before.place_of_check(delta.operation))
    now = None if entry is None else step.entry(entry.call.id)
    if entry is None or now is None or now.check is not None:
        return
    edit = _edit_in_check(entry)
    refused = any(isinstance(effect, EditRefused) and effect.call == entry.call.id for effect in step.effects)
    if edit is not None and not isinstance(delta.verdict, ValidCall) and not refused:
        yield f"the edit of {named(entry.call)} is taken, and it is not valid"
    expected = entry.verdict if edit is not None and refused else delta.verdict
    if now.verdict != expected:
        yield f"the verdict on {named(entry.call)} is not the one that came"
    if edit is not None and now.person.edit != (None if refused else edit):
        yield f"{named(entry.call)} is not left with the edit that was checked"


def _asked_otherwise(check: CheckCall, ledger: Ledger | None) -> Iterator[str]:
    """What is checked is what would run."""
    entry = entry_of_call(ledger, check.call)
    if entry is None or entry.check != check.operation:
        return
    edit = _edit_in_check(entry)
    if (check.tool, check.input) != ((entry.tool, entry.given) if edit is None else (edit.tool, edit.input)):
        yield f"{named(entry.call)} is checked with other arguments than it would run with"


def _changed_unchecked(step: JudgedStep) -> Iterator[str]:
    """TOOL-18: once its references are resolved, a call is checked again."""
    before, after = step.calls_before, step.calls
    if after is None or not after.linked:
        return
    for old, new in changed_pairs(before, after):
        checked = new.check is None and new.verdict is not None
        if old.refers and not new.refers and new.is_open and new.person.edit is None and checked:
            yield f"the references of {named(new.call)} are resolved, and it is not checked again"


def _hooked_otherwise(step: JudgedStep) -> Iterator[str]:
    """HOOK-2: a hook before the run may put another input in the place of a call's, which is checked again."""
    delta = step.delta
    for old, new in step.changed_calls():
        if not new.is_open:
            continue
        due, gate = old.hooks.input, old.hooks.open
        if isinstance(delta, HookAnswered) and gate is not None and gate.operation == delta.operation:
            answer = delta.answer
            if isinstance(answer, HookModify) and answer.input is not None and old.hooks.end is None:
                due = answer.input
        if new.hooks.input != due:
            yield f"a hook has not put the input of {named(new.call)} that it has now in the place of another"
        elif due not in (old.hooks.input, old.given) and not _is_asked_again(new, step):
            yield f"a hook changes the input of {named(new.call)}, and it is not checked again"


def _is_asked_again(entry: LedgerEntry, step: JudgedStep) -> bool:
    return any(isinstance(effect, CheckCall) and effect.call == entry.call.id for effect in step.effects)


# --- starts ---------------------------------------------------------------------------------------------


def _not_final(start: Start, step: JudgedStep, asked: set[CallId]) -> Iterator[str]:
    state = step.after
    ledger = ledger_in(state)
    entry = entry_of_call(ledger, start.call)
    if ledger is None or entry is None or not entry.is_open:
        if not _repeated_in_background(start, step):
            yield "but the ledger has no such call"
        return
    yield from _other_arguments(start, ledger, entry, start.call.position - 1)
    if isinstance(start, StartChild):
        yield from _other_child(start, state)
    yield from _too_early(state, entry)
    if start.call in asked or _still_checked(start, step):
        yield "but its check has not answered"
    if not isinstance(entry.verdict, ValidCall):
        found = "not checked" if entry.verdict is None else f"checked as {type(entry.verdict).__name__}"
        yield f"but it is {found}"


def _spills_otherwise(start: StartTool, step: JudgedStep) -> Iterator[str]:
    """TOOL-11: by policy the output of a tool that runs commands goes to a file where it is too long, and no other."""
    session = step.session
    limit = None if session is None else session.settings.policy.result_limit
    tools = () if session is None else session.settings.tools
    profiles = [tool.profile for tool in tools if tool.name == start.tool and tool.profile is not None]
    due = (
        limit if limit is not None and limit.oversize is Oversize.SPILL and any(p.commands for p in profiles) else None
    )
    if start.spill != due:
        yield f"call {start.call} starts, and is told to keep its output by {start.spill}, and not by {due}"


def _other_child(start: StartChild, state: State) -> Iterator[str]:
    """CHILD-1: the task that the call names, the parent's instructions, and its tools, less those out of its depth."""
    if start.task != _task(start.input):
        yield f"and its sub-agent is told to do {start.task!r}"
    given, session = start.created, state.session
    if start.resumed or session is None:
        return  # one that is resumed keeps what it began with
    settings, may_delegate = session.settings, session.settings.policy.child.depth > 1
    offered = [tool for tool in settings.tools if may_delegate or tool.profile is None or not tool.profile.child]
    if list(given.tools) != offered:
        names = ", ".join(tool.name for tool in given.tools)
        yield f"and its sub-agent is given the tools {names or '(none)'}"
    if (given.instructions, given.remembered) != (settings.instructions, settings.remembered):
        yield "and its sub-agent is given other instructions, or other approvals, than its parent has"
    if given.start:
        yield "and its sub-agent is given a history that is not its own"


def _task(given: Json) -> str:
    """What a sub-agent is to do: the text under `prompt` or `task`, else the whole input."""
    parsed = given.value()
    texts = [parsed.get(field) for field in ("prompt", "task")] if isinstance(parsed, dict) else []
    return next((text for text in texts if isinstance(text, str)), given.text)


def _repeated_in_background(start: Start, step: JudgedStep) -> bool:
    """Whether a restart repeats a run in the background, with what it had."""
    if not isinstance(step.delta, Acquired | Resumed):
        return False
    return any(
        run.background and (run.call, run.tool, run.input) == (start.call, start.tool, start.input)
        for run in step.held_before
    )


def _other_arguments(start: Start, ledger: Ledger, entry: LedgerEntry, place: int) -> Iterator[str]:
    """A person's edit, else the model's input with the outputs that it refers to: of the right calls, in full."""
    if entry.person.edit is None and isinstance(entry.call.input, RawInput):
        yield "but its arguments do not parse"
        return
    if entry.person.edit is None and names_no_call(entry.call.input):
        yield "but a reference in its input names no call"
    for source in sources_of(ledger, place):
        if source.place is None:
            yield f"but it depends on {source.name!r}, which no earlier call has"
    if refers(start.input) and refers(entry.given):
        yield "but its input still refers to the output of another call"
    elif (start.tool, start.input) != (entry.tool, to_run_with(ledger, place)):
        yield f"but with other arguments than {named(entry.call)} has"


def _still_checked(start: Start, step: JudgedStep) -> bool:
    """Whether the call was being checked before this step, which does not answer the check."""
    before, delta = step.entry_before(start.call), step.delta
    open_check = None if before is None else before.check
    answered = isinstance(delta, ToolChecked) and delta.operation == open_check
    return open_check is not None and not answered


def _too_early(state: State, entry: LedgerEntry) -> Iterator[str]:
    session = state.session
    if isinstance(state, Streaming) and session is not None and not may_stream_early(entry, session.settings):
        yield "but its reply still streams, and it may not start before that is complete"
