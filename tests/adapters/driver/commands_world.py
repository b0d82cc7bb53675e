"""A transition of the test's own in the place of the kernel's, so that any effect can be had from any delta."""

from typing import Any

import pytest
from loopkernel.data.effects import Effect
from loopkernel.data.states import State
from loopkernel.data.steps import Context, Step
from loopkernel_adapters.driver import asyncio_driver


def scripted_effects(monkeypatch: pytest.MonkeyPatch, effects: list[tuple[Effect, ...]]) -> list[Any]:
    """From now on each delta gives the next of these effects; returns the list of the deltas seen."""
    deltas: list[Any] = []  # Any: compared with deltas of every family

    def transition(state: State, ctx: Context) -> Step[State]:
        deltas.append(ctx.delta)
        return Step(state, effects.pop(0) if effects else ())

    monkeypatch.setattr(asyncio_driver, "transition", transition)
    return deltas
