"""What leaves the process: records, states, policies and effects as JSON, there and back, byte for byte."""

import json

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.codec import (
    effects_to_text,
    policy_from_text,
    policy_to_text,
    record_from_text,
    record_to_text,
    state_from_text,
    state_to_text,
)
from loopkernel.data.compactions import Cut
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import AskHook, CallModel, CheckCorrection, Effect, HandOff, Request, Summarise, TellHook
from loopkernel.data.errors import CodecError
from loopkernel.data.events import MessageAdded
from loopkernel.data.ids import CorrectionOperation, HandoffOperation, MessageId, SummaryOperation
from loopkernel.data.messages import UserMessage
from loopkernel.data.policy import Policy
from loopkernel.data.records import LogRecord
from loopkernel.data.states import Idle, State
from loopkernel.data.threads import Thread
from loopkernel.data.vector import GrowingSet, Vector
from loopkernel.data.words import RequestReason
from loopkernel.laws.views import ledger_in
from loopkernel.testing.run import Run
from loopkernel.testing.strategies.deltas import deltas
from loopkernel.testing.strategies.effects import effects_of_any_kind
from loopkernel.testing.strategies.policies import policies
from loopkernel.testing.strategies.states import states, working_states
from loopkernel.testing.strategies.values import times_ms
from loopkernel.testing.strategies.walks import reachable_states, runs
from loopkernel.views.waits import waits_of

from tests.kernel.building import ONE, at_rest, say, text

records = st.builds(LogRecord, deltas, times_ms)


# --- there and back ---------------------------------------------------------------------------------------


@pytest.mark.rule("RESUME-1")
@given(records)
def test_a_record_is_one_line_and_comes_back(record: LogRecord) -> None:
    line = record_to_text(record)
    assert "\n" not in line and line.isascii()
    assert record_from_text(line) == record
    assert record_to_text(record_from_text(line)) == line


@pytest.mark.rule("RESUME-1")
@given(states)
def test_a_state_comes_back(state: State) -> None:
    written = state_to_text(state)
    assert json.loads(written)["loopkernel"] == "state"
    assert state_from_text(written) == state
    assert state_to_text(state_from_text(written)) == written


@pytest.mark.rule("RESUME-1")
@given(working_states() | reachable_states())
def test_what_follows_from_the_calls_is_not_written_and_is_found_again(state: State) -> None:
    back = state_from_text(state_to_text(state))
    ledger = ledger_in(back)
    if ledger is None:
        return
    written = json.loads(state_to_text(state))["value"]["ledger"]
    assert "plan" not in written and "ids" not in written
    assert (ledger.plan, ledger.ids) == (None, None)
    assert waits_of(back) == waits_of(state)


@pytest.mark.rule("RESUME-1")
@pytest.mark.rule("DELTA-8")
@given(policies())
def test_a_policy_comes_back(policy: Policy) -> None:
    written = policy_to_text(policy)
    assert policy_from_text(written) == policy
    assert policy_to_text(policy_from_text(written)) == written


def test_what_equals_its_default_is_left_out() -> None:
    assert json.loads(policy_to_text(Policy()))["value"] == {}


@pytest.mark.rule("RESUME-1")
@pytest.mark.parametrize("length", [0, 1, 32, 33, 1_056, 1_057, 1_100])
def test_a_thread_of_any_length_comes_back(length: int) -> None:
    message = UserMessage(id=MessageId(1), content=text("a"))
    thread = Thread(Vector.of([message] * length), 2, ("m",))
    keys = GrowingSet.of(str(number) for number in range(length % 50))
    session = at_rest().session
    session = evolve(session, thread=thread, inbox=evolve(session.inbox, keys=keys))
    state = evolve(at_rest(), session=session)
    back = state_from_text(state_to_text(state))
    assert back == state
    assert isinstance(back, Idle)
    assert back.session.thread.append(message) == thread.append(message)


# --- refused ----------------------------------------------------------------------------------------------


@pytest.mark.rule("RESUME-1")
def test_another_document_or_version_is_refused_with_all_that_is_wrong() -> None:
    with pytest.raises(CodecError) as raised:
        state_from_text(policy_to_text(Policy()))
    assert [fault.path for fault in raised.value.faults] == ["$.loopkernel"]
    written = json.loads(state_to_text(at_rest()))
    newer = json.dumps({**written, "version": written["version"] + 1})
    with pytest.raises(CodecError, match=f"up to version {written['version']}"):
        state_from_text(newer)


def policy_document(**values: object) -> str:
    return json.dumps({**json.loads(policy_to_text(Policy())), "value": values})


@pytest.mark.rule("DELTA-8")
def test_every_fault_of_a_policy_is_named_with_its_path() -> None:
    document = policy_document(
        max_turns=-1,
        queue_limit=-1,
        output_required=True,
        retry={"factor": 0.5, "base_ms": -1},
        compaction={"keep_turns": None, "trigger_ratio": 2},
        result_limit={"chars": 1},
        prices={"input": -1},
        loop={"note": 1},
        on_truncation={"escalate_to": [0]},
        clear_results={"keep": -1},
        course_correction={"after_calls": -1},
        child={"depth": -1},
        schedule="fastest",
    )
    with pytest.raises(CodecError) as raised:
        policy_from_text(document)
    paths = {fault.path.removeprefix("$.value.") for fault in raised.value.faults}
    assert paths == {
        "max_turns",
        "queue_limit",
        "output_required",
        "retry.factor",
        "retry.base_ms",
        "compaction",
        "compaction.trigger_ratio",
        "result_limit",
        "prices.input",
        "loop.note",
        "on_truncation.escalate_to[0]",
        "clear_results.keep",
        "course_correction.after_calls",
        "child.depth",
        "schedule",
    }


@pytest.mark.parametrize("line", ["", "{}", "[1]", '{"now_ms": 1}', '{"delta": {"type": "say"}, "now_ms": 0}', "NaN"])
def test_what_is_no_record_is_refused(line: str) -> None:
    with pytest.raises(CodecError):
        record_from_text(line)


# --- effects ----------------------------------------------------------------------------------------------


HOLD_A_THREAD = CallModel | CheckCorrection | Summarise | HandOff | AskHook | TellHook


@pytest.mark.rule("RESUME-1")
@given(st.lists(effects_of_any_kind, max_size=3), st.lists(effects_of_any_kind, max_size=3))
def test_equal_effects_are_equal_bytes_and_others_are_not(left: list[Effect], right: list[Effect]) -> None:
    written = effects_to_text(tuple(left))
    assert effects_to_text(tuple(left)) == written
    assert isinstance(json.loads(written), list)
    if not any(isinstance(effect, HOLD_A_THREAD) for effect in left):  # of which its length alone is written
        assert (effects_to_text(tuple(right)) == written) is (left == right)


@pytest.mark.rule("RESUME-1")
@given(runs())
def test_two_runs_of_one_log_give_the_same_bytes(run: Run) -> None:
    again = [record_from_text(record_to_text(record)) for record in run.log]
    assert tuple(again) == run.log
    assert all(json.loads(effects_to_text(step.effects)) is not None for step in run.steps)


def request(thread: Thread) -> Request:
    return Request(
        number=ONE,
        reason=RequestReason.USER,
        model="m",
        instructions="",
        tools=(),
        thread=thread,
        max_output_tokens=None,
    )


def commands_on(thread: Thread) -> tuple[Effect, ...]:
    return (
        CallModel(ONE, request(thread)),
        CheckCorrection(CorrectionOperation(1), thread),
        Summarise(operation=SummaryOperation(1), thread=thread, cut=Cut(1)),
        HandOff(operation=HandoffOperation(1), goal="g", thread=thread),
    )


@pytest.mark.parametrize("place", range(4))
def test_a_thread_in_a_command_stands_as_its_generation_and_length(place: int) -> None:
    message = UserMessage(id=MessageId(1), content=text("a"))
    longer = Thread(Vector.of([message, message]), generation=3)
    (written,) = json.loads(effects_to_text((commands_on(longer)[place],)))
    assert written["thread"] == {"generation": 3, "length": 2}
    assert effects_to_text((commands_on(Thread())[place],)) != effects_to_text((commands_on(longer)[place],))
    other = evolve(message, content=text("b"))
    same_size = Thread(Vector.of([message, other]), generation=3)
    assert effects_to_text((commands_on(same_size)[place],)) == effects_to_text((commands_on(longer)[place],))
    assert effects_to_text((MessageAdded(message),)) != effects_to_text((MessageAdded(other),))


def test_a_delta_is_written_with_its_kind() -> None:
    delta: Delta = say("a", "k")
    written = json.loads(record_to_text(LogRecord(delta, 5)))
    assert (written["delta"]["type"], written["delta"]["key"], written["now_ms"]) == ("say", "k", 5)
