"""What a recording leaves behind: replies put together, results matched without ids, and what compactions leave."""

import json
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from loopkernel.data.blocks import TextBlock
from loopkernel.data.foreign import ForeignCall, ForeignMessage, ForeignReply, ForeignResults, ForeignUser
from loopkernel.data.json_text import Json
from loopkernel_adapters.transcripts.entries import (
    Compacted,
    Entry,
    Outcome,
    Place,
    ReplyEnd,
    ReplyPart,
    ResultSeen,
    UserSaid,
)
from loopkernel_adapters.transcripts.foreign_threads import ForeignThread
from loopkernel_adapters.transcripts.repairing_threads import repaired_conversations
from loopkernel_adapters.transcripts.source import Source

from tests.adapters.transcripts_repair.recorded import answers, asks, claude, text

pytestmark = pytest.mark.rule("RESUME-5")


def entry(number: int, kind: str, name: str) -> Entry:
    place, words = Place(number), (TextBlock(f"text {number}"),)
    call = ForeignCall(provider_id=f"call {number}", tool="t", input=Json(text="{}"))
    match kind:
        case "user":
            return UserSaid(place=place, at_ms=None, conversation="", content=words)
        case "reply":
            return ReplyPart(place=place, at_ms=None, conversation="", reply=name, content=(*words, call))
        case "broken":
            end = ReplyEnd.FAILED
            return ReplyPart(place=place, at_ms=None, conversation="", reply=name, content=(), end=end)
        case "result":
            return ResultSeen(place=place, at_ms=None, conversation="", call=None, outcome=Outcome.DONE, content=words)
        case _:
            kept = number // 2 if kind == "kept" else None
            return Compacted(place=place, at_ms=None, conversation="", summary=f"sum {number}", kept_from=kept)


KINDS = st.sampled_from(["user", "reply", "reply", "reply", "broken", "result", "result", "compacted", "kept", "kept"])


def expected(entries: list[Entry]) -> list[tuple[int, str]]:
    """Each text that is left, and the number of its message: told the slow way."""
    left: list[tuple[Entry, list[Entry]]] = []
    for each in entries:
        match each:
            case ReplyPart():
                of = next((m for m in left if isinstance(m[0], ReplyPart) and m[0].reply == each.reply), None)
                if each.end is not None and of is not None:
                    of[1].clear()
                elif of is not None:
                    of[1].append(each)
                elif each.end is None:
                    left.append((each, [each]))
            case Compacted():
                kept = len(entries) + 1 if each.kept_from is None else each.kept_from
                old = [m for m in left if not isinstance(m[0], Compacted) and place_of(m[0]) >= kept]
                left = [(each, [each]), *old]
            case _:
                left.append((each, [each]))
    return [(at, f"{place_of(part)}") for at, (_, parts) in enumerate(left) for part in parts]


def place_of(each: Entry) -> int:
    return each.place.record


def told(messages: list[ForeignMessage]) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    for at, message in enumerate(messages):
        blocks = (
            [block for result in message.results for block in result.content]
            if isinstance(message, ForeignResults)
            else message.content
        )
        found += [(at, block.text.split()[1]) for block in blocks if isinstance(block, TextBlock)]
    return found


@given(st.lists(st.tuples(KINDS, st.sampled_from(["a", "b"])), min_size=10, max_size=30))
@example([("reply", "a"), ("result", ""), ("result", ""), ("reply", "a"), ("result", "")])
def test_a_thread_holds_what_was_said_and_a_result_is_that_of_the_first_open_call(drawn: list[tuple[str, str]]) -> None:
    thread, entries = ForeignThread(), list[Entry]()
    for number, (kind, name) in enumerate(drawn, start=1):
        before = thread.messages
        entries.append(entry(number, kind, name))
        thread.take(entries[-1])
        if kind == "result":
            answered = {r.provider_id for m in before if isinstance(m, ForeignResults) for r in m.results}
            calls = [call.provider_id for m in before if isinstance(m, ForeignReply) for call in m.calls]
            last = thread.messages[-1]
            assert isinstance(last, ForeignResults)
            assert last.results[0].provider_id == next((name for name in calls if name not in answered), "")
    assert told(thread.messages) == expected(entries)
    assert len(thread.places) == len(thread.messages)


def of_pi(number: int, kind: str, **more: object) -> dict[str, object]:
    return {"type": kind, "id": f"r{number}", "timestamp": "2026-01-02T03:04:05.000Z", **more}


def says(number: int, role: str, words: str) -> dict[str, object]:
    return of_pi(number, "message", message={"role": role, "content": [{"type": "text", "text": words}]})


@pytest.mark.parametrize(("kept", "left"), [({}, []), ({"firstKeptEntryId": "r3"}, ["c", "d"])])
def test_a_summary_stands_for_what_it_replaced(tmp_path: Path, kept: dict[str, str], left: list[str]) -> None:
    records = [
        of_pi(0, "session", version=3, cwd="/x"),
        says(1, "user", "a"),
        says(2, "assistant", "b"),
        says(3, "user", "c"),
        says(4, "assistant", "d"),
        of_pi(5, "compaction", summary="The gist.", **kept),
        says(6, "user", "e"),
    ]
    path = tmp_path / "session.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    (messages,) = repaired_conversations(Source(path)).messages.values()
    said = [message.content for message in messages if isinstance(message, ForeignUser | ForeignReply)]
    assert [(TextBlock(words),) for words in ("The gist.", *left, "e")] == said


def test_a_summary_that_is_a_message_of_the_user_is_said_once(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    records = [
        claude(1, None, "user", asks("Go.")),
        claude(2, 1, "assistant", answers("m", text("Gone."))),
        claude(3, 2, "user", asks("The gist."), isCompactSummary=True),
        claude(4, 3, "user", asks("On.")),
    ]
    path.write_bytes(b"".join(records))
    (messages,) = repaired_conversations(Source(path)).messages.values()
    assert messages == (ForeignUser((TextBlock("The gist."),)), ForeignUser((TextBlock("On."),)))
