"""The tables of specs/algorithms say what the code does: figures, cuts, and every text for the model."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from loopkernel.data.blocks import MediaBlock, RawInput, TextBlock, ToolCall, ToolResult
from loopkernel.data.children import Reservation, Taken
from loopkernel.data.choices import CompactionStrategy, HookFailure, RunCalls
from loopkernel.data.compactions import ContextSize
from loopkernel.data.hook_calls import OpenHook
from loopkernel.data.ids import CallId, HookOperation, MessageId, ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.messages import AssistantMessage, Message, ResultMessage, UserMessage, UserOrigin
from loopkernel.data.outside_deltas import HookBlock, HookFault
from loopkernel.data.policy import Compaction, Hook, Policy, ResultLimit, Retry
from loopkernel.data.states import State
from loopkernel.data.tools import InvalidCall
from loopkernel.data.usage import Usage
from loopkernel.data.vector import Vector
from loopkernel.data.words import (
    CallStatus,
    CancelReason,
    ErrorClass,
    HookPoint,
    StopReason,
    TurnEndReason,
)
from loopkernel.loop.algorithms import wording
from loopkernel.loop.algorithms.children import share
from loopkernel.loop.algorithms.clearing import CLEARED
from loopkernel.loop.algorithms.compaction import is_too_large, plan_cut
from loopkernel.loop.algorithms.interaction import Interaction
from loopkernel.loop.algorithms.projection import safe_tool_name
from loopkernel.loop.algorithms.references import sources
from loopkernel.loop.algorithms.replies import Outcome, outcome
from loopkernel.loop.algorithms.retry import Dice, delay_ms, jitter_ms
from loopkernel.loop.algorithms.scheduling import containers
from loopkernel.loop.algorithms.shortening import shortened
from loopkernel.loop.gates.hooks import TOO_SLOW, answer_of_hook
from loopkernel.testing.strategies.states import states
from loopkernel.views.explain import interaction_of

FOLDER = Path(__file__).resolve().parents[2] / "specs" / "algorithms"


def page(name: str) -> str:
    """The text of a page of the folder."""
    return (FOLDER / f"{name}.md").read_text(encoding="utf-8")


def table(name: str, heading: str) -> list[list[str]]:
    """The rows of the table of a page that has this heading, without the marks of code."""
    _, found, rest = page(name).partition(f"\n{heading}\n")
    assert found, f"specs/algorithms/{name}.md has no table {heading!r}"
    rows = []
    for line in rest.splitlines()[1:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip().replace("`", "") for cell in line.strip("|").split("|")])
    return rows


# --- figures --------------------------------------------------------------------------------------------


@pytest.mark.rule("RETRY-1")
def test_the_waits() -> None:
    rows = table("failures", "| base, factor, cap | waits |")
    assert len(rows) > 2
    for figures, waits in rows:
        base, factor, cap = figures.split(", ")
        retry = Retry(base_ms=int(base), factor=float(factor), cap_ms=int(cap))
        expected = list(map(int, waits.split(", ")))
        assert [delay_ms(retry, attempt) for attempt in range(1, len(expected) + 1)] == expected


@pytest.mark.rule("RETRY-2")
def test_the_jitter() -> None:
    rows = table("failures", "| seed | session | lineage | request | `jitter_ms` | jitter |")
    assert len(rows) > 4
    for seed, session, lineage, request, limit, expected in rows:
        dice = Dice(seed=int(seed), session_id=session, lineage=int(lineage))
        assert jitter_ms(dice, int(request), int(limit)) == int(expected)


def test_the_page_gives_the_constants_of_the_jitter() -> None:
    text = page("failures")
    for constant in (0xCBF29CE484222325, 0x100000001B3, 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB):
        assert f"`{constant:#x}`" in text


@pytest.mark.rule("TOOL-2")
def test_the_keys_that_contain_a_key() -> None:
    rows = table("schedule", "| key | is contained in |")
    assert len(rows) > 3
    for key, within in rows:
        assert containers(key) == tuple(filter(None, within.split(", ")))


@pytest.mark.rule("COMPACT-1")
def test_when_a_thread_is_too_large() -> None:
    rows = table("context", "| tokens | characters | `trigger_tokens` | too large |")
    assert {row[-1] for row in rows} == {"yes", "no"}
    for tokens, characters, trigger, large in rows:
        policy = Compaction(trigger_ratio=None, trigger_tokens=int(trigger))
        assert is_too_large(ContextSize(int(tokens), int(characters)), policy) is (large == "yes")


@pytest.mark.rule("LIMIT-2", "CHILD-1")
def test_the_shares_of_sub_agents() -> None:
    rows = table("children", "| limit, used, reserved | m | share of tokens |")
    assert len(rows) > 2
    for figures, among, expected in rows:
        limit, used, reserved = map(int, figures.split(", "))
        policy = Policy(max_total_tokens=limit)
        found = share(policy, Usage(input=used), 1, Taken(shares=1, tokens=reserved), int(among))
        assert found == (None if expected == "nothing" else Reservation(tokens=int(expected)))


# --- replies, labels ------------------------------------------------------------------------------------

# What the words of the table mean, under each of the signs that calls run by.
MEANINGS: dict[str, tuple[Outcome, Outcome]] = {
    "they run": (Outcome.RUN_CALLS, Outcome.RUN_CALLS),
    "they run, unless run_calls is stop_reason: then they are skipped": (Outcome.RUN_CALLS, Outcome.SKIP_CALLS),
    "they run if run_calls is content, else they are skipped": (Outcome.RUN_CALLS, Outcome.SKIP_CALLS),
    "continued": (Outcome.CONTINUE_PAUSED,) * 2,
    "truncated": (Outcome.TRUNCATED,) * 2,
    "refused": (Outcome.REFUSED,) * 2,
    "refused: they are skipped": (Outcome.REFUSED,) * 2,
    "blocked": (Outcome.BLOCKED,) * 2,
    "blocked: they are skipped": (Outcome.BLOCKED,) * 2,
}


@pytest.mark.rule("INFER-5")
def test_what_a_reply_leads_to() -> None:
    rows = table("requests", "| stop | with calls | without calls |")
    told: set[StopReason] = set()
    for stops, with_calls, without in rows:
        for stop in map(StopReason, stops.split(", ")):
            told.add(stop)
            for sign in RunCalls:
                stopped = stop is StopReason.STOP_SEQUENCE and sign is RunCalls.EITHER
                meant = MEANINGS[with_calls][sign is RunCalls.STOP_REASON or stopped]
                assert outcome(sign, stop, calls=True, text=True) is meant
                if without in ("the same", "with text a natural end, else an empty reply"):
                    assert outcome(sign, stop, calls=False, text=True) is Outcome.NATURAL_END
                    assert outcome(sign, stop, calls=False, text=False) is Outcome.EMPTY
                else:
                    assert outcome(sign, stop, calls=False, text=True) is MEANINGS[without][0]
    assert told == set(StopReason)


def test_the_labels_of_the_phases() -> None:
    """Each phase has a row, and no label stands there but those that it can have."""
    rows = table("steps", PHASES)
    phases = [phase for row in rows for phase in row[0].split(", ")]
    assert sorted(phases) == sorted(phase.__name__ for phase in get_args(State))
    labels = {label.split(",")[0] for row in rows for label in row[1:] if label}
    assert labels == {label.value for label in Interaction}


PHASES = (
    "| phase | handoff open | inference | thread empty | resting | a call waits for a person | a tool runs | else |"
)


@given(states)
def test_a_state_has_a_label_of_its_row(state: State) -> None:
    rows = table("steps", PHASES)
    row = next(row for row in rows if type(state).__name__ in row[0].split(", "))
    assert interaction_of(state).value in {label.split(",")[0] for label in row[1:]}


# --- cuts -----------------------------------------------------------------------------------------------


def messages(letters: str) -> Vector[Message]:
    """A thread, a letter for each message."""
    made: list[Message] = []
    for number, letter in enumerate(letters, start=1):
        call = CallId(ModelOperation(number), 1)
        text = (TextBlock(letter),)
        match letter:
            case "a" | "t":
                asked = ToolCall(id=call, provider_id="c", tool="read", input=RawInput(""))
                content = (asked,) if letter == "a" else text
                reply = AssistantMessage(
                    id=MessageId(number), reply=call.reply, model="m", content=content, stop=StopReason.END_TURN
                )
                made.append(reply)
            case "r":
                before = made[-1]
                assert isinstance(before, AssistantMessage)
                result = ToolResult(
                    call=before.calls[0].id, provider_id="c", tool="read", status=CallStatus.DONE, content=text
                )
                made.append(ResultMessage(id=MessageId(number), reply=before.reply, results=(result,)))
            case _:
                origin = {"u": UserOrigin.SAID, "s": UserOrigin.STEERED, "S": UserOrigin.SUMMARY}[letter]
                made.append(UserMessage(id=MessageId(number), content=text, origin=origin))
    return Vector.of(made)


def keeping(how: str, strategy: str) -> Compaction:
    """The policy that keeps so much: `2 turns`, `3 messages`, `ratio 0.5`."""
    chosen = CompactionStrategy(strategy)
    first, second = how.split()
    if first == "ratio":
        return Compaction(strategy=chosen, keep_turns=None, keep_ratio=float(second))
    if second.startswith("turn"):
        return Compaction(strategy=chosen, keep_turns=int(first))
    return Compaction(strategy=chosen, keep_turns=None, keep_messages=int(first))


@pytest.mark.rule("COMPACT-2")
def test_the_cuts() -> None:
    rows = table("context", "| messages | strategy | keep | kept |")
    assert len(rows) > 8
    for thread, strategy, keep, kept in rows:
        letters = thread.replace(" ", "")
        cut = plan_cut(messages(letters), keeping(keep, strategy))
        if "no cut" in kept:
            assert cut is None, thread
            continue
        marks = re.sub(r"[ \]]", "", kept)
        opening = marks.find("(")
        bare = marks.replace("(", "").replace(")", "")
        assert bare.replace("[", "") == letters
        assert cut is not None, thread
        assert (cut.until, cut.opening) == (bare.index("["), None if opening < 0 else opening), thread


# --- texts ----------------------------------------------------------------------------------------------

TOOL, WHY, TEXT, MESSAGE = "TOOL", "WHY", "TEXT", "MESSAGE"


def the_structure() -> str:
    given = Json.of([{"$result": "c1"}, {"$result": "c9"}, {"$result": 1}])
    found = sources({}, "c1", (), given)
    return f'call "c1" cannot be placed among the others: {"; ".join(found.faults)}'


def a_failed_hook() -> str:
    hook = Hook(point=HookPoint.BEFORE_TOOL, name="NAME", gated=True)
    gate = OpenHook(operation=HookOperation(1), hook=hook)
    said = answer_of_hook(Policy(hook_failure=HookFailure.CLOSED), gate, HookFault(WHY))
    assert isinstance(said, HookBlock)
    return said.why


def a_short_text() -> str:
    content = (TextBlock("HEAD" + "." * 12_345 + "TAIL"),)
    (block,) = shortened(content, ResultLimit(chars=10, head=4, tail=4))
    assert isinstance(block, TextBlock)
    return block.text


def a_placeholder() -> str:
    (block,) = shortened((MediaBlock("image/png", "." * 12_345),), ResultLimit(media_chars=10))
    assert isinstance(block, TextBlock)
    return block.text


SENTENCES: dict[str, str] = {
    "nudge": wording.NUDGE,
    "demand": wording.demand_text(TOOL),
    "continue": wording.CONTINUE,
    "broken off": wording.BROKEN_OFF,
    "missing calls": wording.MISSING_CALLS,
    "refusal": wording.REFUSAL,
    "fed back": wording.failure_text(ErrorClass.SERVER, MESSAGE),
    "fed back..": wording.failure_text(ErrorClass.SERVER, " "),
    "repetition": wording.repetition_text(TOOL),
    "stopped reply": wording.STOPPED_REPLY,
    "summary": wording.summary_text(TEXT),
    "gap": wording.GAP,
    "stop hook..": wording.stop_hook_text(" "),
    "correction": wording.correction_text(TEXT),
    "background end": wording.background_end_text(TOOL, str(CallId(ModelOperation(3), 1)), "has ended"),
    "background failure": wording.background_end_text(TOOL, "3.1", "has failed"),
    "background loss": wording.background_end_text(TOOL, "3.1", "is lost"),
    "background stop": wording.background_end_text(TOOL, "3.1", "was stopped"),
    **{reason.value: wording.cancelled_text(reason) for reason in CancelReason},
    "unknown tool": wording.unknown_tool_text(TOOL),
    "invalid": wording.invalid_call_text(TOOL, WHY),
    "denied": wording.denied_text(TOOL),
    "denied, too wide": wording.denied_text(TOOL, "secrets/*"),
    "disabled": wording.disabled_text(TOOL),
    "too deep": wording.too_deep_text(TOOL),
    "blocked": wording.blocked_text(TOOL, WHY),
    "blocked..": wording.blocked_text(TOOL, " "),
    "unreachable, after an error": wording.unreachable_text("c1", CallStatus.ERROR),
    "unreachable": wording.unreachable_text("c1", CallStatus.CANCELLED),
    "rejected": wording.rejected_text(WHY),
    "rejected..": wording.rejected_text(" "),
    "rejected by time": wording.REJECTED_BY_TIME,
    "corrected": wording.edited_text(TOOL, "INPUT", swapped=False),
    "swapped": wording.edited_text(TOOL, "INPUT", swapped=True),
    "background": wording.background_text(TOOL),
    "child": wording.child_end_text(TurnEndReason.MAX_TURNS, TEXT),
    "child..": wording.child_end_text(TurnEndReason.MAX_TURNS, " "),
    "lost": wording.LOST,
    "no result": wording.NO_RESULT,
    "output": wording.OUTPUT_TAKEN,
    "cut call": wording.cut_call_text(TOOL),
    "cleared": CLEARED,
    "shortened": a_short_text(),
    "medium": a_placeholder(),
    "call note": wording.call_note(TOOL, ran=False),
    "call note..": wording.call_note(TOOL, ran=True),
    "unparsed": InvalidCall(wording.UNPARSED).why,
    "structure": the_structure(),
    "slow hook": TOO_SLOW.why,
    "failed hook": a_failed_hook(),
    "silence": "the model was silent for too long",
    "unsafe name": safe_tool_name(""),
}


def rows_of_texts() -> Iterator[tuple[str, str]]:
    """The name and the text of each row of the page."""
    for name, text in re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", page("texts"), re.MULTILINE):
        if name != "name":
            yield name, text


def test_the_texts_are_those_of_the_code() -> None:
    assert dict(rows_of_texts()) == {name: text.replace("\n", "\\n") for name, text in SENTENCES.items()}
    assert len(list(rows_of_texts())) == len(SENTENCES)


def test_no_text_of_the_code_is_missing() -> None:
    functions = {name for name, value in vars(wording).items() if callable(value) and name[0].islower()}
    constants = {value for name, value in vars(wording).items() if name.isupper() and isinstance(value, str)}
    told = set(SENTENCES.values())
    assert constants <= told
    source = Path(__file__).read_text(encoding="utf-8")
    own = {name for name in functions if vars(wording)[name].__module__ == wording.__name__}
    assert [name for name in sorted(own) if f"wording.{name}(" not in source] == []
