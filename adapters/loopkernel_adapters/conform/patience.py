"""Silence told from slowness: patience counts the time in which all that was started is at rest.

A process that works, or waits for a processor or a disk, is slow and not silent. Such time does not count, but for a
fifth of what it had of processors: however busy a machine is, and what works for ever is given up as well. One that
works now and then is at rest for what is left of the time, so a little more of work never makes a long wait of it.
"""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from attrs import frozen

_PROCESSES = Path("/proc")
_LOOK_S = 0.02
_MEASURE_S = 0.25
OF_WORK = 0.2
_NANOSECOND = 1e-9


@frozen(kw_only=True)
class Wanted:
    """What the processes have wanted since the last look. `on_disk`: one of them waits for a disk."""

    had_s: float = 0.0  # of processors
    waited_s: float = 0.0  # for one
    on_disk: bool = False


class Activity:
    """This process and all that descend from it, as Linux tells of them; elsewhere they are always at rest."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, int]] = {}
        self.wanted()

    def wanted(self) -> Wanted:
        """What they have wanted since the last call."""
        now: dict[str, tuple[int, int]] = {}
        on_disk = False
        for process in family():
            for thread in _entries(_PROCESSES / process / "task"):
                state, now[thread] = _thread(_PROCESSES / process / "task" / thread)
                on_disk = on_disk or state == "D"
        had, waited = (self._since(now, part) * _NANOSECOND for part in (0, 1))
        self._known = now
        return Wanted(had_s=had, waited_s=waited, on_disk=on_disk)

    def _since(self, now: dict[str, tuple[int, int]], part: int) -> int:
        return sum(max(0, times[part] - self._known.get(thread, (0, 0))[part]) for thread, times in now.items())


def family() -> Iterator[str]:
    """The ids of this process and of those that descend from it, without the dead. Nothing where there is no /proc."""
    parents = {}
    for each in _entries(_PROCESSES):
        if each.isdigit():
            state, parent = _state_and_parent(_PROCESSES / each)
            if state not in ("", "Z"):
                parents[each] = parent
    own = str(os.getpid())
    for each in parents:
        above = each
        while above in parents and above != own:
            above = parents[above]
        if above == own:
            yield each


class Patience:
    """So many seconds of rest, of which `is_over` tells when they have passed."""

    def __init__(
        self,
        seconds: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        wanted: Callable[[], Wanted] | None = None,
    ) -> None:
        self._left_s = seconds
        self._clock = clock
        self._wanted = wanted or Activity().wanted
        self._looked_s = clock()

    def is_over(self) -> bool:
        """Whether it has come to its end. To be asked often."""
        passed = self._clock() - self._looked_s
        if passed >= _MEASURE_S:
            self._looked_s += passed
            wanted = self._wanted()
            at_rest = 0.0 if wanted.on_disk else max(0.0, passed - wanted.had_s - wanted.waited_s)
            self._left_s -= at_rest + wanted.had_s * OF_WORK
        return self._left_s <= 0


def wait_for(happened: Callable[[], bool], patience_s: float) -> bool:
    """Wait until it has happened; whether it has, before so many seconds of rest have passed."""
    patience = Patience(patience_s)
    while not happened():
        if patience.is_over():
            return happened()
        time.sleep(_LOOK_S)
    return True


def _entries(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:  # it is gone, or this system has none
        return []


def _thread(folder: Path) -> tuple[str, tuple[int, int]]:
    """The state of a thread, and the nanoseconds that it had a processor and waited for one."""
    try:
        times = (folder / "schedstat").read_text().split()
        return _state_and_parent(folder)[0], (int(times[0]), int(times[1]))
    except (OSError, ValueError, IndexError):
        return "", (0, 0)


def _state_and_parent(folder: Path) -> tuple[str, str]:
    try:
        _, _, behind_the_name = (folder / "stat").read_text(errors="replace").rpartition(")")
        state, parent = behind_the_name.split()[:2]
    except (OSError, ValueError):
        return "", ""
    return state, parent
