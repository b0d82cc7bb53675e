"""Old result bodies are cleared before a request, against a list that is walked anew each time."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.blocks import ToolResult
from loopkernel.data.choices import ClearMoment
from loopkernel.data.effects import CallModel
from loopkernel.data.events import ResultsCleared
from loopkernel.data.ids import CallId, ModelOperation
from loopkernel.data.messages import ResultMessage, UserOrigin
from loopkernel.data.policy import ClearResults
from loopkernel.data.sessions import Session
from loopkernel.data.words import CallStatus
from loopkernel.loop.algorithms.clearing import CLEARED, is_cleared
from loopkernel.loop.history.compaction import clear_results, clear_under_pressure, clears_under_pressure
from loopkernel.loop.history.thread import add_note, add_results

from tests.kernel.building import (
    ASKING_NOBODY,
    after,
    asked,
    at_rest,
    call_id,
    completed,
    effects_of,
    made_call,
    of_kind,
    session_of,
    succeeded,
    text,
)
from tests.kernel.drafts import drafted, outcome

EACH = ClearMoment.EACH_REQUEST
MOMENTS = st.sampled_from(ClearMoment)


def session_with(policy: ClearResults | None) -> Session:
    return at_rest(evolve(ASKING_NOBODY, clear_results=policy)).session


def grown(session: Session, reply: int, results: int) -> Session:
    """The session with one more message of so many results, and a note behind it."""
    answers = tuple(
        ToolResult(call=call_id(n, reply), provider_id="p", tool="read", status=CallStatus.DONE, content=text("out"))
        for n in range(1, results + 1)
    )
    session, _ = outcome(add_results(drafted(session), ModelOperation(reply), answers))
    session, _ = outcome(add_note(drafted(session), "go on", UserOrigin.NUDGE))
    return session


def bodies(session: Session) -> list[CallId]:
    """The calls whose results have their bodies, in order."""
    messages = [message for message in session.thread if isinstance(message, ResultMessage)]
    return [result.call for message in messages for result in message.results if not is_cleared(result)]


@pytest.mark.rule("TOOL-11")
@given(
    st.builds(ClearResults, above=st.integers(0, 6), keep=st.integers(0, 6), when=st.just(EACH)),
    st.lists(st.integers(0, 4), max_size=6),
)
def test_above_a_count_all_but_the_latest_lose_their_body(policy: ClearResults, counts: list[int]) -> None:
    session = session_with(policy)
    for reply, results in enumerate(counts, 1):
        session = grown(session, reply, results)
        before = bodies(session)
        generation = session.thread.generation
        session, effects = outcome(clear_results(drafted(session)))
        old = before[: len(before) - policy.keep] if len(before) > max(policy.above, policy.keep) else []
        assert bodies(session) == before[len(old) :]
        assert session.bodies == len(bodies(session))
        assert list(effects) == ([ResultsCleared(tuple(old))] if old else [])
        assert session.thread.generation == generation + (1 if old else 0)
        first = next((index for index, message in enumerate(session.thread) if _has_body(message)), len(session.thread))
        assert session.bodies_from <= first  # nothing that has a body is passed over


def _has_body(message: object) -> bool:
    return isinstance(message, ResultMessage) and any(not is_cleared(result) for result in message.results)


@pytest.mark.rule("TOOL-11")
def test_a_cleared_result_keeps_all_but_its_body() -> None:
    session = grown(session_with(ClearResults(above=1, keep=1, when=EACH)), 1, 2)
    (before,) = [message for message in session.thread if isinstance(message, ResultMessage)]
    following, _ = outcome(clear_results(drafted(session)))
    (after_it,) = [message for message in following.thread if isinstance(message, ResultMessage)]
    assert after_it.results == (evolve(before.results[0], content=text(CLEARED)), before.results[1])


@pytest.mark.rule("TOOL-11")
@pytest.mark.parametrize("policy", [None, ClearResults(above=0, keep=0, when=ClearMoment.ON_PRESSURE)])
def test_only_at_each_request_and_if_policy_says_so(policy: ClearResults | None) -> None:
    session = grown(session_with(policy), 1, 3)
    assert outcome(clear_results(drafted(session))) == (session, ())


@pytest.mark.rule("TOOL-11")
@pytest.mark.rule("INFER-1")
def test_the_next_request_is_made_from_the_smaller_thread() -> None:
    policy = evolve(ASKING_NOBODY, clear_results=ClearResults(above=2, keep=1, when=EACH))
    state = after(asked(policy), *[made_call()] * 3, completed(), succeeded(1), succeeded(2))
    effects = effects_of(state, succeeded(3))
    cleared, call = effects[-2:]
    assert cleared == ResultsCleared((call_id(1), call_id(2)))
    assert isinstance(call, CallModel)
    assert call.request.thread == session_of(after(state, succeeded(3))).thread
    assert of_kind(ResultsCleared, effects_of(state, succeeded(3), completed(reply=2))) == []


@pytest.mark.rule("INFER-8")
@pytest.mark.rule("TOOL-11")
@given(
    st.none() | st.builds(ClearResults, above=st.integers(0, 9), keep=st.integers(0, 6), when=MOMENTS),
    st.lists(st.integers(0, 4), max_size=5),
)
def test_under_pressure_all_but_the_latest_lose_their_body_whatever_their_count(
    policy: ClearResults | None, counts: list[int]
) -> None:
    session = session_with(policy)
    for reply, results in enumerate(counts, 1):
        session = grown(session, reply, results)
    before = bodies(session)
    clearing = clears_under_pressure(session)
    cleared = drafted(session) if clearing is None else clear_under_pressure(drafted(session), clearing)
    following, effects = outcome(cleared)
    old = before[: max(len(before) - policy.keep, 0)] if policy is not None else []
    assert bodies(following) == before[len(old) :]
    assert list(effects) == ([ResultsCleared(tuple(old))] if old else [])
    assert (following == session) is (not old)
    assert following.bodies == len(bodies(following))
    assert clears_under_pressure(following) is None  # once more clears nothing more
