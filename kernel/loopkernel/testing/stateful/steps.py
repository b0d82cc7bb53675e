"""One run of the kernel in the hands of a Hypothesis state machine: each step is foreseen, taken and judged.

A witness follows the run and predicts how each delta is taken; the step laws judge every step. At the end the trace
and pair laws judge the whole run, and it is replayed, written and read.
"""

from typing import ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize

from loopkernel.codec import record_from_text, record_to_text, state_from_text, state_to_text
from loopkernel.data.deltas import Delta
from loopkernel.data.events import Refused
from loopkernel.data.ids import (
    OperationKind,
)
from loopkernel.data.states import Done
from loopkernel.data.thread_deltas import Acquired, Created
from loopkernel.judging import KERNEL, check_all, check_step
from loopkernel.later_typing import override
from loopkernel.laws import Judged
from loopkernel.replaying import START, StepRecord, fold
from loopkernel.testing.run import Run
from loopkernel.testing.strategies.walks import creations_that_run
from loopkernel.testing.witness import Witness


class JudgedMachine(RuleBasedStateMachine, Run):
    """A run that goes on delta by delta. A subclass has the rules."""

    judged: ClassVar[Judged] = KERNEL

    def __init__(self) -> None:
        super().__init__()
        Run.__init__(self, self.judged.transition)
        self.witness = Witness()
        self.sound = True  # no step has failed: the whole run may be judged

    # --- one step -----------------------------------------------------------------------------------------

    def deliver(self, delta: Delta) -> None:
        """Send a delta, and judge how it is taken."""
        self.sound = False
        foreseen = self.witness.outcomes(self.state, delta)
        step = self.take(delta)
        before = type(step.before).__name__
        refusal = next((effect.reason for effect in step.effects if isinstance(effect, Refused)), None)
        assert refusal in foreseen, f"{delta} in {before} gives {refusal}, not one of {foreseen}"
        self.judge_step(step)
        wrong = [*self.witness.take(delta, refusal, step.effects, isinstance(step.after, Done))]
        wrong += self.witness.contradictions(step.after)
        assert not wrong, f"after {delta} in {before}: " + "; ".join(wrong)
        self.sound = True

    def judge_step(self, step: StepRecord) -> None:
        """The step laws."""
        breaches = check_step(step, len(self.steps) - 1, judged=self.judged)
        assert not breaches, "; ".join(map(str, breaches))

    def number(self, kind: OperationKind, data: st.DataObject) -> int:
        """An open operation of the kind."""
        return data.draw(st.sampled_from(self.witness.open_operations(kind)), label=kind.name)

    def is_open(self, kind: OperationKind) -> bool:
        """Whether an operation of the kind is open."""
        return bool(self.witness.open_operations(kind))

    @initialize(created=creations_that_run)
    def begin(self, created: Created) -> None:
        """Every run begins so."""
        self.deliver(created)
        self.deliver(Acquired())

    # --- the end ------------------------------------------------------------------------------------------

    @override
    def teardown(self) -> None:
        """The run as a whole: judged, replayed, written and read."""
        if self.sound:
            self.judge_whole()

    def judge_whole(self) -> None:
        """The trace and pair laws, and what a log is good for."""
        report = check_all(self.steps, judged=self.judged)
        assert report.held, str(report)
        read = tuple(record_from_text(record_to_text(record)) for record in self.log)
        assert read == self.log
        folded = fold(read, transition=self.judged.transition)
        assert (folded[-1].after if folded else START) == self.state
        written = state_to_text(self.state)
        assert state_from_text(written) == self.state
        assert state_to_text(state_from_text(written)) == written
