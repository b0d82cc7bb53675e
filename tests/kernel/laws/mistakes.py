"""Mistakes within an algorithm's own function, planted wherever the kernel has it, and judged by laws alone."""

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, final

from attrs import frozen
from loopkernel.laws import Judged, judge_pairs, judge_trace
from loopkernel.loop.algorithms import compaction, projection
from loopkernel.loop.transition import transition
from loopkernel.testing.played.player import Script, play
from loopkernel.views.explain import explain

Function = Callable[..., Any]  # Any: an algorithm's own, of whatever arguments


@final
@frozen(kw_only=True)
class Mistake:
    """What is wrong in a function of an algorithm, a short run that comes by it, and the law that finds it out.

    `function` is its module within the loop, and its name there; `mistaken` makes the wrong one of the right one.
    """

    algorithm: str
    name: str
    function: str
    mistaken: Callable[[Function], Function]
    run: Script
    law: str

    def laws_broken(self) -> set[str]:
        """The laws that the run breaks on a kernel with the mistake. Nothing is compared with a run without it."""
        module, _, name = self.function.rpartition(".")
        right = getattr(importlib.import_module(f"loopkernel.loop.{module}"), name)
        with everywhere(right, self.mistaken(right)):
            return laws_broken(self.run)


def laws_broken(run: Script) -> set[str]:
    """The laws that the run breaks on the kernel as it is now."""
    steps = play(run, transition)
    judged = Judged(transition=transition, explain=explain, plan_cut=compaction.plan_cut, project=projection.project)
    breaches = (*judge_trace(steps, judged).breaches, *judge_pairs(steps, judged).breaches)
    return {breach.law for breach in breaches}


@contextmanager
def everywhere(right: Function, wrong: Function) -> Iterator[None]:
    """The wrong function stands wherever the kernel's modules have the right one, until this ends."""
    places = [
        (module, name)
        for path, module in list(sys.modules.items())
        if path.startswith("loopkernel.")
        for name, value in list(vars(module).items())
        if value is right
    ]
    for module, name in places:
        setattr(module, name, wrong)
    try:
        yield
    finally:
        for module, name in places:
            setattr(module, name, right)


def mistakes(
    algorithm: str, module: str, *rows: tuple[str, str, Callable[[Function], Function], Script, str]
) -> tuple[Mistake, ...]:
    """Mistakes in the functions of one algorithm: the name of each, its function, what it does, a run, and the law."""
    return tuple(
        Mistake(algorithm=algorithm, name=name, function=f"{module}.{function}", mistaken=mistaken, run=run, law=law)
        for name, function, mistaken, run, law in rows
    )
