"""A driver whose checks report in their turn, and which scenarios need it.

The port `Tools.check` is synchronous, so the driver has each verdict at once, ahead of all else that is due at that
instant. In the scenario format a check is an operation of 0 ms, and what is to happen right behind the step that began
it comes before its report. Only scenarios in which something does can tell one from the other; they are played with the
verdict held back until its turn. All other scenarios are played on the driver as it is.
"""

from collections.abc import Callable

from loopkernel.data.deltas import Delta
from loopkernel.data.effects import CheckCall, Command
from loopkernel.data.states import State
from loopkernel.testing.scenarios.data.actions import When
from loopkernel.testing.scenarios.data.scenario import Scenario

from loopkernel_adapters.driver.asyncio_driver import Driver


def is_checked_in_turn(scenario: Scenario) -> bool:
    """Whether somebody acts right behind a step, and so perhaps ahead of a verdict."""
    times = (action.timing for action in scenario.user)
    return any(isinstance(time, When) and time.after_ms == 0 for time in times)


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
