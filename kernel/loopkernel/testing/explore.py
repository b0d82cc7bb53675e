"""Explores every run within a scope: breadth first over the real `transition`, the laws on every step.

What it finds is the shortest: a breach comes with the least number of deltas that leads to it (under a view that
merges states, the least to the first of each kind). On a finished graph it also tells which goals no step met, so
that nothing holds only because it never happens, and from which states neither owed reports nor the answers that
waiting calls ask of a person lead to rest.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from attrs import Factory, define, field, frozen

from loopkernel.data.deltas import Delta
from loopkernel.data.states import State
from loopkernel.data.steps import Context
from loopkernel.laws import Breach, check_step, check_trace
from loopkernel.replay import StepRecord, Transition
from loopkernel.testing.explore_scope import OWED, RESTS, Move
from loopkernel.testing.explore_views import View, without_time
from loopkernel.transition import transition

Laws = Callable[[StepRecord], Iterable[Breach]]
TreeEdge = tuple[int, Delta | None]  # None: where the search began
Goals = Mapping[str, Callable[[StepRecord], bool]]

NOW_MS = 0  # no rule of these runs asks for the time


@frozen
class Finding:
    """A breach, and the shortest run to it: its deltas from the start on, the last of which is in breach."""

    breach: Breach
    deltas: tuple[Delta, ...]


@frozen(kw_only=True)
class Exploration:
    """What was found. `complete`: no state was left out by the limit, and none by a breach.

    `unmet` are the goals that no step met; `stranded` is the shortest run to a state from which no sequence of owed
    reports and of a person's answers leads to rest. Both are judged on a complete graph alone. `tree` has, for each
    state by its number from 0, the state before it and the delta that first led from there: see `run_to`.
    """

    states: int
    edges: int
    complete: bool
    breach: Finding | None = None
    unmet: tuple[str, ...] = ()
    stranded: tuple[Delta, ...] | None = None
    tree: Sequence[TreeEdge] = field(default=(), repr=False)

    @property
    def held(self) -> bool:
        """Whether all was explored, and nothing is wrong with it."""
        return self.complete and self.breach is None and not self.unmet and self.stranded is None

    def run_to(self, number: int) -> tuple[Delta, ...]:
        """The shortest run to a state, by its number."""
        return _run_to(self.tree, number)


def _run_to(tree: Sequence[TreeEdge], number: int) -> tuple[Delta, ...]:
    deltas: list[Delta] = []
    source, delta = tree[number]
    while delta is not None:
        deltas.append(delta)
        source, delta = tree[source]
    return tuple(reversed(deltas))


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

    def add(self, key: object, state: State, source: int, delta: Delta | None) -> int:
        number = self.numbers[key] = len(self.edges_to)
        self.edges_to.append((source, delta))
        self.owed_from.append([])
        if isinstance(state, RESTS):
            self.resting.append(number)
        return number

    def path_to(self, number: int) -> tuple[Delta, ...]:
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
    laws: Laws = check_step,
    view: View = without_time,
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
            if breaches:
                found = Finding(breaches[0], (*graph.path_to(source), move.delta))
                return Exploration(states=len(graph.edges_to), edges=edges, complete=False, breach=found)
            for name in [name for name, met in unmet.items() if met(record)]:
                del unmet[name]
            if record.after is state:
                continue
            key = view(record.after)
            target = graph.numbers.get(key)
            if target is None:
                if len(graph.edges_to) >= limit:
                    complete = False
                    continue
                target = graph.add(key, record.after, source, move.delta)
                waiting.append((target, record.after))
            if move.kind in OWED:
                graph.owed_from[target].append(source)
    return _judge_whole(graph, edges, complete, tuple(unmet))


def _judged(state: State, move: Move, step: Transition, laws: Laws) -> tuple[StepRecord, tuple[Breach, ...]]:
    """The step by a move, and what is wrong with it; a step that raises is a breach of TOTAL."""
    context = Context(move.delta, NOW_MS)
    try:
        after, effects = step(state, context)
        record = StepRecord(state, context, after, effects)
        return record, tuple(laws(record))
    except Exception as error:  # whatever it is: a step never raises
        raised = Breach("TOTAL", 0, f"{type(error).__name__}: {error}")
        return StepRecord(state, context, state, ()), (raised,)


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
