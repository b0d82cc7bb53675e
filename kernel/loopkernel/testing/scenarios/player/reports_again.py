"""Which report stands behind a line of the trace, for a scenario that has it come once more."""

from collections.abc import Iterable, Mapping, Sequence

from loopkernel.data.deltas import Delta
from loopkernel.data.ids import OperationKind
from loopkernel.data.model_deltas import FromModel
from loopkernel.data.outside_deltas import ChildEnded
from loopkernel.data.records import StepRecord
from loopkernel.data.tool_deltas import FromTool
from loopkernel.testing.scenarios.player.agenda import Operation
from loopkernel.testing.scenarios.player.recording import ToolRun, TraceLine
from loopkernel.testing.scenarios.trace import matches


def report_behind(
    pattern: str,
    lines: Sequence[TraceLine],
    steps: Sequence[StepRecord],
    ends: Mapping[Operation, Delta],
    runs: Iterable[ToolRun],
) -> Delta | None:
    """The report that caused the last line that matches, of a reply or of a tool that ended; None where none did."""
    for line in reversed(lines):
        words = line.text.split()
        if not matches(pattern, line.text) or not (words[0] == "reply" or matches("tool * ended *", line.text)):
            continue
        delta: Delta | None = ends.get(_operation_named(words, runs))
        if delta is None:
            delta = steps[line.step].context.delta
        if isinstance(delta, FromModel | FromTool | ChildEnded):
            return delta
    return None


def _operation_named(words: Sequence[str], runs: Iterable[ToolRun]) -> Operation:
    """The operation that a line `reply N ...` or `tool ID ended ...` is about."""
    if words[0] == "reply":
        return Operation(OperationKind.MODEL, int(words[1]))
    operations = [run.operation for run in runs if run.call == words[1]]
    return Operation(OperationKind.RUN, operations[-1] if operations else 0)
