"""The strategies: nothing is left out, what they build is coherent, and they shrink to something small."""

import os
from random import Random
from typing import TypeVar, get_args

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from loopkernel.codec import (
    effects_to_text,
    policy_from_text,
    policy_to_text,
    record_from_text,
    record_to_text,
    state_from_text,
    state_to_text,
)
from loopkernel.data.blocks import AssistantBlock, TextBlock, UserBlock
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import Effect
from loopkernel.data.json_text import parse_json
from loopkernel.data.messages import Message, ResultMessage
from loopkernel.data.policy import Policy
from loopkernel.data.remembered import Remembered
from loopkernel.data.states import (
    State,
)
from loopkernel.data.threads import Thread
from loopkernel.data.tools import Verdict
from loopkernel.data.user_deltas import Remembrance, Say
from loopkernel.replaying import LogRecord, fold
from loopkernel.testing.run import Run
from loopkernel.testing.strategies import values
from loopkernel.testing.strategies.conversation import (
    assistant_blocks,
    broken_threads,
    messages,
    threads,
    user_blocks,
    verdicts,
)
from loopkernel.testing.strategies.deltas import deltas, remembrances
from loopkernel.testing.strategies.effects import effects_of_any_kind
from loopkernel.testing.strategies.policies import policies, remembered
from loopkernel.testing.strategies.states import (
    backoff_states,
    compacting_states,
    finishing_states,
    initial_states,
    states,
    streaming_states,
    thinking_states,
    working_states,
)
from loopkernel.testing.strategies.walks import EVENTFUL, creations_that_run, reachable_states, runs

from tests.kernel.testing.coherence import incoherences, kinds_in

T = TypeVar("T")
SEARCH = settings(
    max_examples=20_000,
    database=None,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)


def kinds(union: object) -> list[type]:
    """The classes of a union."""
    return list(get_args(union))


def minimal(strategy: SearchStrategy[T], condition: object) -> T:
    """The simplest value that meets the condition. The dice are the same each time: others may end beside it."""
    assert callable(condition)
    search = settings(SEARCH, phases=[Phase.generate, Phase.shrink])
    return find(strategy, condition, settings=search, random=Random(0))


@pytest.mark.parametrize(
    ("strategy", "union"),
    [
        (deltas, Delta),
        (effects_of_any_kind, Effect),
        (states, State),
        (user_blocks, UserBlock),
        (assistant_blocks, AssistantBlock),
        (messages, Message),
        (verdicts, Verdict),
        (remembrances, Remembrance),
        (remembered, Remembered),
    ],
    ids=["deltas", "effects", "states", "user", "assistant", "messages", "verdicts", "remembrances", "remembered"],
)
def test_every_class_is_built(strategy: SearchStrategy[object], union: object) -> None:
    missing = set(kinds(union))

    def is_the_last_that_was_missing(value: object) -> bool:
        missing.discard(type(value))
        return not missing

    find(strategy, is_the_last_that_was_missing, settings=SEARCH)


@pytest.mark.parametrize("awkward", ["\ud800", "\u2028", "\x00", "\u202e"])
def test_awkward_texts_come(awkward: str) -> None:
    assert awkward in find(values.raw_texts, lambda text: awkward in text, settings=SEARCH)


@given(deltas, values.times_ms)
def test_every_delta_can_be_logged(delta: Delta, now_ms: int) -> None:
    record = LogRecord(delta, now_ms)
    assert record_from_text(record_to_text(record)) == record


@given(states)
def test_every_state_can_be_kept(state: State) -> None:
    assert state_from_text(state_to_text(state)) == state


@given(policies())
def test_every_policy_can_be_kept(policy: Policy) -> None:
    assert policy_from_text(policy_to_text(policy)) == policy


@given(effects_of_any_kind)
def test_every_effect_can_be_written(effect: Effect) -> None:
    written = parse_json(effects_to_text((effect,)))
    assert isinstance(written, list)
    assert len(written) == 1


# --- coherence ------------------------------------------------------------------------------------------


@given(states)
def test_states_built_by_hand_are_coherent(state: State) -> None:
    assert list(incoherences(state)) == []


EVERY_KIND: list[tuple[SearchStrategy[State], set[str]]] = [
    (
        working_states(),
        {
            *("ApprovalWait", "QuestionWait", "CrashWait", "nobody"),
            *("edit being checked", "edited", "approved and waiting", "sources", "resolved references"),
            *("tool_timeout", "approval_timeout", "batch", "background", "lease", "background end"),
            *("end then Failure", "end then GoOn", "end then Ending", "out of budget"),
            *("watched calls", "disabled tool", "recovery in Executing", "recovery in Confirming"),
            *("Dispatching", "recovery in Dispatching", "ChildWait", "child_timeout", "hook_timeout", "compacted"),
            *("gate before_tool", "gate after_tool", "looked at by hooks", "input of a hook", "course checked"),
        },
    ),
    (streaming_states(), {"silence", "silence to look at again", "recovery in Streaming", "gate after_model"}),
    (thinking_states(), {"gate before_invocation", "gate before_model", "recovery in Thinking", "compacted"}),
    (compacting_states(), {"at rest", "in a turn", "after a failure", "recovery in Compacting", "compacted"}),
    (backoff_states(), {"recovery in Backoff"}),
    (initial_states(), {"released in Initial"}),
    (
        finishing_states(),
        {"gate stop", "gate after_invocation", "correction", "end then NextQueued", "final", "recovery in Finishing"},
    ),
]


@pytest.mark.parametrize(
    ("strategy", "kinds"), EVERY_KIND, ids=["work", "stream", "think", "compact", "backoff", "initial", "finish"]
)
def test_states_hold_everything_that_a_call_and_a_turn_can_be(strategy: SearchStrategy[State], kinds: set[str]) -> None:
    missing = set(kinds)

    def holds_the_last_that_was_missing(state: State) -> bool:
        missing.difference_update(kinds_in(state))
        return not missing

    find(strategy, holds_the_last_that_was_missing, settings=SEARCH)


@given(reachable_states())
def test_so_are_those_that_a_run_reaches(state: State) -> None:
    assert list(incoherences(state)) == []


@given(threads())
def test_coherent_threads_answer_every_call_right_after_its_reply(thread: Thread) -> None:
    said = list(thread)
    assert [message.id for message in said] == list(range(1, len(said) + 1))
    for message, after in zip(said, [*said, None][1:], strict=True):
        calls = [] if isinstance(message, ResultMessage) else [call.id for call in getattr(message, "calls", ())]
        if calls:
            assert isinstance(after, ResultMessage)
            assert [result.call for result in after.results] == calls


def test_broken_threads_are_broken() -> None:
    def answers_nothing(thread: Thread) -> bool:
        first = next(iter(thread), None)
        return isinstance(first, ResultMessage) and len(first.results) > 0

    assert answers_nothing(find(broken_threads, answers_nothing, settings=SEARCH))


# --- runs -----------------------------------------------------------------------------------------------


def test_runs_reach_every_phase_that_is_built() -> None:
    """The quick suite begins most runs so that they soon come to the phases which are rare; that under another
    Python, and the deep one, looks among runs of any kind. Both look at as many as it takes.
    """
    missing = set(kinds(State))

    def reaches_the_last_that_was_missing(run: Run) -> bool:
        missing.difference_update(type(step.after) for step in run.steps)
        return not missing

    is_quick = os.environ.get("HYPOTHESIS_PROFILE", "quick") == "quick"
    eventful = st.one_of(*(runs(creations=creations) for creations in (creations_that_run, *EVENTFUL)))
    find(eventful if is_quick else runs(), reaches_the_last_that_was_missing, settings=SEARCH)


@given(runs())
def test_a_run_is_the_fold_of_its_log(run: Run) -> None:
    assert fold(run.log) == tuple(run.steps)


# --- shrinking ------------------------------------------------------------------------------------------


def test_a_delta_shrinks_to_the_plainest_of_its_class() -> None:
    assert minimal(deltas, lambda delta: isinstance(delta, Say)) == Say(content=())


def test_a_policy_shrinks_to_the_default_but_for_what_matters() -> None:
    assert minimal(policies(), lambda policy: policy.max_turns == 3) == Policy(max_turns=3)


def test_a_text_shrinks_to_a_letter() -> None:
    assert minimal(user_blocks, lambda block: isinstance(block, TextBlock) and block.text != "") == TextBlock("a")
