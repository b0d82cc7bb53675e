"""The log of a session that works: rounds of text, a call and its result, as the benchmarks have them."""

from loopkernel.data.blocks import TextBlock
from loopkernel.data.thread_deltas import Acquired, Created
from loopkernel.data.user_deltas import Say
from loopkernel.replaying import LogRecord

from bench.workload import READ, UNENDING, round_of


def worked_log(rounds: int) -> tuple[LogRecord, ...]:
    """Three records of opening, and five a round."""
    opening = (
        Created(session_id="s", policy=UNENDING, tools=(READ,)),
        Acquired(),
        Say(content=(TextBlock("Read the notes."),)),
    )
    worked = [LogRecord(delta, number) for number in range(1, rounds + 1) for delta in round_of(number)]
    return (*(LogRecord(delta, 0) for delta in opening), *worked)
