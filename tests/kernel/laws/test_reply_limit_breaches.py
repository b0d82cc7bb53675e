"""What the laws say of a reply under way that goes on past a limit, or is cut otherwise than it must be."""

from collections.abc import Callable

import pytest
from attrs import evolve
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import AbortModel, Effect
from loopkernel.data.events import LimitReached, MessageAdded
from loopkernel.data.json_text import Json
from loopkernel.data.messages import AssistantMessage
from loopkernel.data.model_deltas import (
    ModelCall,
    ModelInput,
    ModelOpaque,
    ModelReasoning,
    ModelServerCall,
    ModelStarted,
    ModelText,
    ModelUsage,
)
from loopkernel.data.outside_deltas import TimerFired
from loopkernel.data.policy import Policy
from loopkernel.data.states import State, Streaming
from loopkernel.data.user_deltas import Say
from loopkernel.data.words import LimitName
from loopkernel.judging import check_trace
from loopkernel.replaying import LogRecord, StepRecord, fold

from tests.kernel.building import ASKING_NOBODY, ONE, asked, say
from tests.kernel.laws.tampering import Case, after, changed, findings, instead, less, more, with_session
from tests.kernel.planted.limit_runs import LIMIT_SCRIPTS
from tests.kernel.played import PLAYED

Change = Callable[[StepRecord], StepRecord]


def streams_on(step: StepRecord) -> StepRecord:
    """The reply that was to end goes on, and its report is counted as accepted."""
    before = step.before
    assert isinstance(before, Streaming)
    reply, delta = before.reply, step.context.delta
    if isinstance(delta, ModelUsage):
        reply = reply.used(delta.usage)
    going = evolve(before, stamp=step.after.stamp, reply=reply)
    return evolve(step, after=going, effects=())


def under(change: Callable[[Policy], Policy]) -> Change:
    """The step, after which another policy stands in the state."""
    return with_session(
        lambda session: evolve(session, settings=evolve(session.settings, policy=change(session.settings.policy)))
    )


def without_time(state: State) -> State:
    assert isinstance(state, Streaming)
    return evolve(state, time_limit=None)


def without_content(effect: Effect) -> Effect:
    if isinstance(effect, MessageAdded) and isinstance(effect.message, AssistantMessage):
        return MessageAdded(evolve(effect.message, content=()))
    return effect


CASES = (
    Case(
        "BUDGET",
        "request 1 has brought 16 characters of 12, and streams on",
        lambda: changed("long_reply", ModelText, streams_on, 3),
    ),
    Case(
        "BUDGET",
        "request 1 reports what it has used, and streams on, though tokens is spent",
        lambda: changed("dear_reply", ModelUsage, streams_on, 2),
    ),
    Case(
        "BUDGET",
        "request 1 streams on, though its turn has no more time",
        lambda: changed("timed_reply", TimerFired, streams_on),
    ),
    Case(
        "BUDGET",
        "reply 1 is cut, and what it said is not kept",
        lambda: changed("timed_reply", TimerFired, less(MessageAdded)),
    ),
    Case(
        "BUDGET",
        "reply 1 is cut, and what is kept is not what it said",
        lambda: changed("timed_reply", TimerFired, instead(without_content)),
    ),
    Case(
        "BUDGET",
        "reply 1 is cut by a limit, and the model is not stopped",
        lambda: changed("timed_reply", TimerFired, less(AbortModel)),
    ),
    Case(
        "BUDGET",
        "reply_size is said to be passed by 4 characters",
        lambda: changed("long_reply", ModelText, more(LimitReached(LimitName.REPLY_SIZE))),
    ),
    Case(
        "BUDGET",
        "reply_size is said to be passed by 0 characters",
        lambda: changed("reads", Say, more(LimitReached(LimitName.REPLY_SIZE))),
    ),
    Case(
        "TIMER-DATA",
        "reply 1 has time until None ms, and 530 ms is due",
        lambda: changed("timed_reply", Say, after(without_time)),
    ),
    Case(
        "TIMER-DATA",
        "reply 1 has time until 530 ms, and None ms is due",
        lambda: changed("timed_reply", Say, under(lambda policy: evolve(policy, max_wall_ms=None))),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=[f"{case.law}: {case.says}" for case in CASES])
def test_the_law_says_what_is_wrong(case: Case) -> None:
    told = findings(case.run(), case.law)
    assert any(case.says in detail for detail in told), told


def test_a_run_may_be_judged_from_amid_a_reply() -> None:
    """What has come before the first step that is judged counts."""
    policy = evolve(ASKING_NOBODY, max_reply_chars=40)
    begun = asked(policy, ModelText(ONE, "0123456789"))
    pieces: tuple[Delta, ...] = (
        ModelStarted(ONE, "m"),
        ModelReasoning(ONE, "abc"),
        ModelInput(ONE, '{"path"'),
        ModelOpaque(ONE, Json.of([1])),
        ModelCall(ONE, provider_id="p", tool="read", input=Json.of({"path": "a"})),
        ModelServerCall(ONE, provider_id="s", tool="web", input=Json.of({}), result=Json.of([1])),
        ModelServerCall(ONE, provider_id="t", tool="web", input=Json.of({})),
        ModelText(ONE, "and more than there is room for"),
        say("and now"),
    )
    steps = tuple(fold((LogRecord(piece, 10 + place) for place, piece in enumerate(pieces)), begun))
    assert any(isinstance(effect, LimitReached) for step in steps for effect in step.effects)
    assert check_trace(steps).breaches == ()


def test_the_runs_of_the_planted_bugs_meet_each_limit() -> None:
    met = {
        effect.limit
        for script in LIMIT_SCRIPTS
        for step in PLAYED[script]
        for effect in step.effects
        if isinstance(effect, LimitReached)
    }
    assert met == {LimitName.WALL_TIME, LimitName.REPLY_SIZE, LimitName.TOKENS}
