"""The model of a simulated world, and the line to it: all that can be wrong with a stream."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from loopkernel.data.effects import Request
from loopkernel.data.ids import ModelOperation, OperationKind
from loopkernel.data.model_deltas import ModelCompleted, ModelDelta, ModelFailed, ModelText
from loopkernel.data.words import StopReason
from loopkernel.later_typing import override
from loopkernel.testing.scenarios.data import world
from loopkernel.testing.scenarios.player.reply_script import reply_of

from loopkernel_adapters.ports import Provider
from loopkernel_adapters.testing.simulation.drawing import ODD_TEXT
from loopkernel_adapters.testing.simulation.evidence import FOREIGN
from loopkernel_adapters.testing.simulation.machine import Foreign, Simulated
from loopkernel_adapters.testing.simulation.plan import Reply

PLAIN_REPLY = Reply(entry=world.ModelEntry(text="done"))
MANY = 70  # pieces: more than are recorded together


class SimulatedModel(Simulated, Provider):
    """A model, and the line to it."""

    @override
    async def stream(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        call = self.session.claim(OperationKind.MODEL, operation)
        item: Reply = self.world.take(self.world.replies, PLAIN_REPLY)
        if not any(message_roles(request)):
            self.world.accuse(f"{self.session.name}: an empty request {operation}")
        try:
            async for delta in self._pieces(item, request, operation):
                if isinstance(delta, ModelCompleted | ModelFailed):
                    call.owes = not self.life.over
                    call.ended = True
                yield delta
            call.owes, call.ended = not self.life.over, True
        except (asyncio.CancelledError, GeneratorExit):
            call.cancelled = True
            raise
        except BaseException:
            call.owes, call.ended = not self.life.over, True
            raise
        finally:
            if item.oddity == "close raises":
                self.odd("model: close raises")
                raise Foreign("cannot close")

    async def _pieces(self, item: Reply, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        """The stream, with its oddity just before its end."""
        entry = item.entry
        if isinstance(entry.ending, world.ModelEndsEarly):
            self.odd("model: ends early")
        reports = reply_of(entry, operation, request.model).reports
        if entry.takes_ms >= 60_000:
            self.odd("model: slow")
        now_ms = 0
        for report in reports:
            if report.delay_ms > now_ms:
                await self.world.lasts(report.delay_ms - now_ms)
                now_ms = report.delay_ms
            delta: Any = report.delta  # Any: the script is typed as any delta, and what is odd is none
            if isinstance(delta, ModelFailed):
                if isinstance(entry.ending, world.ModelEndsEarly):
                    return
                self.odd(f"model: fails {delta.error.value}")
                if delta.retry_after_ms not in (None, 0, 5_000):
                    self.odd("model: odd retry-after")
            if isinstance(delta, ModelCompleted | ModelFailed):
                async for odd in self._oddity(item.oddity, operation):
                    yield odd
            elif item.oddity == "duplicate":
                self.odd("model: duplicate")
                yield delta
            yield delta
        if isinstance(entry.ending, world.ModelHangs):
            self.odd("model: silence")
            await self.world.lasts(entry.takes_ms)
            await self.world.hangs()

    async def _oddity(self, oddity: str, operation: ModelOperation) -> AsyncIterator[Any]:  # Any: as above
        if oddity in ("", "duplicate", "close raises"):
            return
        self.odd(f"model: {oddity}")
        foreign = ModelOperation(operation + FOREIGN)
        match oddity:
            case "garbage":
                yield {"type": "content_block_delta"}
            case "wrong operation":
                yield ModelText(foreign, "not mine")
                yield ModelCompleted(foreign, StopReason.END_TURN)
            case "foreign":
                raise Foreign("the line is on fire")
            case "timeout":
                raise TimeoutError
            case "lost":
                raise ConnectionResetError(104, "Connection reset by peer")
            case "exit":
                raise SystemExit(3)
            case "odd text":
                yield ModelText(operation, ODD_TEXT)
            case "many pieces":
                for _ in range(MANY):
                    yield ModelText(operation, "on and ")
                await self.world.lasts(1_000)
            case "late report":
                yield ModelText(ModelOperation(operation - 1), "too late")
            case _:
                pass


def message_roles(request: Request) -> Sequence[object]:
    """What a request holds."""
    return tuple(request.thread.messages)
