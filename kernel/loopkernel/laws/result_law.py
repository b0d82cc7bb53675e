"""The step law about outputs: RESULT. What a run has reported is the answer to its call, cut by TOOL-11 alone."""

from collections.abc import Iterator

from attrs import frozen

from loopkernel.data.blocks import TextBlock, ToolResult, UserBlock
from loopkernel.data.events import ToolEnded
from loopkernel.data.ledgers import LedgerEntry
from loopkernel.data.outside_deltas import HookAnswered, HookContinue, HookModify
from loopkernel.data.records import StepRecord
from loopkernel.data.tool_deltas import ToolFailed, ToolSucceeded
from loopkernel.data.words import CallStatus
from loopkernel.laws.accounts.results import cut_down
from loopkernel.laws.gates import call_of_hook
from loopkernel.laws.reports import Findings
from loopkernel.laws.views import call_of_run


@frozen
class _Report:
    """The output of a run that is to be the answer to its call, and whether it went well."""

    entry: LedgerEntry
    content: tuple[UserBlock, ...]
    status: CallStatus


def result(record: StepRecord) -> Findings:
    """Each call is answered with what its run has reported."""
    report = _report(record)
    if report is None:
        return None
    ends = (effect.result for effect in record.effects if isinstance(effect, ToolEnded))
    answer = next((one for one in ends if one.call == report.entry.call.id and one.ran and one.reason is None), None)
    return None if answer is None else list(_otherwise(answer, report, record))


def _report(record: StepRecord) -> _Report | None:
    """What this step's delta reports, or a hook lets pass; None where nobody can say, as of a sub-agent's own end."""
    delta = record.context.delta
    if isinstance(delta, ToolSucceeded | ToolFailed):
        entry = call_of_run(record.before, delta.operation)
        status = CallStatus.DONE if isinstance(delta, ToolSucceeded) else CallStatus.ERROR
        given_a_handle = delta.output.background and not delta.output.content
        return None if entry is None or given_a_handle else _Report(entry, delta.output.content, status)
    if isinstance(delta, HookAnswered):
        entry = call_of_hook(record.before, delta.operation)
        end = None if entry is None else entry.hooks.end
        if entry is None or end is None:
            return None
        if isinstance(delta.answer, HookModify) and delta.answer.result is not None:
            return _Report(entry, (TextBlock(delta.answer.result),), end.status)
        if isinstance(delta.answer, HookContinue | HookModify):
            return _Report(entry, end.output.content, end.status)
    return None


def _otherwise(answer: ToolResult, report: _Report, record: StepRecord) -> Iterator[str]:
    session = record.after.session
    limit = None if session is None else session.settings.policy.result_limit
    due = cut_down(report.content, limit)
    notes = len(answer.content) - len(due)  # a person's edit is told in front
    if answer.content[max(notes, 0) :] != due or notes != (report.entry.person.edit is not None):
        yield f"call {answer.call} is answered with {answer.content}, and its run has reported {due}"
    if answer.status is not report.status:
        yield f"call {answer.call} is answered as {answer.status.value}, and its run has ended as {report.status.value}"
