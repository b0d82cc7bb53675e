"""Hooks, summaries, corrections and handoffs of a simulated world."""

import asyncio
from typing import Any

from loopkernel.data.effects import CheckCorrection, HandOff, Summarise
from loopkernel.data.hook_calls import HookContext
from loopkernel.data.ids import OperationKind
from loopkernel.data.outside_deltas import HookAnswer, HookBlock, HookContinue, HookFault, HookModify, HookRetry
from loopkernel.data.usage import Usage
from loopkernel.later_typing import override
from loopkernel.testing.scenarios.data import world

from loopkernel_adapters.optional_ports import Corrector, Handoffs, Hooks, Summariser, SummaryError
from loopkernel_adapters.testing.simulation.evidence import PortCall
from loopkernel_adapters.testing.simulation.machine import Foreign, Simulated
from loopkernel_adapters.testing.simulation.plan import Answer

PLAIN_ANSWER = Answer()


class SimulatedOthers(Simulated, Hooks, Summariser, Corrector, Handoffs):
    """Hooks, summaries, corrections and handoffs."""

    async def _answer(self, what: str, call: PortCall) -> Answer:
        item: Answer = self.world.take(self.world.answers, PLAIN_ANSWER)
        try:
            if item.takes_ms >= 1_000:
                self.odd(f"{what}: slow")
            await self.world.lasts(item.takes_ms)
            if item.oddity:
                self.odd(f"{what}: {item.oddity}")
            if item.oddity == "foreign":
                raise Foreign("nobody there")
            if item.oddity == "exit":
                raise SystemExit(2)
            if item.oddity == "hangs" and what in ("hook", "correction"):
                await self.world.hangs()
            return item
        except asyncio.CancelledError:
            call.cancelled = True
            raise
        finally:
            call.ended, call.owes = True, not call.cancelled and not self.life.over

    @override
    async def ask(self, context: HookContext) -> HookAnswer:
        item = await self._answer("hook", self.session.claim_hook(context))
        garbage: Any = True  # Any: what a broken hook gives is no answer
        return garbage if item.oddity == "garbage" else hook_answer(item.outcome)

    @override
    def tell(self, context: HookContext) -> None:
        self.odd("hook: tell raises")
        raise Foreign("I only wanted to look")

    @override
    async def summarise(self, command: Summarise) -> tuple[str, Usage]:
        item = await self._answer("summary", self.session.claim(OperationKind.SUMMARY, command.operation))
        if isinstance(item.outcome, world.HookFails):
            self.odd("summary: fails")
            raise SummaryError("too long", Usage(input=5))
        return "" if item.oddity == "empty" else "What came before.", Usage(input=3, output=1)

    @override
    async def correct(self, command: CheckCorrection) -> tuple[str | None, Usage]:
        item = await self._answer("correction", self.session.claim(OperationKind.CORRECTION, command.operation))
        text = "mind the gap" if isinstance(item.outcome, world.HookReplies) and item.outcome.why else None
        return text, Usage(input=1)

    @override
    async def hand_off(self, command: HandOff) -> str:
        item = await self._answer("handoff", self.session.claim(OperationKind.HANDOFF, command.operation))
        if isinstance(item.outcome, world.HookFails):
            raise Foreign("no new thread")
        return "the next thread"


def hook_answer(outcome: world.HookReplies | world.HookFails | world.HookHangs) -> HookAnswer:
    """The answer of a hook, as the scenario format says it."""
    if not isinstance(outcome, world.HookReplies):
        return HookFault("broken")
    match outcome.answer:
        case world.HookAnswerKind.BLOCK:
            return HookBlock(outcome.why or "")
        case world.HookAnswerKind.MODIFY:
            return HookModify(message=outcome.text)
        case world.HookAnswerKind.RETRY:
            return HookRetry()
        case world.HookAnswerKind.CONTINUE:
            return HookContinue()
