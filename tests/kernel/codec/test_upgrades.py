"""Snapshots of release 0.2 (state documents of version 2): each is read, written back, and gone on from."""

from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from loopkernel.codec import STATE_VERSION, state_from_text, state_to_text
from loopkernel.data.endings import Ending, NextInput
from loopkernel.data.errors import CodecError
from loopkernel.data.json_text import canonical_text, parse_json
from loopkernel.data.messages import UserMessage
from loopkernel.data.records import StepRecord
from loopkernel.data.states import Confirming, Executing, Finishing, Idle, Streaming
from loopkernel.data.steps import Context, Step
from loopkernel.data.thread_deltas import Resumed
from loopkernel.data.user_deltas import CancelAll
from loopkernel.laws.judging import check_step
from loopkernel.transition import settle, transition

from tests.kernel.building import a, after, enqueue, entries_of, say, session_of, steer, succeeded

VECTORS = Path(__file__).resolve().parents[3] / "specs" / "vectors"
SNAPSHOTS = (VECTORS / "states-2.jsonl").read_text(encoding="ascii").splitlines()


def value_of(text: str) -> Any:  # Any: a document of an older shape
    document: Any = parse_json(text)
    assert (document["loopkernel"], document["version"]) == ("state", 2)
    return document["value"]


OLD: list[Any] = [value_of(text) for text in SNAPSHOTS]  # Any: as above
ENDING = [text for text, old in zip(SNAPSHOTS, OLD, strict=True) if "ending" in old and "ledger" in old]
GATED = [text for text, old in zip(SNAPSHOTS, OLD, strict=True) if old["type"] == "finishing"]
DEMANDED = [text for text, old in zip(SNAPSHOTS, OLD, strict=True) if old.get("turn", {}).get("demanded")]


def test_the_snapshots_show_what_release_0_2_could_hold() -> None:
    phases = {old["type"] for old in OLD}
    assert phases >= {"initial", "idle", "streaming", "executing", "confirming", "cancelled", "done", "finishing"}
    assert {old["type"] for old in OLD if "ending" in old and "ledger" in old} == {"executing", "confirming"}
    assert any("then" in value_of(text)["ending"] for text in GATED)
    assert {value_of(text)["turn"]["reason"] for text in DEMANDED} == {"nudge", "next_turn"}
    assert any("ledger" in old for old in OLD if old["type"] == "initial")


@pytest.mark.rule("RESUME-1")
@pytest.mark.parametrize("text", SNAPSHOTS)
def test_a_snapshot_is_read_and_written_back_in_the_present_version(text: str) -> None:
    state = state_from_text(text)
    written = state_to_text(state)
    assert state_from_text(written) == state
    assert written.startswith(f'{{"loopkernel":"state","version":{STATE_VERSION},')


@pytest.mark.rule("RESUME-1")
@pytest.mark.rule("RESUME-3")
@pytest.mark.parametrize("text", SNAPSHOTS)
def test_the_run_goes_on_from_a_snapshot_within_every_law(text: str) -> None:
    before = state_from_text(text)
    for delta in (Resumed(), say("go on"), steer("this way"), CancelAll(), enqueue("and then")):
        context = Context(delta, before.stamp.now_ms + 1)
        found = transition(before, context)
        assert check_step(StepRecord(before, context, *found), 0) == ()
        before = found.next


@pytest.mark.rule("TOOL-9")
@pytest.mark.rule("RETRY-7")
@pytest.mark.parametrize("text", ENDING)
def test_the_turn_of_a_failed_reply_ends_as_it_was_to_end_once_its_calls_are_answered(text: str) -> None:
    state = state_from_text(text)
    assert isinstance(state, Executing | Confirming)
    old = value_of(text)["ending"]
    ending = a(Ending, state.settled)
    assert (ending.reason.value, ending.error and ending.error.value) == (old["reason"], old["error"])
    for entry in entries_of(state):
        if entry.is_open and entry.operation is not None:
            state = after(state, succeeded(entry.operation))
    rest = a(Idle, state)
    assert rest.session.last_end is ending.reason
    assert rest.session.error is not None
    assert rest.session.error.error is ending.error


@pytest.mark.rule("INPUT-1")
@pytest.mark.parametrize("text", GATED)
def test_a_turn_that_was_ending_ends_and_the_message_behind_it_starts_its_own(text: str) -> None:
    waiting = a(Finishing, state_from_text(text))
    old = value_of(text)["ending"]
    following = settle(Step(evolve(waiting, hook=None), ())).next
    assert session_of(following).last_end is waiting.ending.reason
    assert waiting.ending.reason.value == old["reason"]
    if "then" not in old:
        assert waiting.ending.then is None
        assert isinstance(following, Idle)
    else:
        then = a(NextInput, waiting.ending.then)
        assert (then.receipt, then.key, then.replaces) == (old["then"]["receipt"], old["then"].get("key"), None)
        *_, last = a(Streaming, following).session.thread
        assert a(UserMessage, last).content == then.content


@pytest.mark.rule("CALL-5")
@pytest.mark.parametrize("text", DEMANDED)
def test_an_output_that_was_demanded_is_still_owed_by_the_reply_to_the_demand_alone(text: str) -> None:
    state = state_from_text(text)
    assert isinstance(state, Streaming | Executing)
    turn = value_of(text)["turn"]
    assert state.turn.demanded
    under_way = isinstance(state, Streaming) and turn["reason"] == "nudge"
    assert state.turn.forcing is under_way
    if isinstance(state, Streaming):
        again = a(Streaming, after(state, Resumed()))
        assert again.turn.forcing is state.turn.forcing


@pytest.mark.rule("RESUME-1")
@pytest.mark.parametrize("value", [None, [], 1, "idle"])
def test_what_is_no_state_of_version_2_is_a_fault(value: Any) -> None:  # Any: no state
    with pytest.raises(CodecError) as caught:
        state_from_text(canonical_text({"loopkernel": "state", "version": 2, "value": value}))
    (fault,) = caught.value.faults
    assert str(fault) == "$.value: is no state of version 2: TypeError on the way to the next version"


def test_parts_that_are_no_objects_are_left_to_be_told_as_faults() -> None:
    broken: list[Any] = [  # Any: no states
        {"type": "executing", "ending": [], "turn": 1},
        {"type": "finishing", "ending": {"then": "later"}, "turn": []},
        {"type": "idle", "session": {}, "stamp": {}},
    ]
    for value in broken:
        with pytest.raises(CodecError) as caught:
            state_from_text(canonical_text({"loopkernel": "state", "version": 2, "value": value}))
        assert all(str(fault).startswith("$.value.") for fault in caught.value.faults)


@pytest.mark.rule("RESUME-1")
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize(
    "value", ["[]", "1", '{"type": "executing", "ledger": {"entries": 3}}', '{"type": "idle", "session": []}']
)
def test_what_is_no_state_of_an_older_version_is_refused_and_not_raised(version: int, value: str) -> None:
    with pytest.raises(CodecError):
        state_from_text(f'{{"loopkernel": "state", "version": {version}, "value": {value}}}')
