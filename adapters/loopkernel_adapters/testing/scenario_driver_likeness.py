"""Whether the driver has written what the pure player fed, but for what a driver does in a way of its own.

That is: a check reports at once and not in its turn; every aborted run says that it has stopped, not only one that
somebody waits for; a stream that is cut, and a handoff that fails, are told in the driver's words; and a sub-agent that
is taken up again says anew whom it waits for.
"""

from collections.abc import Iterator, Sequence

from attrs import evolve
from loopkernel.data.deltas import Delta
from loopkernel.data.model_deltas import ModelFailed
from loopkernel.data.outside_deltas import ChildAsks, ChildEnded, HandoffFailed
from loopkernel.data.thread_deltas import Forked
from loopkernel.data.tool_deltas import ToolChecked, ToolStopped
from loopkernel.data.words import TurnEndReason
from loopkernel.replaying import LogRecord


def likeness(written: Sequence[LogRecord], fed: Sequence[LogRecord]) -> str:
    """How the two logs compare: `same`, `like` (the same but for the above), or the first record that is another."""
    if written == fed:
        return "same"
    one, other = list(_comparable(written)), list(_comparable(fed))
    if one == other:
        return "like"
    place = next((i for i, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), len(other))
    return f"record {place}: wrote {one[place : place + 1]}, was fed {other[place : place + 1]}"


def _comparable(log: Sequence[LogRecord]) -> Iterator[tuple[Delta, int]]:
    for record in log:
        match record.delta:
            case ToolChecked() | ToolStopped() | ChildAsks():
                continue
            case ChildEnded(reason=TurnEndReason.USER_ABORT):  # it may say that it has stopped instead
                continue
            case ModelFailed() as failed:
                yield evolve(failed, message=""), record.now_ms
            case HandoffFailed() as failed_handoff:
                yield evolve(failed_handoff, why=""), record.now_ms
            case Forked():
                yield Forked(session_id="a fork"), record.now_ms
            case delta:
                yield delta, record.now_ms
