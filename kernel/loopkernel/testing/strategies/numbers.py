"""The ids that a state built by hand names: minted in order as its parts are drawn, open or cut short."""

from attrs import Factory, define
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from loopkernel.data.ids import ModelOperation, OperationKind, RunOperation, TimerOperation
from loopkernel.data.messages import AssistantMessage
from loopkernel.data.operations import AbandonedModelCall, Operations
from loopkernel.data.threads import Thread
from loopkernel.data.timers import Timer
from loopkernel.data.vector import GrowingSet, Vector
from loopkernel.data.words import TimerPurpose
from loopkernel.testing.strategies.values import counts, usages


@define
class Numbers:
    """Of each kind of operation the newest that was minted, those that are open, and those that were cut short."""

    newest: dict[OperationKind, int] = Factory(lambda: dict.fromkeys(OperationKind, 0))
    open: set[tuple[OperationKind, int]] = Factory(set)
    cut: set[tuple[OperationKind, int]] = Factory(set)

    def mint(self, kind: OperationKind) -> int:
        """One more operation of the kind, which is open."""
        self.newest[kind] += 1
        self.open.add((kind, self.newest[kind]))
        return self.newest[kind]

    def mint_run(self) -> RunOperation:
        """One more run."""
        return RunOperation(self.mint(OperationKind.RUN))

    def mint_timer(self, draw: DrawFn, purpose: TimerPurpose) -> Timer:
        """One more delay, which is pending."""
        return Timer(TimerOperation(self.mint(OperationKind.TIMER)), purpose, draw(counts))

    def pass_over(self, draw: DrawFn, *kinds: OperationKind) -> None:
        """A few operations were minted before, and are closed."""
        for kind in kinds:
            self.newest[kind] += draw(st.integers(0, 1))

    def reported(self, kind: OperationKind, number: int) -> None:
        """The operation was closed by its own report."""
        self.open.discard((kind, number))

    def cut_short(self, kind: OperationKind, number: int) -> None:
        """The operation was closed otherwise."""
        self.open.discard((kind, number))
        self.cut.add((kind, number))


@st.composite
def operations(draw: DrawFn, thread: Thread, numbers: Numbers) -> Operations:
    """Counters that cover all ids which a thread and a state name; some of what else is closed was abandoned."""
    replies = [message.reply for message in thread if isinstance(message, AssistantMessage)]
    numbers.newest[OperationKind.MODEL] = max([numbers.newest[OperationKind.MODEL], *replies])
    abandoned: list[GrowingSet[int]] = []
    for kind in OperationKind:
        if not any(one is kind for one, _ in numbers.open):
            numbers.pass_over(draw, kind)
        known = [number for one, number in sorted(numbers.cut) if one is kind]
        closed = [n for n in range(1, numbers.newest[kind] + 1) if (kind, n) not in numbers.open]
        more = draw(st.lists(st.sampled_from(closed), unique=True)) if closed else []
        abandoned.append(GrowingSet.of((*known, *more)))
    cut_calls = [AbandonedModelCall(ModelOperation(number), draw(usages)) for number in abandoned[OperationKind.MODEL]]
    abandoned[OperationKind.MODEL] = GrowingSet()
    minted = tuple(numbers.newest[kind] for kind in OperationKind)
    return Operations(minted, tuple(abandoned), Vector.of(cut_calls))
