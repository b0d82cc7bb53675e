"""What was seen of one run: every step, the trace, and when each tool ran."""

from collections.abc import Iterable
from typing import final

from attrs import define, frozen

from loopkernel.codec import record_from_text, record_to_text
from loopkernel.data.blocks import ToolResult
from loopkernel.data.effects import CallModel, Effect, Request
from loopkernel.data.events import MessageAdded, ToolEnded, TurnEnded
from loopkernel.data.ids import RunOperation
from loopkernel.data.json_text import Json
from loopkernel.data.messages import ResultMessage
from loopkernel.data.states import Done, Initial, State
from loopkernel.data.words import TurnEndReason
from loopkernel.replaying import LogRecord, StepRecord, Transition, fold
from loopkernel.testing.run import log_of
from loopkernel.testing.scenarios.player.call_names import CallNames


@final
@frozen
class TraceLine:
    """A line of the trace: its virtual time, and the step (from 0) that printed it."""

    text: str
    at_ms: int
    step: int


@final
@define(kw_only=True)
class ToolRun:
    """One run of a tool, for the call of that name. It lasts until its end is reported or it heeds an abort."""

    call: str
    operation: RunOperation
    input: Json
    started_ms: int
    ended_ms: int | None = None


@final
@frozen(kw_only=True)
class Recording:
    """A run that is over.

    `trouble` says why it could not go on to its end, if it could not; `raised`, that it was the kernel which raised.
    `children` are the sub-agents, each with a run of its own, at the `address` of the call that it ran for.
    """

    steps: tuple[StepRecord, ...]
    lines: tuple[TraceLine, ...]
    runs: tuple[ToolRun, ...]
    names: CallNames
    trouble: str | None = None
    raised: str | None = None
    address: str = ""
    children: "tuple[Recording, ...]" = ()

    @property
    def log(self) -> tuple[LogRecord, ...]:
        """The deltas and their times."""
        return log_of(self.steps)

    @property
    def last_state(self) -> State:
        """Where the run came to rest."""
        return self.steps[-1].after if self.steps else Initial()

    @property
    def effects(self) -> Iterable[Effect]:
        """All effects, in their order."""
        return (effect for step in self.steps for effect in step.effects)

    @property
    def requests(self) -> tuple[Request, ...]:
        """All requests, in their order."""
        return tuple(effect.request for effect in self.effects if isinstance(effect, CallModel))

    @property
    def results(self) -> dict[str, ToolResult]:
        """How each call was answered, by the scenario's name; those of a thread from elsewhere are told by no end."""
        found: list[ToolResult] = []
        for effect in self.effects:
            if isinstance(effect, ToolEnded):
                found.append(effect.result)
            elif isinstance(effect, MessageAdded) and isinstance(effect.message, ResultMessage):
                found.extend(result for result in effect.message.results if result.call.reply < 1)
        return {self.names.name_of(result.call): result for result in found}

    @property
    def last_end(self) -> TurnEndReason | None:
        """Why the run ended, if it is done, else why its last turn ended; None if none did."""
        state = self.last_state
        if isinstance(state, Done):
            return state.reason
        ends = [effect.reason for effect in self.effects if isinstance(effect, TurnEnded)]
        return ends[-1] if ends else None


def refolded(log: Iterable[LogRecord], transition: Transition) -> tuple[StepRecord, ...]:
    """The steps of a log that is read back from its text."""
    return fold((record_from_text(record_to_text(record)) for record in log), transition=transition)
