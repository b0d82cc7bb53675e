"""Hooks that answer from a script, and sessions that ask them."""

import asyncio
from collections.abc import Iterable

from loopkernel.data.hook_calls import HookContext
from loopkernel.data.outside_deltas import HookAnswer, HookContinue
from loopkernel.data.policy import Hook, Policy
from loopkernel.data.words import HookPoint
from loopkernel_adapters.optional_ports import Hooks, OptionalPorts
from loopkernel_adapters.providers.scripted import Reply
from typing_extensions import override

from tests.adapters.driver.driver_world import FunctionTools, World

ScriptedAnswer = HookAnswer | Exception | asyncio.Event


class ScriptedHooks(Hooks):
    """Gives out the answers of each hook in order, and `HookContinue` when none is left.

    An exception is raised; an event is waited for, and then it continues. Everything asked and told is noted.
    """

    def __init__(self, **answers: Iterable[ScriptedAnswer]) -> None:
        self._answers = {name: list(script) for name, script in answers.items()}
        self.asked: list[HookContext] = []
        self.told: list[HookContext] = []
        self.cancelled = 0

    @override
    async def ask(self, context: HookContext) -> HookAnswer:
        self.asked.append(context)
        script = self._answers.get(context.name, [])
        answer = script.pop(0) if script else HookContinue()
        if isinstance(answer, Exception):
            raise answer
        if not isinstance(answer, asyncio.Event):
            return answer
        try:
            await answer.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return HookContinue()

    @override
    def tell(self, context: HookContext) -> None:
        self.told.append(context)
        script = self._answers.get(context.name, [])
        if script and isinstance(failure := script.pop(0), Exception):
            raise failure


def gated(point: HookPoint, name: str) -> Hook:
    return Hook(point=point, name=name, gated=True)


def hooked_world(
    hooks: ScriptedHooks,
    *listed: Hook,
    replies: Iterable[Reply],
    tools: FunctionTools | None = None,
    policy: Policy | None = None,
) -> World:
    """A session with these hooks in its policy."""
    return World(replies, tools=tools, policy=policy or Policy(hooks=listed), optional=OptionalPorts(hooks=hooks))
