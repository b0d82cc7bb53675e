"""What it costs to repair and to play one message of many calls, and one of many results: counted, and not timed."""

from collections.abc import Callable
from pathlib import Path

import pytest
from loopkernel.data.json_text import JsonValue
from loopkernel.data.user_deltas import ChangeTools
from loopkernel_adapters.transcripts import reenacting as rounds_of_calls
from loopkernel_adapters.transcripts.counting import Tally
from loopkernel_adapters.transcripts.formats import reader_of
from loopkernel_adapters.transcripts.readers.claude_code import stands_in
from loopkernel_adapters.transcripts.repairing_threads import repaired_conversations
from loopkernel_adapters.transcripts.replaying import AS_RECORDED, reenacted
from loopkernel_adapters.transcripts.source import Source
from typing_extensions import override

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


REJECTED = b"The user doesn't want to proceed with this tool use:"
MESSAGES: dict[str, Callable[[int], bytes]] = {
    "whole": lambda count: session(names(count), names(count)),
    "without results": lambda count: session(names(count), []),
    "results repeated": lambda count: session(names(count), [*names(count), *names(count)]),
    "results of nothing": lambda count: session(["toolu"], ["toolu", *names(count)]),
    "results apart": lambda count: session(names(count), names(count), "wait"),
    "rejected": lambda count: session(names(count), names(count)).replace(b"result of", REJECTED),
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


def rounds(count: int) -> bytes:
    """Rounds of one call each, of another tool each time."""
    said = [(answers(f"msg_{at}", use(f"toolu_{at}", f"Tool{at}")), results(f"toolu_{at}")) for at in range(count)]
    messages = [asks("go"), *(message for pair in said for message in pair)]
    kinds = ["user", *["assistant", "user"] * count]
    lines = enumerate(zip(kinds, messages, strict=True), start=1)
    return b"".join(claude(number, number - 1 or None, kind, message) for number, (kind, message) in lines)


def test_another_tool_in_every_call_does_not_have_all_offered_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rounds_of_calls, "MOST_OFFERED", 8)
    few, many = tmp_path / "few.jsonl", tmp_path / "many.jsonl"
    few.write_bytes(rounds(FEW))
    many.write_bytes(rounds(MANY))
    play(Source(many))
    assert python_calls(play, Source(many)) < MOST_GROWTH * python_calls(play, Source(few))
    source = Source(many)
    records = reenacted(source, reader_of(source), AS_RECORDED, Tally(), [])[""].records
    offered = [record.delta.tools for record in records if isinstance(record.delta, ChangeTools)]
    assert [len(tools) for tools in offered] == [min(number, 8) for number in range(1, MANY + 1)]
    assert all(f"Tool{number}" in {tool.name for tool in tools} for number, tools in enumerate(offered))


class Compared(dict[str, JsonValue]):
    """A block that counts how often it is compared."""

    times = 0

    @override
    def __eq__(self, other: object) -> bool:
        Compared.times += 1
        return super().__eq__(other)

    __hash__ = None


def test_a_block_is_compared_with_those_that_are_like_it_alone() -> None:
    known: dict[int, list[JsonValue]] = {}
    blocks: list[JsonValue] = [Compared(type="text", text=f"part {number}") for number in range(MANY)]
    assert not any(stands_in(known, block) for block in blocks)
    assert Compared.times < MANY // 4
    assert all(stands_in(known, Compared(type="text", text=f"part {number}")) for number in range(MANY))
    assert stands_in(known, {"text": "part 1", "type": "text"})
    assert not stands_in(known, {"text": "part 1", "type": "text", "more": [True, None, 1.5]})
    assert stands_in(known, {"type": "text", "text": "part 1", "more": [1, None, 1.5]})  # JSON's equality is Python's
