"""Restarts: every prefix of every scenario's log is taken up again, and loses, repeats and forgets nothing."""

from pathlib import Path
from typing import TypeGuard

import pytest
from loopkernel.codec import state_from_text, state_to_text
from loopkernel.data.effects import CallModel, Effect, StartTimer, StartTool
from loopkernel.data.events import InputSettled, Refused, SessionResumed
from loopkernel.data.ledgers import ApprovalWait, Ledger
from loopkernel.data.sessions import Session
from loopkernel.data.states import (
    Backoff,
    Confirming,
    Dispatching,
    Done,
    Executing,
    Finishing,
    Initial,
    State,
    Streaming,
    Thinking,
)
from loopkernel.data.steps import Context
from loopkernel.data.thread_deltas import Resumed
from loopkernel.data.tools import EffectClass
from loopkernel.data.words import CallStatus, InputFate, TimerPurpose
from loopkernel.loop.transition import transition
from loopkernel.replaying import fold

from tests.kernel.scenario_logs import FILES, logs_of

LATER_MS = 10**7  # after every deadline of the scenarios, but those of days
WRITTEN = 7  # of so many states one is taken up from its text


def calls_of(state: State) -> Ledger | None:
    return state.ledger if isinstance(state, Streaming | Executing | Confirming | Dispatching | Initial) else None


def waiting(state: State) -> set[int]:
    """The places of the calls that wait for a person's approval."""
    ledger = calls_of(state)
    entries = () if ledger is None else ledger.entries
    return {place for place, entry in enumerate(entries) if isinstance(entry.person.wait, ApprovalWait)}


@pytest.mark.rule("RESUME-3")
@pytest.mark.rule("RESUME-4")
@pytest.mark.rule("RETRY-4")
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_prefix_of_every_scenario_can_be_taken_up_again(file: Path) -> None:
    restarted = 0
    for scenario, log in logs_of(file).items():
        for at, record in enumerate(fold(log), start=1):
            before = record.after
            if before.session is None or isinstance(before, Done | Thinking | Finishing):
                continue
            restarted += 1
            told = f"{scenario} after record {at}"
            found = state_from_text(state_to_text(before)) if at % WRITTEN == 0 else before
            after = demand_nothing_lost(told, found, before.session)
            if after.session is not None and not isinstance(after, Done):  # to die again at once changes nothing
                demand_nothing_lost(f"{told}, twice", after, after.session)
    assert restarted > 20


def demand_nothing_lost(told: str, before: State, session: Session) -> State:
    """The state is taken up again; what it must keep is kept, and what must not start does not."""
    after, effects = transition(before, Context(Resumed(), LATER_MS))
    assert after.session is not None, told
    assert not any(isinstance(effect, Refused) for effect in effects), told
    assert sum(isinstance(effect, SessionResumed) for effect in effects) == 1, told
    ledger = calls_of(before)
    running = {} if ledger is None else {entry.call.id: entry for entry in ledger.entries if entry.runs}
    held = {run.call: run for run in session.held}
    for effect in effects:
        if isinstance(effect, StartTool):
            known = running.get(effect.call)
            if known is not None and known.status is CallStatus.QUEUED:
                assert known.person.approved or known.effect is not EffectClass.DANGEROUS, f"{told}: nobody has said so"
            elif known is not None:
                assert known.effect is not EffectClass.DANGEROUS, f"{told}: {effect.call} starts again"
            elif effect.call in held:
                assert held[effect.call].effect is not EffectClass.DANGEROUS, f"{told}: {effect.call} starts again"
    if waiting(before):
        assert waiting(after) >= waiting(before), told
    if isinstance(before, Backoff):
        assert isinstance(after, Backoff), told
        assert (after.timer.deadline_ms, after.turn) == (before.timer.deadline_ms, before.turn), told
        started = [effect.deadline_ms for effect in effects if isinstance(effect, StartTimer)]
        assert before.timer.deadline_ms in started, told
        assert after.timer.purpose is TimerPurpose.RETRY
        assert not any(isinstance(effect, CallModel) for effect in effects), told
    queue = [waits.receipt for waits in session.inbox.queue]
    if queue:  # a run that ends hands it back; one that goes on keeps it, behind what was steered
        back = [effect.receipt for effect in effects if _is_handed_back(effect)]
        assert [*back, *(waits.receipt for waits in after.session.inbox.queue)][-len(queue) :] == queue, told
    assert after.session.usage.total >= session.usage.total, told
    return after


def _is_handed_back(effect: Effect) -> TypeGuard[InputSettled]:
    return isinstance(effect, InputSettled) and effect.fate is InputFate.HANDED_BACK
