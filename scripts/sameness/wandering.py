"""Cases that are drawn: what may come in golden states, generated walks, and the steps of the explorer's scopes.

Each walk tries some steps aside at each of its states. The quick scopes of the explorer are exhausted; through each
of the others some walks are taken, which try every step aside.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from random import Random

from attrs import evolve
from hypothesis import HealthCheck, Phase, given, seed, settings
from loopkernel.codec import record_to_text, state_from_text, state_to_text
from loopkernel.data.states import Done, State
from loopkernel.data.steps import Context
from loopkernel.laws import Breach
from loopkernel.loop.transition import transition
from loopkernel.replaying import LogRecord, StepRecord, replay
from loopkernel.testing.explorer.explore import explore
from loopkernel.testing.explorer.moves import moves
from loopkernel.testing.explorer.scope import Move, MoveKind
from loopkernel.testing.run import Run
from loopkernel.testing.strategies.walks import EVENTFUL, WIDE, creations_that_run, runs

from scripts.sameness.corpus import CorpusCase, CorpusStep, of_log
from tests.kernel.explore_care import QUICK_CARE
from tests.kernel.explore_cases import QUICK
from tests.kernel.explore_deep import scopes
from tests.kernel.explore_endurance import QUICK_ENDURANCE
from tests.kernel.explore_world import Case

TRIED = 30  # in each golden state
RUNS = 400  # that Hypothesis generates
WALK = 60  # steps of a walk that goes on from the first two records of such a run
ASIDE = 2  # steps tried at each state of such a walk
SCOPE_WALKS = 3  # through each scope that is not exhausted
SCOPE_WALK = 15
SEED = 1  # of the scopes that are drawn
WEIGHTS = {
    MoveKind.REPORT: 6.0,
    MoveKind.ANSWER: 3.0,
    MoveKind.USER: 2.0,
    MoveKind.ILL_TIMED: 0.5,
    MoveKind.CRASH: 0.2,
}
WAITS_MS = (0, 0, 1, 40)


def text_of(move: Move) -> str:
    """The move as a record of a log."""
    return record_to_text(LogRecord(move.delta, move.now_ms))


def states(root: Path, share: int, of: int) -> Iterator[CorpusCase]:
    """From each golden state of an older release, some of all that may come."""
    for file in sorted((root / "specs" / "vectors").glob("states-*.jsonl"))[share::of]:
        for number, line in enumerate(file.read_text(encoding="ascii").splitlines(), 1):
            possible = list(moves(state_from_text(line), WIDE))
            tried = Random(number).sample(possible, min(TRIED, len(possible)))
            steps = tuple(CorpusStep(text_of(move), aside=True) for move in tried)
            yield CorpusCase(f"{file.stem}, line {number}", line, steps)


def walks(_: Path, share: int, of: int) -> Iterator[CorpusCase]:
    """Generated runs, and walks from where they begin."""
    for number, run in enumerate(generated(share, RUNS // of)):
        name = f"walk {share}.{number}"
        yield of_log(f"{name}, generated", map(record_to_text, run.log))
        begun = run.log[:2]
        wandered = walk(replay(begun), later_moves, Random(f"{name}"), WALK, ASIDE)
        first = tuple(CorpusStep(record_to_text(record)) for record in begun)
        yield CorpusCase(f"{name}, gone on with", None, (*first, *wandered))


def generated(from_seed: int, count: int) -> list[Run]:
    """So many runs that Hypothesis generates, half of them of an eventful beginning."""
    found: list[Run] = []

    @seed(from_seed)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        derandomize=False,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(runs(creations=creations_that_run | EVENTFUL[0] | EVENTFUL[1] | EVENTFUL[2] | EVENTFUL[3]))
    def collect(run: Run) -> None:
        found.append(run)

    collect()
    return found


def later_moves(state: State) -> list[Move]:
    """Everything that may come in the state, by a clock that mostly goes on a little."""
    possible = list(moves(state, WIDE))
    return [evolve(move, now_ms=move.now_ms + WAITS_MS[place % len(WAITS_MS)]) for place, move in enumerate(possible)]


def walk(
    state: State, possible: Callable[[State], Iterable[Move]], dice: Random, most: int, aside: int | None
) -> Iterator[CorpusStep]:
    """Steps by the dice, and at each state so many aside (None: every one)."""
    for _ in range(most):
        offered = list(possible(state))
        if not offered or isinstance(state, Done):
            return
        tried = offered if aside is None else dice.sample(offered, min(aside, len(offered)))
        yield from (CorpusStep(text_of(move), aside=True) for move in tried)
        chosen = drawn(offered, dice)
        yield CorpusStep(text_of(chosen))
        state = transition(state, Context(chosen.delta, chosen.now_ms)).next


def drawn(offered: Sequence[Move], dice: Random) -> Move:
    """First of what kind, since there is little that is owed, and much that is ill-timed."""
    kinds = list(dict.fromkeys(move.kind for move in offered))
    (kind,) = dice.choices(kinds, [WEIGHTS[each] for each in kinds])
    return dice.choice([move for move in offered if move.kind is kind])


def explorer(_: Path, share: int, of: int) -> Iterator[CorpusCase]:
    """Every step within the quick scopes, and walks through the others."""
    quick = (*QUICK, *QUICK_ENDURANCE, *QUICK_CARE)
    for case in quick[share::of]:
        yield from every_step(case)
    names = {case.name for case in quick}
    others = [case for name, case in scopes(SEED).items() if name not in names]
    for case in others[share::of]:
        for number in range(SCOPE_WALKS):
            dice = Random(f"{case.name} {number}")
            steps = tuple(walk(case.start, case.moves, dice, SCOPE_WALK, None))
            yield CorpusCase(f"scope {case.name}, walk {number}", state_to_text(case.start), steps)


def every_step(case: Case) -> Iterator[CorpusCase]:
    """For each state of the scope, all that may come in it."""
    taken: dict[int, tuple[State, list[CorpusStep]]] = {}

    def keep(step: StepRecord) -> tuple[Breach, ...]:
        record = LogRecord(step.context.delta, step.context.now_ms)
        _, steps = taken.setdefault(id(step.before), (step.before, []))  # the state is kept, and so is its id
        steps.append(CorpusStep(record_to_text(record), aside=True))
        return ()

    explore(case.start, case.moves, laws=keep, view=case.view)
    for number, (state, steps) in enumerate(taken.values()):
        yield CorpusCase(f"scope {case.name}, state {number}", state_to_text(state), tuple(steps))
