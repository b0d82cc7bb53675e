"""What a law over a run is, and one that keeps nothing of the steps before."""

from collections.abc import Callable, Iterator
from typing import Protocol, final

from loopkernel.laws.reports import Judged
from loopkernel.laws.shadow.step import JudgedStep


class RunLaw(Protocol):
    """A law over a run, which is given its steps one after the other, and keeps what it needs of those before."""

    def take(self, step: JudgedStep) -> Iterator[str]:
        """What is wrong with this step."""


@final
class OfEachStep:
    """A law over a run that keeps nothing of the steps before."""

    def __init__(self, check: Callable[[JudgedStep, Judged], Iterator[str]], judged: Judged) -> None:
        self._check, self._judged = check, judged

    def take(self, step: JudgedStep) -> Iterator[str]:
        """What is wrong with this step."""
        return self._check(step, self._judged)
