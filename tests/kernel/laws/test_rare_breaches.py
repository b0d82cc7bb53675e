"""What the laws say where rare things meet: of steps tampered with, and of sound runs that are judged midway."""

from collections.abc import Callable

import pytest
from attrs import evolve
from loopkernel.data.effects import CheckCall, Effect, StartChild, StartTool
from loopkernel.data.events import CompactionEnded, Refused, ResultsCleared
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelCompleted, Redaction
from loopkernel.data.policy import Retry
from loopkernel.data.sessions import Session
from loopkernel.data.states import Initial, State
from loopkernel.data.steps import Context, Step
from loopkernel.data.thread_deltas import Created
from loopkernel.data.tool_deltas import ToolStopped
from loopkernel.data.user_deltas import CancelCall, ChangePolicy
from loopkernel.data.words import ErrorClass, HookPoint, RefusalReason, StopReason
from loopkernel.judging import KERNEL, check_pairs, check_step, check_trace
from loopkernel.laws.step_laws import pending_timers
from loopkernel.laws.views import held_in
from loopkernel.loop.transition import transition
from loopkernel.replaying import StepRecord
from loopkernel.testing.planted.planting import with_entries
from loopkernel.testing.played.player import Player, Script, play
from loopkernel.testing.played.tools import POLICY, USAGE, read, write

from tests.kernel.laws.tampering import CALL, OTHER, Case, after, changed, findings, instead, more, with_session
from tests.kernel.planted.call_runs import call_at
from tests.kernel.planted.hook_runs import hooked
from tests.kernel.played import PLAYED

LATE = "ToolSucceeded in Idle"

# --- single steps, tampered with -----------------------------------------------------------------------------------


def the_first(wanted: Callable[[StepRecord], bool]) -> StepRecord:
    """The first step of any script that is wanted."""
    return next(step for steps in PLAYED.values() for step in steps if wanted(step))


def is_stale(step: StepRecord) -> bool:
    """Whether the step refuses a report on what is closed, which frees nothing."""
    refused = any(isinstance(effect, Refused) and effect.reason is RefusalReason.STALE for effect in step.effects)
    return refused and held_in(step.before) == held_in(step.after)


def resumes(step: StepRecord) -> bool:
    """Whether a sub-agent is resumed."""
    return any(isinstance(effect, StartChild) and effect.resumed for effect in step.effects)


def begins(step: StepRecord) -> bool:
    """Whether a sub-agent begins."""
    return any(isinstance(effect, StartChild) and not effect.resumed for effect in step.effects)


def with_another_id(effect: Effect) -> Effect:
    """A sub-agent is resumed by an id that is not its own."""
    if not isinstance(effect, StartChild):
        return effect
    return evolve(effect, created=evolve(effect.created, session_id="another"))


def asks_for_checks(step: StepRecord) -> bool:
    """Whether the step asks for the check of a call."""
    return any(isinstance(effect, CheckCall) for effect in step.effects)


def checked_otherwise(effect: Effect) -> Effect:
    """A check is asked about other arguments."""
    return evolve(effect, input=Json.of({"path": "another"})) if isinstance(effect, CheckCall) else effect


def names_no_call(step: StepRecord) -> StepRecord:
    """The step, after which a reference in the input of each call is none to a call."""
    given = Json.of({"path": {"$result": 1}})
    changed_calls = with_entries(step.after, lambda entry: evolve(entry, call=evolve(entry.call, input=given)))
    return evolve(step, after=changed_calls)


def with_second_run(effect: Effect) -> Effect:
    """A sub-agent begins as the second run of its call."""
    return evolve(effect, run=2) if isinstance(effect, StartChild) else effect


def without_session(step: StepRecord) -> StepRecord:
    """The step, after which there is no session any more."""
    return after(lambda state: Initial(stamp=state.stamp))(step)


CASES = (
    Case(
        "MIRROR",
        "the client holds 4 messages, not the kernel's 4",
        lambda: changed("reads", ModelCompleted, more(ResultsCleared((CALL, OTHER))), nth=1),
    ),
    Case(
        "TIMER-DATA",
        "is no longer waited for, and is not closed",
        lambda: (without_session(the_first(lambda step: bool(pending_timers(step.before)))),),
    ),
    Case(
        "AT-MOST-ONCE",
        "is resumed, and no restart has found it under way",
        lambda: (instead(with_another_id)(the_first(resumes)),),
    ),
    Case(
        "FINAL-ARGS",
        "is checked with other arguments than it would run with",
        lambda: (instead(checked_otherwise)(the_first(asks_for_checks)),),
    ),
    Case(
        "FINAL-ARGS",
        "but a reference in its input names no call",
        lambda: (names_no_call(the_first(lambda step: any(isinstance(one, StartTool) for one in step.effects))),),
    ),
    Case(
        "AT-MOST-ONCE",
        "starts as its run number 2, after 0 runs",
        lambda: (instead(with_second_run)(the_first(begins)),),
    ),
    Case(
        "TOTAL",
        "is refused, and yet it changes the state",
        lambda: (with_session(lambda session: evolve(session, bodies=99))(the_first(is_stale)),),
    ),
    Case(
        "PROGRESS",
        "a compaction is told to end, and none has started",
        lambda: changed("reads", Created, more(CompactionEnded(True))),
    ),
)


@pytest.mark.parametrize("case", CASES, ids=[f"{case.law}: {case.says}" for case in CASES])
def test_the_law_says_what_is_wrong(case: Case) -> None:
    told = findings(case.run(), case.law)
    assert any(case.says in detail for detail in told), told


# --- whole runs -----------------------------------------------------------------------------------------------------


def repeated_one_after_the_other(player: Player) -> None:
    """Two runs are to be repeated after a restart, and there is one slot by then."""
    player.begin()
    player.say("go")
    player.reply(read("a"), read("b"))
    player.deliver(ChangePolicy(evolve(POLICY, max_parallel=1)))
    player.crash()
    player.settle()


def repeated_in_the_background(player: Player) -> None:
    """A run in the background is repeated by a restart after its turn."""
    player.begin()
    player.say("go")
    player.reply(write("a"))
    player.end(background=True)
    player.reply(text="so")
    player.crash()
    player.end()
    player.settle()


def late_while_an_error_is_shown(player: Player) -> None:
    """A run that was given up reports its end all the same, after the next turn has ended in an error."""
    player.begin()
    player.say("go")
    player.reply(write("a"))
    player.deliver(CancelCall(call_at(1)))
    player.say("on")
    player.fail(ErrorClass.AUTH)
    player.stop(reports=True)


def redacted_in_the_second_turn(player: Player) -> None:
    """A guardrail changes what was said last; what was said before stays."""
    player.begin()
    player.say("go")
    player.reply(text="so")
    player.say("secret")
    if player.model is not None:
        redaction = Redaction(user_text="(removed)", reply_text="(removed)")
        stop = StopReason.GUARDRAIL_INTERVENED
        player.deliver(ModelCompleted(player.model, stop, USAGE, redaction=redaction))


def falls_back_behind_a_gate(player: Player) -> None:
    """The model fails for good, and a hook is asked before the request to the next one."""
    without_retries = evolve(POLICY, retry=Retry(retries=0), fallback_models=("second",))
    player.begin(hooked(HookPoint.BEFORE_MODEL, each=1, policy=without_retries))
    player.say("go")
    player.answer()
    player.fail()


@pytest.mark.parametrize(
    "script",
    [
        repeated_one_after_the_other,
        repeated_in_the_background,
        late_while_an_error_is_shown,
        redacted_in_the_second_turn,
    ],
)
def test_such_a_run_breaks_no_law_whichever_step_is_the_first(script: Script) -> None:
    steps = play(script, transition)
    for start in range(len(steps)):
        assert check_trace(steps[start:]).held
    assert check_pairs(steps).held


def test_a_late_report_leaves_the_shown_error_alone() -> None:
    step = play(late_while_an_error_is_shown, transition)[-1]
    assert step.before.session is not None
    assert step.before.session.error is not None
    told = findings([with_session(lambda session: evolve(session, error=None))(step)], "TOTAL")
    assert told == [f"{LATE} is refused, and yet it does more than to free the resources of its run"]


def test_a_late_report_does_what_a_stop_does_which_must_not_raise() -> None:
    def broken(state: State, ctx: Context) -> Step[State]:
        if isinstance(ctx.delta, ToolStopped):
            raise LookupError("nothing stops")
        return transition(state, ctx)

    step = play(late_while_an_error_is_shown, transition)[-1]
    breaches = check_step(step, judged=evolve(KERNEL, transition=broken))
    assert [breach.detail for breach in breaches] == [f"{LATE} is refused, and a ToolStopped in its place raises"]


def test_a_request_that_waits_at_a_gate_has_taken_the_way_that_was_open() -> None:
    *steps, failed = play(falls_back_behind_a_gate, transition)
    assert findings([*steps, failed], "RETRY-LAW") == []

    def with_retries(session: Session) -> Session:
        policy = evolve(session.settings.policy, retry=Retry(retries=1))
        return evolve(session, settings=evolve(session.settings, policy=policy))

    told = findings([*steps, with_session(with_retries)(failed)], "RETRY-LAW")
    assert told == ["the failure server leads to the next model, and a retry is left"]
