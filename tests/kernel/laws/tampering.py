"""Runs that are tampered with: a run of the real kernel, one step of it changed, and what a law must say of it.

A change may break several laws; each case names the one that it is about, and a piece of what must be said.
"""

from collections.abc import Callable, Iterable, Sequence

from attrs import evolve, frozen
from loopkernel.data.blocks import TextBlock
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import (
    CallModel,
    Effect,
)
from loopkernel.data.events import (
    Refused,
    ToolEnded,
)
from loopkernel.data.ids import (
    CallId,
    ModelOperation,
)
from loopkernel.data.ledgers import Ledger, LedgerEntry
from loopkernel.data.messages import AssistantMessage, Message
from loopkernel.data.sessions import Session
from loopkernel.data.states import Executing, State
from loopkernel.data.usage import Usage
from loopkernel.data.user_deltas import Say
from loopkernel.data.vector import Vector
from loopkernel.data.words import CallStatus, CancelReason
from loopkernel.judging import check_pairs, check_trace
from loopkernel.replaying import StepRecord

from tests.kernel.played import PLAYED

CALL = CallId(ModelOperation(1), 1)
OTHER = CallId(ModelOperation(9), 1)
SAY = Say(content=(TextBlock("hello"),))
Steps = tuple[StepRecord, ...]
USAGE = Usage(input=1)


def at(steps: Sequence[StepRecord], delta: type[Delta], nth: int = 0) -> int:
    """The index of the nth step of such a delta that was not refused."""
    places = [
        place
        for place, step in enumerate(steps)
        if isinstance(step.context.delta, delta) and not any(isinstance(effect, Refused) for effect in step.effects)
    ]
    return places[nth]


def changed(script: str, delta: type[Delta], change: Callable[[StepRecord], StepRecord], nth: int = 0) -> Steps:
    """The run of the script, up to the nth step of such a delta, and that one changed."""
    steps = PLAYED[script]
    place = at(steps, delta, nth)
    return (*steps[:place], change(steps[place]))


def more(*effects: Effect) -> Callable[[StepRecord], StepRecord]:
    """The step with these effects too."""
    return lambda step: evolve(step, effects=(*step.effects, *effects))


def less(*kinds: type[Effect]) -> Callable[[StepRecord], StepRecord]:
    """The step without the effects of these kinds."""
    return lambda step: evolve(step, effects=tuple(effect for effect in step.effects if not isinstance(effect, kinds)))


def only(*effects: Effect) -> Callable[[StepRecord], StepRecord]:
    """The step with these effects, and no others."""
    return lambda step: evolve(step, effects=effects)


def instead(change: Callable[[Effect], Effect]) -> Callable[[StepRecord], StepRecord]:
    """The step with each effect changed."""
    return lambda step: evolve(step, effects=tuple(change(effect) for effect in step.effects))


def after(change: Callable[[State], State]) -> Callable[[StepRecord], StepRecord]:
    """The step with another state after it."""
    return lambda step: evolve(step, after=change(step.after))


def with_session(change: Callable[[Session], Session]) -> Callable[[StepRecord], StepRecord]:
    """The step with another session after it."""

    def apply(state: State) -> State:
        other: State = evolve(state, session=change(session_in(state)))
        return other

    return after(apply)


def with_ledger(change: Callable[[Ledger], Ledger]) -> Callable[[StepRecord], StepRecord]:
    """The step with another ledger after it."""

    def apply(state: State) -> State:
        assert isinstance(state, Executing)
        return evolve(state, ledger=change(state.ledger))

    return after(apply)


def with_entry(place: int, change: Callable[[LedgerEntry], LedgerEntry]) -> Callable[[StepRecord], StepRecord]:
    """The step with another entry in the ledger after it."""
    return with_ledger(
        lambda ledger: evolve(ledger, entries=ledger.entries.replace(place, change(ledger.entries[place])))
    )


def with_request(change: Callable[[Vector[Message]], Vector[Message]]) -> Callable[[StepRecord], StepRecord]:
    """The step with other messages in the thread of its request."""

    def apply(effect: Effect) -> Effect:
        if not isinstance(effect, CallModel):
            return effect
        thread = effect.request.thread
        return evolve(effect, request=evolve(effect.request, thread=evolve(thread, messages=change(thread.messages))))

    return instead(apply)


def last_reply_changed(change: Callable[[AssistantMessage], Message]) -> Callable[[StepRecord], StepRecord]:
    """The step whose request has another last reply."""

    def apply(messages: Vector[Message]) -> Vector[Message]:
        place = max(index for index, message in enumerate(messages) if isinstance(message, AssistantMessage))
        reply = messages[place]
        assert isinstance(reply, AssistantMessage)
        return messages.replace(place, change(reply))

    return with_request(apply)


def session_in(state: State) -> Session:
    """The session of the state, which has one."""
    assert state.session is not None
    return state.session


@frozen
class Case:
    """A run that breaks a law, and a piece of what that law must say."""

    law: str
    says: str
    run: Callable[[], Iterable[StepRecord]]


def ended_as(status: CallStatus, reason: CancelReason | None = None) -> Callable[[StepRecord], StepRecord]:
    """The step whose calls end with this status, for this reason."""
    return instead(
        lambda effect: (
            ToolEnded(evolve(effect.result, status=status, reason=reason)) if isinstance(effect, ToolEnded) else effect
        )
    )


def request_of(script: str) -> CallModel:
    """The first request of the run."""
    return next(effect for step in PLAYED[script] for effect in step.effects if isinstance(effect, CallModel))


def findings(steps: Iterable[StepRecord], law: str) -> list[str]:
    """What the law says of the run."""
    run = tuple(steps)
    breaches = (*check_trace(run).breaches, *check_pairs(run).breaches)
    return [breach.detail for breach in breaches if breach.law == law]
