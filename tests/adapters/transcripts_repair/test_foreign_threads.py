"""What a recording leaves behind: replies put together, results matched without ids, and what compactions leave."""

import json
from pathlib import Path

import pytest
from attrs import evolve
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

from tests.adapters.transcripts_repair.recorded import (
    answers,
    asks,
    claude,
    codex_says,
    codex_session,
    line,
    text,
    uuid,
)

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
            compacted = Compacted(place=place, at_ms=None, conversation="", summary=f"sum {number}")
            told_again = UserSaid(place=place, at_ms=None, conversation="", content=words)
            return {
                "compacted": compacted,
                "kept": evolve(compacted, kept_from=number // 2),
                "users": evolve(compacted, kept_messages=2),
                "history": evolve(compacted, kept=(told_again,)),
            }[kind]


KINDS = st.sampled_from(
    ["user", "reply", "reply", "reply", "broken", "result", "result", "compacted", "kept", "kept", "users", "history"]
)


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
                old = [m for m in left if not isinstance(m[0], Compacted)]
                summary: tuple[Entry, list[Entry]] = (each, [each])
                if each.kept_from is not None:
                    left = [summary, *(m for m in old if place_of(m[0]) >= each.kept_from)]
                else:
                    users = [m for m in old if isinstance(m[0], UserSaid)]
                    again: list[tuple[Entry, list[Entry]]] = [(kept, [kept]) for kept in each.kept]
                    left = [*users[::-1][: each.kept_messages][::-1], *again, summary]
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


def left_of(path: Path, records: list[bytes]) -> list[str]:
    """The texts of the messages that the session leaves behind."""
    path.write_bytes(b"".join(records))
    (messages,) = repaired_conversations(Source(path)).messages.values()
    said = [message.content for message in messages if isinstance(message, ForeignUser | ForeignReply)]
    return [block.text for content in said for block in content if isinstance(block, TextBlock)]


@pytest.mark.parametrize(
    ("summary", "last", "left"),
    [
        ("The gist.", "The story so far:\nThe gist.", ["Look around.", "Yes.", "The story so far:\nThe gist."]),
        ("The gist.", "Go.", ["Look around.", "Yes.", "Go.", "The gist."]),
        ("", "Go.", ["Look around.", "Seen."]),  # which only the provider can read: nothing is left out
    ],
)
def test_the_new_history_of_codex_stays(tmp_path: Path, summary: str, last: str, left: list[str]) -> None:
    def item(role: str, words: str) -> object:
        return {"type": "message", "role": role, "content": [{"type": "text", "text": words}]}

    again = [
        item("user", "Look around."),
        item("developer", "Be brief."),
        item("assistant", "Yes."),
        item("user", last),
    ]
    history = [*again, {"type": "compaction", "encrypted_content": "x"}]
    compacted = {"type": "compacted", "payload": {"message": summary, "replacement_history": history}}
    before = [codex_session()[0], codex_says("user", "Look around."), codex_says("assistant", "Seen.")]
    assert left_of(tmp_path / "s.jsonl", [*before, line(compacted), codex_says("user", "On.")]) == [*left, "On."]


@pytest.mark.parametrize(("kept", "left"), [(0, []), (1, ["c"]), (2, ["a", "c"]), (9, ["a", "c"])])
def test_the_messages_of_the_user_that_kimi_keeps_stay(tmp_path: Path, kept: int, left: list[str]) -> None:
    def says(words: str) -> bytes:
        return line({"type": "turn.prompt", "input": [{"type": "text", "text": words}]})

    part = {"type": "content.part", "stepUuid": "s", "part": {"type": "text", "text": "b"}}
    answered = line({"type": "context.append_loop_event", "event": part})
    compacted = line({"type": "context.apply_compaction", "summary": "The gist.", "keptUserMessageCount": kept})
    assert left_of(tmp_path / "s.jsonl", [says("a"), answered, says("c"), compacted, says("e")]) == [
        *left,
        "The gist.",
        "e",
    ]


@pytest.mark.parametrize(("head", "left"), [(uuid(3), ["Two.", "Second."]), (uuid(99), [])])
def test_the_segment_that_claude_code_preserves_stays(tmp_path: Path, head: str, left: list[str]) -> None:
    segment = {"headUuid": head, "anchorUuid": uuid(6), "tailUuid": uuid(4)}
    boundary = {"subtype": "compact_boundary", "compactMetadata": {"preservedSegment": segment}}
    records = [
        claude(1, None, "user", asks("One.")),
        claude(2, 1, "assistant", answers("m1", text("First."))),
        claude(3, 2, "user", asks("Two.")),
        claude(4, 3, "assistant", answers("m2", text("Second."))),
        claude(5, None, "system", None, **boundary),
        claude(6, 5, "user", asks("The gist."), isCompactSummary=True),
        claude(7, 6, "user", asks("Three.")),
    ]
    assert left_of(tmp_path / "s.jsonl", records) == ["The gist.", *left, "Three."]


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
