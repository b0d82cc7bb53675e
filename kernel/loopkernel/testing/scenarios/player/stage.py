"""What all sessions of one scenario share: the time, what is due, the trace, and the actions that wait for a line."""

from collections.abc import Iterable
from typing import Generic, TypeVar, assert_never

from attrs import Factory, define

from loopkernel.testing.scenarios.data.actions import At, TimedAction, When
from loopkernel.testing.scenarios.player.agenda import Agenda, Appointment
from loopkernel.testing.scenarios.player.recording import TraceLine
from loopkernel.testing.scenarios.player.world import RunStopped
from loopkernel.testing.scenarios.trace import matches

S = TypeVar("S")

MAX_DELTAS = 10_000
MAX_MS = 24 * 60 * 60 * 1_000


@define(eq=False)
class ScenarioStage(Generic[S]):
    """The virtual time and what happens in it. `raised` says that it was the kernel which ended the run."""

    agenda: Agenda = Factory(Agenda)
    now_ms: int = 0
    deltas: int = 0
    sessions: list[S] = Factory(list)  # by their numbers
    lines: list[TraceLine] = Factory(list)
    raised: str | None = None
    urgent: list[TimedAction] = Factory(list)  # due right after the step that has just been taken
    _waiting: list[tuple[int, When, TimedAction]] = Factory(list)  # with their places in the file
    _noticed: int = 0  # of the lines, by actions that wait for one

    def plan(self, actions: Iterable[TimedAction]) -> None:
        """What the user will do."""
        for index, action in enumerate(actions):
            match action.timing:
                case At(ms):
                    self.agenda.plan(index, ms, action)
                case When() as when:
                    self._waiting.append((index, when, action))
                case _:
                    assert_never(action.timing)

    def count(self) -> None:
        """One more delta. Raises RunStopped where there are too many."""
        self.deltas += 1
        if self.deltas > MAX_DELTAS:
            raise RunStopped(
                f"never settled: {MAX_DELTAS} deltas by {self.now_ms} ms, and the run still goes on{self.last_lines()}"
            )

    def next(self) -> Appointment | None:
        """The first thing due, whose time it is now; None if nothing is. Raises RunStopped when it is too late."""
        due = self.agenda.next()
        if due is not None:
            self.now_ms = max(self.now_ms, due.at_ms)
            if self.now_ms > MAX_MS:
                raise RunStopped(f"never settled: the run went on beyond 24 h of virtual time{self.last_lines()}")
        return due

    def notice(self) -> None:
        """Actions that wait for one of the new lines become due: now, before anything else, or later."""
        printed = self.lines[self._noticed :]
        self._noticed = len(self.lines)
        waiting, self._waiting = self._waiting, []
        urgent: list[TimedAction] = []
        for index, when, action in waiting:
            new = sum(matches(when.pattern, line.text) for line in printed)
            seen = sum(matches(when.pattern, line.text) for line in self.lines) if new else 0
            if not seen - new < when.nth <= seen:
                self._waiting.append((index, when, action))
            elif when.after_ms == 0:
                urgent.append(action)
            else:
                self.agenda.plan(index, self.now_ms + when.after_ms, action)
        self.urgent = urgent + self.urgent

    def last_lines(self) -> str:
        """For a message: how the trace ends."""
        last = ", ".join(f"`{line.text}`" for line in self.lines[-3:])
        return f"; the last lines are {last}" if last else ""
