"""A driver whose checks report in their turn, and the scenarios that need it.

The port `Tools.check` is synchronous, so the driver has each verdict at once, ahead of all else that is due at that
instant. In the scenario format a check is an operation of 0 ms, whose report waits for those of operations that began
before it, and an answer or a cancel can come in between. Only the scenarios below can tell one from the other; they are
played with the verdict held back until its turn. All other scenarios are played on the driver as it is.
"""

from collections.abc import Callable

from loopkernel.data.deltas import Delta
from loopkernel.data.effects import CheckCall, Command
from loopkernel.data.states import State

from loopkernel_adapters.driver.asyncio_driver import Driver

CHECKED_IN_TURN = frozenset(
    {
        "while-a-correction-is-checked-every-answer-is-a-duplicate",
        "the-cancel-of-a-call-that-is-being-corrected",
        "the-cancel-of-everything-while-a-call-is-being-corrected",
        "a-rejection-that-skips-a-call-which-is-being-corrected",
        "a-message-interrupts-a-call-that-is-being-corrected",
        "an-answer-ahead-of-the-next-check",
    }
)


class TurnTakingDriver(Driver):
    """A driver that gives each verdict of a check to `hold`, instead of taking it at once."""

    def take_turns(self, hold: Callable[[Delta], None]) -> None:
        """From now on `hold` gets the verdicts."""
        begin = self._operations.begin

        def begin_in_turn(command: Command, state: State) -> Delta | None:
            report = begin(command, state)
            if not isinstance(command, CheckCall) or report is None:
                return report
            hold(report)
            return None

        vars(self._operations)["begin"] = begin_in_turn
