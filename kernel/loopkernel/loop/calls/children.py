"""Sub-agents as a region: what they say, ask and come to, seen from their parent's ledger (section CHILD)."""

from typing import assert_never

from attrs import evolve

from loopkernel.data.blocks import TextBlock
from loopkernel.data.children import ChildRun
from loopkernel.data.events import ChildAsked, ChildFinished, ToolProgressed
from loopkernel.data.hook_calls import RunEnd
from loopkernel.data.ids import OperationKind, RunOperation
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import ChildWait, Ledger
from loopkernel.data.outside_deltas import ChildAsks, ChildEnded, ChildProgress, HookAnswered, OutsideDelta
from loopkernel.data.sessions import Session
from loopkernel.data.tools import ToolOutput
from loopkernel.data.words import NATURAL_ENDS, CallStatus, TimerPurpose
from loopkernel.loop.algorithms.scheduling import unpark
from loopkernel.loop.algorithms.wording import child_end_text
from loopkernel.loop.calls.held_runs import Ledgered
from loopkernel.loop.calls.ledger import noted, open_run
from loopkernel.loop.calls.run_reports import hook_report, run_ended
from loopkernel.loop.calls.starting import child_command, set_timer
from loopkernel.loop.calls.telling import told_again
from loopkernel.loop.gates.timers import close_timer

ChildReport = ChildProgress | ChildAsks | ChildEnded


def outside_report(
    ledger: Ledger, session: Session, delta: OutsideDelta, now_ms: int, *, streaming: bool = False
) -> Ledgered | None:
    """A report of a hook or a sub-agent takes effect on a call of this reply; None if it is about none that is open.

    While the reply is `streaming`, a call that may not run is not answered yet.
    """
    if isinstance(delta, HookAnswered):
        return hook_report(ledger, session, delta, now_ms, streaming=streaming)
    if isinstance(delta, ChildProgress | ChildAsks | ChildEnded):
        return child_report(ledger, session, delta, now_ms)
    return None


def child_report(ledger: Ledger, session: Session, delta: ChildReport, now_ms: int) -> Ledgered | None:
    """A report of a sub-agent takes effect on its call; None if it is none of this reply that runs."""
    place = open_run(ledger, delta.operation)
    child = None if place is None else ledger.entries[place].child
    if place is None or child is None:
        return None
    match delta:
        case ChildProgress():
            return _said(ledger, session, place, child, delta.text)
        case ChildAsks():
            return _asks(ledger, session, place, delta, now_ms)
        case ChildEnded():
            return _ended(ledger, session, place, delta, now_ms)
        case _:
            assert_never(delta)


def _said(ledger: Ledger, session: Session, place: int, child: ChildRun, text: str) -> Ledgered:
    """The sub-agent has said something, which is what is left of it should it not come to an end."""
    entry = ledger.entries[place]
    told = () if entry.operation is None else (ToolProgressed(entry.call.id, entry.operation, text),)
    said = evolve(entry, child=evolve(child, text=text), progress=entry.progress.append(text))
    return Ledgered(ledger.put(place, said), session, told)


def _asks(ledger: Ledger, session: Session, place: int, delta: ChildAsks, now_ms: int) -> Ledgered:
    """Calls of the sub-agent wait for a person, or none does any more; its time does not run meanwhile."""
    entry = ledger.entries[place]
    before = entry.person.wait
    waited = isinstance(before, ChildWait)
    asked = before.asked if isinstance(before, ChildWait) else ()
    told = tuple(ChildAsked(entry.call.id, call) for call in delta.asked if call not in asked)
    if isinstance(before, ChildWait):
        if not delta.asked:
            return _goes_on(ledger, session, place, before, now_ms)
        left_ms = before.left_ms
    elif not delta.asked:
        return Ledgered(ledger, session)
    else:
        left_ms = None if entry.timer is None else max(entry.timer.deadline_ms - now_ms, 0)
    person = evolve(entry.person, wait=ChildWait(delta.asked, left_ms))
    waiting = evolve(entry, status=CallStatus.BLOCKED_ON_USER, timer=None, person=person)
    ledger = evolve(
        ledger.put(place, waiting),
        running=ledger.running - (not waited),
        children=ledger.children - (not waited),
        waiting=ledger.waiting + (not waited),
        asking=ledger.asking + (not waited),
    )
    return Ledgered(ledger, session, (*close_timer(entry.timer), *told))


def _goes_on(ledger: Ledger, session: Session, place: int, wait: ChildWait, now_ms: int) -> Ledgered:
    """Nobody is asked any more: the sub-agent runs, in the time that it has left."""
    entry = ledger.entries[place]
    running = evolve(entry, status=CallStatus.IN_PROGRESS, person=evolve(entry.person, wait=None))
    ledger = evolve(
        ledger.put(place, running),
        running=ledger.running + 1,
        children=ledger.children + 1,
        waiting=ledger.waiting - 1,
        asking=ledger.asking - 1,
    )
    if wait.left_ms is None:
        return Ledgered(ledger, session)
    return set_timer(ledger, session, place, TimerPurpose.CHILD_TIMEOUT, now_ms + wait.left_ms)


def _ended(ledger: Ledger, session: Session, place: int, delta: ChildEnded, now_ms: int) -> Ledgered:
    """The sub-agent has come to its end, natural or not; what it has used is its parent's (rule CHILD-2)."""
    entry = ledger.entries[place]
    session = _billed(session, delta)
    natural = delta.reason in NATURAL_ENDS
    text = delta.text if natural else child_end_text(delta.reason, delta.text)
    output = ToolOutput(content=(TextBlock(text),) if text else ())
    end = RunEnd(status=CallStatus.DONE if natural else CallStatus.ERROR, output=output)
    answered = run_ended(ledger, session, place, end, now_ms)
    if answered.ledger.plan is not None:  # what was reserved for it is there for others, whatever hooks say of its end
        answered = evolve(answered, ledger=evolve(answered.ledger, plan=unpark(answered.ledger.plan)))
    return evolve(answered, effects=(ChildFinished(entry.call.id, delta.reason), *answered.effects))


def _billed(session: Session, delta: ChildEnded) -> Session:
    """The session that has spent what its sub-agent has."""
    return evolve(session, usage=session.usage.plus(delta.usage), started=session.started + delta.tool_calls)


def resume_child(
    ledger: Ledger,
    session: Session,
    place: int,
    child: ChildRun,
    given: Json,
    operation: RunOperation,
    now_ms: int,
) -> Ledgered:
    """The process was restarted: the sub-agent goes on from its own log, within the time that it had (RESUME-3)."""
    entry = ledger.entries[place]
    wait, timer = entry.person.wait, entry.timer
    deadline_ms = None if timer is None else timer.deadline_ms
    if isinstance(wait, ChildWait):
        deadline_ms = None if wait.left_ms is None else now_ms + wait.left_ms
        ledger = _goes_on(ledger, session, place, evolve(wait, left_ms=None), now_ms).ledger
    operations, number = session.operations.abandon(OperationKind.RUN, operation).mint(OperationKind.RUN)
    session = session.with_operations(operations)
    again = evolve(ledger.entries[place], operation=RunOperation(number), timer=None)
    ledger = evolve(ledger.put(place, again), started=noted(ledger.started, number - ledger.first_run, place))
    command = child_command(ledger, place, child, given, session, resumed=True)
    effects = (command, *told_again(RunOperation(number), child, session.settings))
    if deadline_ms is None:
        return Ledgered(ledger, session, effects)
    timed = set_timer(ledger, session, place, TimerPurpose.CHILD_TIMEOUT, deadline_ms)
    return evolve(timed, effects=(*effects, *timed.effects))
