"""What it costs to repair and to play one message of many calls, and one of many results: counted, and not timed."""

from collections.abc import Callable
from pathlib import Path

import pytest
from loopkernel_adapters.transcripts.counting import Tally
from loopkernel_adapters.transcripts.formats import reader_of
from loopkernel_adapters.transcripts.repairing_threads import repaired_conversations
from loopkernel_adapters.transcripts.replaying import AS_RECORDED, reenacted
from loopkernel_adapters.transcripts.source import Source

from tests.adapters.transcripts_repair.recorded import answers, asks, claude, results, use
from tests.kernel.counting import python_calls

FEW, MANY = 40, 80  # calls of one reply
MOST_GROWTH = 2.2  # of the cost, from few calls to twice as many


def session(calls: list[str], answered: list[str], *between: str) -> bytes:
    """A question, one reply of these calls, what was said then, and their results in one message."""
    said = [asks("go"), answers("msg_1", *map(use, calls)), *map(asks, between), results(*answered), asks("more")]
    kinds = ["user", "assistant", *["user"] * len(said)]
    lines = enumerate(zip(kinds, said, strict=False), start=1)
    return b"".join(claude(number, number - 1 or None, kind, message) for number, (kind, message) in lines)


def names(count: int) -> list[str]:
    return [f"toolu_{number}" for number in range(count)]


MESSAGES: dict[str, Callable[[int], bytes]] = {
    "whole": lambda count: session(names(count), names(count)),
    "without results": lambda count: session(names(count), []),
    "results repeated": lambda count: session(names(count), [*names(count), *names(count)]),
    "results of nothing": lambda count: session(["toolu"], ["toolu", *names(count)]),
    "results apart": lambda count: session(names(count), names(count), "wait"),
    "one id for all": lambda count: session(["toolu"] * count, ["toolu"] * count),
}


def of(message: str, count: int, folder: Path) -> Source:
    path = folder / f"{count}.jsonl"
    path.write_bytes(MESSAGES[message](count))
    return Source(path)


def repair(source: Source) -> None:
    repaired_conversations(source)


def play(source: Source) -> None:
    reenacted(source, reader_of(source), AS_RECORDED, Tally(), [])


@pytest.mark.parametrize("work", [repair, play])
@pytest.mark.parametrize("message", MESSAGES)
def test_a_message_costs_as_much_as_it_holds(work: Callable[[Source], None], message: str, tmp_path: Path) -> None:
    few, many = of(message, FEW, tmp_path), of(message, MANY, tmp_path)
    work(many)  # patterns are compiled once
    assert python_calls(work, many) < MOST_GROWTH * python_calls(work, few)
