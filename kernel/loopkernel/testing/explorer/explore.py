"""Explores every run within a scope: breadth first over the real `transition`, the laws on every step.

What it finds is the shortest: a breach comes with the least number of deltas that leads to it (under a view that
merges states, the least to the first of each kind). On a finished graph it also tells which goals no step met, so
that nothing holds only because it never happens, and from which states neither owed reports nor the answers that
waiting calls ask of a person lead to rest. Each step is also taken by a clock that has gone back, which must change
nothing, and some of the states are written down and restored, as a restart does.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from attrs import Factory, define, field, frozen

from loopkernel.codec import state_from_text, state_to_text
from loopkernel.data.states import State
from loopkernel.data.steps import Context
from loopkernel.judging import check_step, check_trace
from loopkernel.laws import Breach
from loopkernel.loop.transition import transition
from loopkernel.replaying import LogRecord, StepRecord, Transition
from loopkernel.testing.explorer.scope import OWED, RESTS, Move, MoveKind
from loopkernel.testing.explorer.views import View, whole

Laws = Callable[[StepRecord], Iterable[Breach]]
TreeEdge = tuple[int, LogRecord | None]  # None: where the search began
Goals = Mapping[str, Callable[[StepRecord], bool]]


@frozen
class Finding:
    """A breach, and the shortest run to it: what came from the start on, the last of which is in breach."""

    breach: Breach
    run: tuple[LogRecord, ...]


@frozen(kw_only=True)
class Exploration:
    """What was found. `complete`: no state was left out by the limit, and none by a breach.

    `unmet` are the goals that no step met; `stranded` is the shortest run to a state from which no sequence of owed
    reports and of a person's answers leads to rest. Both are judged on a complete graph alone. `tree` has, for each
    state by its number from 0, the state before it and what first led from there: see `run_to`.
    """

    states: int
    edges: int
    complete: bool
    breach: Finding | None = None
    unmet: tuple[str, ...] = ()
    stranded: tuple[LogRecord, ...] | None = None
    tree: Sequence[TreeEdge] = field(default=(), repr=False)

    @property
    def held(self) -> bool:
        """Whether all was explored, and nothing is wrong with it."""
        return self.complete and self.breach is None and not self.unmet and self.stranded is None

    def run_to(self, number: int) -> tuple[LogRecord, ...]:
        """The shortest run to a state, by its number."""
        return _run_to(self.tree, number)


def _run_to(tree: Sequence[TreeEdge], number: int) -> tuple[LogRecord, ...]:
    run: list[LogRecord] = []
    source, record = tree[number]
    while record is not None:
        run.append(record)
        source, record = tree[source]
    return tuple(reversed(run))


def laws_of_a_step(record: StepRecord) -> tuple[Breach, ...]:
    """The step laws. The step was taken just now, and is taken again by a clock that has gone back, and explained."""
    return check_step(record, was_taken=True)


def laws_of_an_edge(record: StepRecord) -> tuple[Breach, ...]:
    """The step laws, and the trace laws as far as a run of one step shows them; six times as dear."""
    return check_trace((record,)).breaches


# --- the search -----------------------------------------------------------------------------------------


@define
class _Graph:
    """The states found so far, each with the edge that first led to it, and what is owed, backwards."""

    numbers: dict[object, int] = Factory(dict)
    edges_to: list[TreeEdge] = Factory(list)
    owed_from: list[list[int]] = Factory(list)
    resting: list[int] = Factory(list)

    def add(self, key: object, state: State, source: int, record: LogRecord | None) -> int:
        number = self.numbers[key] = len(self.edges_to)
        self.edges_to.append((source, record))
        self.owed_from.append([])
        if isinstance(state, RESTS):
            self.resting.append(number)
        return number

    def path_to(self, number: int) -> tuple[LogRecord, ...]:
        return _run_to(self.edges_to, number)

    def stranded(self) -> int | None:
        """The first state from which what is owed does not lead to rest."""
        reached = set(self.resting)
        waiting = deque(self.resting)
        while waiting:
            for source in self.owed_from[waiting.popleft()]:
                if source not in reached:
                    reached.add(source)
                    waiting.append(source)
        return next((number for number in range(len(self.edges_to)) if number not in reached), None)


def explore(
    start: State,
    inputs: Callable[[State], Iterable[Move]],
    *,
    laws: Laws = laws_of_a_step,
    view: View = whole,
    limit: int = 1_000_000,
    goals: Goals | None = None,
    step: Transition = transition,
) -> Exploration:
    """Every run from `start` on by the moves that `inputs` gives; at most `limit` states."""
    graph, unmet, edges = _Graph(), dict(goals or {}), 0
    waiting: deque[tuple[int, State]] = deque([(graph.add(view(start), start, 0, None), start)])
    complete = True
    while waiting:
        source, state = waiting.popleft()
        for move in inputs(state):
            edges += 1
            record, breaches = _judged(state, move, step, laws)
            if move.kind is MoveKind.CRASH and not breaches and source % RESTORED == 0:
                breaches = tuple(_restored_otherwise(state))
            if breaches:
                found = Finding(breaches[0], (*graph.path_to(source), LogRecord(move.delta, move.now_ms)))
                return Exploration(states=len(graph.edges_to), edges=edges, complete=False, breach=found)
            for name in [name for name, met in unmet.items() if met(record)]:
                del unmet[name]
            if record.after is state or not move.explored:
                continue
            key = view(record.after)
            target = graph.numbers.get(key)
            if target is None:
                if len(graph.edges_to) >= limit:
                    complete = False
                    continue
                target = graph.add(key, record.after, source, LogRecord(move.delta, move.now_ms))
                waiting.append((target, record.after))
            if move.kind in OWED:
                graph.owed_from[target].append(source)
    return _judge_whole(graph, edges, complete, tuple(unmet))


def _judged(state: State, move: Move, step: Transition, laws: Laws) -> tuple[StepRecord, tuple[Breach, ...]]:
    """The step by a move, and what is wrong with it; a step that raises is a breach of TOTAL."""
    context = Context(move.delta, move.now_ms)
    try:
        record = StepRecord(state, context, *step(state, context))
        return record, (*laws(record), *_by_a_clock_gone_back(record, step))
    except Exception as error:  # whatever it is: a step never raises
        raised = Breach("TOTAL", 0, f"{type(error).__name__}: {error}")
        return StepRecord(state, context, state, ()), (raised,)


def _by_a_clock_gone_back(record: StepRecord, step: Transition) -> Iterator[Breach]:
    """For the kernel time never goes back: by a clock that has, the step is the same as by one that stands."""
    before, context = record.before, record.context
    if context.now_ms != before.stamp.now_ms or record.after is before:
        return
    again = step(before, Context(context.delta, context.now_ms - 1))
    if again != (record.after, record.effects):
        yield Breach("PURE", 0, f"{type(context.delta).__name__} does otherwise by a clock that has gone back")


RESTORED = 8  # the state of each so many is restored from what is written of it


def _restored_otherwise(state: State) -> Iterator[Breach]:
    """A restart goes on with the state that was written down, to the letter."""
    written = state_to_text(state)
    restored = state_from_text(written)
    if restored != state or state_to_text(restored) != written:
        yield Breach("FORK-EQ", 0, f"{type(state).__name__} is restored as another state")


def _judge_whole(graph: _Graph, edges: int, complete: bool, unmet: tuple[str, ...]) -> Exploration:
    stranded = graph.stranded() if complete else None
    return Exploration(
        states=len(graph.edges_to),
        edges=edges,
        complete=complete,
        unmet=unmet if complete else (),
        stranded=None if stranded is None else graph.path_to(stranded),
        tree=graph.edges_to,
    )
