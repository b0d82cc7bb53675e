"""The explorer of every scope: the longest first, a budget that ends is told, and so is how a breach is repeated."""

from attrs import evolve
from loopkernel.laws import Breach
from loopkernel.testing.explorer.explore import explore

from tests.kernel.explore_care import HANDOFF
from tests.kernel.explore_deep import LARGE, Seen, judged, main, repeats, scopes, summary
from tests.kernel.exploring import wrong_with_outlines, wrong_with_runs, wrong_with_search

SOUND = Seen(name="a", states=70, edges=300, complete=True, seconds=2.0, wrong=())


def test_a_seed_draws_the_same_calls_each_time_and_another_others() -> None:
    def offered(seed: int) -> list[object]:
        return [case.scope.offers for name, case in scopes(seed).items() if name.startswith("drawn")]

    assert offered(1) == offered(1) != offered(2)
    assert len(scopes(1)) == len(scopes(2)) > 60
    assert next(iter(scopes(1))) == LARGE[0].name


def test_a_budget_that_ends_is_told() -> None:
    seen = judged("no profile", 1, 70)
    assert (seen.states, seen.complete, seen.wrong) == (70, False, ())
    assert "70 states" in str(seen)
    assert "NOT EXHAUSTED" in str(seen)
    assert summary([SOUND, seen], 9).startswith("2 of 9 scopes, 140 states")
    assert summary([SOUND, seen], 9).endswith("not exhausted: no profile")
    assert "exhausted" not in summary([SOUND], 2)
    assert "exhausted" not in summary([evolve(SOUND, wrong=("a breach",))], 1)
    assert summary([SOUND], 1) == "1 of 1 scopes, 70 states, 300 steps; all were exhausted"


def test_a_breach_is_told_with_the_command_that_repeats_it() -> None:
    broken = evolve(SOUND, name="two words", wrong=("TOTAL: it raised",))
    told = "\n".join(repeats([SOUND, broken], 7, 20))
    assert told.startswith("two words: TOTAL: it raised\n")
    assert told.endswith("python -m tests.kernel.explore_deep --seed 7 --states 20 'two words'")


def test_what_is_wrong_with_a_search_is_found() -> None:
    unlawful = evolve(HANDOFF, laws=lambda record: (Breach("X-1", 0, "wrong"),))
    found = explore(unlawful.start, unlawful.moves, laws=unlawful.laws)
    assert "X-1" in next(wrong_with_search(unlawful, found))
    lacking = explore(HANDOFF.start, HANDOFF.moves, goals={"a miracle": lambda record: False}, view=HANDOFF.view)
    assert list(wrong_with_search(HANDOFF, lacking)) == ["no step met: a miracle"]
    assert list(wrong_with_runs(HANDOFF, lacking, 1)) == []
    assert "merge too little" in next(wrong_with_outlines(evolve(HANDOFF, scope=evolve(HANDOFF.scope, also=())), 3))


def test_an_unknown_scope_is_refused() -> None:
    assert main(["--list"]) == 0
    assert main(["nothing of the kind"]) == 2
