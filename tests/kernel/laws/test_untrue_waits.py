"""What law WHY says of a kernel that moves as it must, and names reasons of a waiting call that are not so."""

import pytest
from attrs import evolve, frozen
from loopkernel.data.choices import OutputCalls, Schedule
from loopkernel.data.policy import Policy
from loopkernel.data.states import State
from loopkernel.data.steps import Context
from loopkernel.data.waits import ForConflict, ForMore, ForOthers, ForShare, Reason, Wait
from loopkernel.judging import KERNEL, check_step
from loopkernel.loop.transition import transition
from loopkernel.testing.played.player import Player
from loopkernel.testing.played.tools import BARE_CALL, POLICY, SUB_CALL, Call, read, write
from loopkernel.views.explain import Explanation, explain

from tests.kernel.planted.call_runs import call_at

OUTPUT = evolve(POLICY, output_tool="bare")
BEHIND_IT = ForConflict(call_at(1), "a", True)


@frozen
class Case:
    """A reply under a policy, a reason that its last call is said to wait for besides, and what is wrong with it."""

    policy: Policy
    calls: tuple[Call, ...]
    reason: Reason
    says: str
    checked: bool = True


CASES = (
    Case(
        evolve(POLICY, schedule=Schedule.ALL, max_parallel=1),
        (write("a"), write("a")),
        BEHIND_IT,
        f"call 1.2 (write) is said to wait {BEHIND_IT}, which is not so",
    ),
    Case(
        evolve(OUTPUT, output_calls=OutputCalls.SKIP),
        (read("a"), BARE_CALL),
        ForOthers(),
        "call 1.2 (bare) is said to wait ForOthers(), which is not so",
        checked=False,
    ),
    Case(
        evolve(OUTPUT, output_calls=OutputCalls.RUN),
        (BARE_CALL,),
        ForOthers(),
        "call 1.1 (bare) is said to wait ForOthers(), which is not so",
        checked=False,
    ),
    Case(
        evolve(POLICY, max_total_tokens=1_000),
        (SUB_CALL, write("a"), write("a")),
        ForShare(),
        "call 1.3 (write) is said to wait ForShare(), which is not so",
    ),
    Case(
        POLICY,
        (write("a"), write("a")),
        ForMore(2),
        "call 1.2 (write) is said to wait for 2 more calls, and it is 0",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.says)
def test_a_reason_that_is_not_so_is_a_breach(case: Case) -> None:
    player = Player(transition)
    player.begin(case.policy)
    player.say("go")
    player.stream(*case.calls)
    player.complete()
    if case.checked:
        player.check()
    last = call_at(len(case.calls))

    def with_reason(wait: Wait) -> Wait:
        return evolve(wait, reasons=(*wait.reasons, case.reason)) if wait.call == last else wait

    def untrue(state: State, ctx: Context) -> Explanation:
        told = explain(state, ctx)
        return evolve(told, tell=lambda _: tuple(map(with_reason, told.waits)))

    assert check_step(player.steps[-1]) == ()
    breaches = check_step(player.steps[-1], judged=evolve(KERNEL, explain=untrue))
    assert [breach.detail for breach in breaches] == [case.says]
