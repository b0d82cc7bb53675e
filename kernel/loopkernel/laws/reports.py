"""What a law is, and what judging a run by laws gives."""

import enum
from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias, final

from attrs import frozen

from loopkernel.data.causes import Cause
from loopkernel.data.compactions import Cut
from loopkernel.data.messages import Message
from loopkernel.data.policy import Compaction
from loopkernel.data.projected import ProjectedMessage
from loopkernel.data.states import State
from loopkernel.data.steps import Context, Step
from loopkernel.data.threads import Thread
from loopkernel.data.vector import Vector
from loopkernel.data.waits import Wait
from loopkernel.later_typing import override


class LawKind(enum.StrEnum):
    """What a law is judged over."""

    STEP = "step"  # one transition
    TRACE = "trace"  # a whole run
    PAIR = "pair"  # two runs that should agree
    COST = "cost"  # measured by the benchmark, never judged here


@final
@frozen(kw_only=True)
class Law:
    """A named predicate that every run satisfies, and the rules that it rests on.

    `not_yet` says why a law of the contract is not judged: what it speaks of is not built.
    """

    id: str
    kind: LawKind
    statement: str
    rules: tuple[str, ...]
    not_yet: str | None = None


@final
@frozen
class Breach:
    """A law that does not hold: at which step (an index from 0), and what is wrong there."""

    law: str
    step: int
    detail: str

    @override
    def __str__(self) -> str:
        return f"law {self.law} is broken at step {self.step}: {self.detail}"


@final
@frozen
class Report:
    """What was judged, and what did not hold.

    `checked` gives the number of checks by kind, `by_law` by law. A step law counts at each step that has
    what it speaks of (a request, a start, a wait, ...), a trace or pair law once for the run.
    """

    by_law: tuple[tuple[str, int], ...] = ()
    breaches: tuple[Breach, ...] = ()
    checked: tuple[tuple[LawKind, int], ...] = ()

    @property
    def held(self) -> bool:
        """Whether no law is broken."""
        return not self.breaches

    @override
    def __str__(self) -> str:
        counts = ", ".join(f"{kind} {count}" for kind, count in self.checked)
        verdict = "all held" if self.held else f"{len(self.breaches)} broken"
        return "\n".join([f"laws checked: {counts or 'none'}; {verdict}", *map(str, self.breaches)])


class Told(Protocol):
    """An explanation of a step: why each effect is there, in order, and what each open call waits for after it."""

    @property
    def causes(self) -> tuple[Cause, ...]:
        """Why each effect is there."""

    @property
    def waits(self) -> tuple[Wait, ...]:
        """What each open call waits for."""


Transition: TypeAlias = Callable[[State, Context], Step[State]]
PlanCut: TypeAlias = Callable[[Vector[Message], Compaction], Cut | None]
Project: TypeAlias = Callable[[Thread, str], tuple[ProjectedMessage, ...]]


@final
@frozen(kw_only=True)
class Judged:
    """The kernel under judgement, in tests a broken one: all of it that the laws call."""

    transition: Transition
    explain: Callable[[State, Context], Told]
    plan_cut: PlanCut
    project: Project


# What a law finds at one step: None where it has nothing to judge, else the details of what is wrong.
Findings: TypeAlias = list[str] | None


@final
class Tally:
    """Counts checks and collects breaches while a run is judged."""

    def __init__(self, laws: Iterable[Law]) -> None:
        self._kinds = {law.id: law.kind for law in laws}
        self._made: dict[str, int] = {}
        self._breaches: list[Breach] = []

    def judge(self, law: str, step: int, findings: Findings) -> None:
        """Note what a step law found."""
        if findings is None:
            return
        self._made[law] = self._made.get(law, 0) + 1
        self.find(law, step, findings)

    def find(self, law: str, step: int, findings: Iterable[str]) -> None:
        """Note what is wrong with a step, and no check: that is one of the whole run."""
        self._breaches.extend(Breach(law, step, detail) for detail in findings)

    def count_runs(self, laws: Iterable[str]) -> None:
        """Note that a run was judged by these trace and pair laws."""
        for law in laws:
            self._made[law] = self._made.get(law, 0) + 1

    def report(self) -> Report:
        """All of it; breaches by step, then in the order of the laws."""
        by_kind: dict[LawKind, int] = {}
        for law, count in self._made.items():
            by_kind[self._kinds[law]] = by_kind.get(self._kinds[law], 0) + count
        return Report(
            by_law=tuple((law, self._made[law]) for law in self._kinds if law in self._made),
            breaches=tuple(sorted(self._breaches, key=lambda breach: breach.step)),
            checked=tuple((kind, by_kind[kind]) for kind in LawKind if kind in by_kind),
        )
