"""Planted bugs about the time that sub-agents have, and the phases they put a turn in. See `children`."""

from attrs import evolve
from loopkernel.data.effects import StartChild, StartTimer
from loopkernel.data.ledgers import ChildWait, LedgerEntry
from loopkernel.data.outside_deltas import ChildAsks
from loopkernel.data.records import StepRecord
from loopkernel.data.states import Confirming, Dispatching, Executing, State
from loopkernel.data.steps import Step, is_refused
from loopkernel.data.words import TimerPurpose
from loopkernel.laws.ending_laws import entries_in
from loopkernel.testing.planted.planting import PlantedBug, changing_states, changing_steps, under_policy, with_entries

_MORE_MS = 1_000


def _time_runs_on(record: StepRecord) -> Step[State]:
    """A sub-agent that goes on after a question has as much time as if it had not asked, and more."""
    if not isinstance(record.context.delta, ChildAsks) or is_refused(record.effects):
        return Step(record.after, record.effects)
    timers = [one for one in record.effects if isinstance(one, StartTimer)]
    timers = [one for one in timers if one.purpose is TimerPurpose.CHILD_TIMEOUT]

    def late(entry: LedgerEntry) -> LedgerEntry:
        timer = entry.timer
        if timer is None or all(timer.operation != one.operation for one in timers):
            return entry
        return evolve(entry, timer=evolve(timer, deadline_ms=timer.deadline_ms + 50))

    told = (
        evolve(effect, deadline_ms=effect.deadline_ms + 50)
        if isinstance(effect, StartTimer) and effect in timers
        else effect
        for effect in record.effects
    )
    return Step(with_entries(record.after, late), tuple(told))


def _outlasts_the_turn(record: StepRecord) -> Step[State]:
    """Sub-agents have the time that policy gives them, however little the turn has left."""
    begun = {effect.call for effect in record.effects if isinstance(effect, StartChild)}
    session, now_ms = record.after.session, record.after.stamp.now_ms
    given_ms = None if session is None else session.settings.policy.child.timeout_ms
    if not begun or given_ms is None:
        return Step(record.after, record.effects)
    due_ms = now_ms + given_ms

    def longer(entry: LedgerEntry) -> LedgerEntry:
        if entry.call.id not in begun or entry.timer is None:
            return entry
        return evolve(entry, timer=evolve(entry.timer, deadline_ms=due_ms))

    effects = (
        evolve(effect, deadline_ms=due_ms)
        if isinstance(effect, StartTimer) and effect.purpose is TimerPurpose.CHILD_TIMEOUT
        else effect
        for effect in record.effects
    )
    return Step(with_entries(record.after, longer), tuple(effects))


def _more_time_for_asking(record: StepRecord) -> State:
    """Whoever waits for a person has more time afterwards."""
    known = {entry.call.id for entry in entries_in(record.before) if isinstance(entry.person.wait, ChildWait)}

    def longer(entry: LedgerEntry) -> LedgerEntry:
        wait = entry.person.wait
        if not isinstance(wait, ChildWait) or wait.left_ms is None or entry.call.id in known:
            return entry
        return evolve(entry, person=evolve(entry.person, wait=evolve(wait, left_ms=wait.left_ms + _MORE_MS)))

    return with_entries(record.after, longer)


def _always_executing(record: StepRecord) -> State:
    """That only sub-agents are under way is not seen."""
    after = record.after
    if not isinstance(after, Dispatching):
        return after
    return Executing(
        session=after.session, stamp=after.stamp, turn=after.turn, ledger=after.ledger, settled=after.settled
    )


def _asking_is_work(record: StepRecord) -> State:
    """A sub-agent that asks does not count as one who waits for a person."""
    after = record.after
    if not isinstance(after, Confirming) or not any(
        isinstance(one.person.wait, ChildWait) for one in entries_in(after)
    ):
        return after
    return Dispatching(
        session=after.session, stamp=after.stamp, turn=after.turn, ledger=after.ledger, settled=after.settled
    )


PLANTED_CHILD_TIMES = (
    PlantedBug(name="time-of-a-child-runs-on", law="TIMER-DATA", plant=changing_steps(_time_runs_on)),
    PlantedBug(
        name="child-has-all-the-time",
        law="TIMER-DATA",
        plant=under_policy(lambda policy: evolve(policy, child=evolve(policy.child, timeout_ms=None))),
    ),
    PlantedBug(name="child-outlasts-the-turn", law="BUDGET", plant=changing_steps(_outlasts_the_turn)),
    PlantedBug(name="asking-child-has-more-time", law="TIMER-DATA", plant=changing_states(_more_time_for_asking)),
    PlantedBug(name="never-dispatching", law="WRITE-AHEAD", plant=changing_states(_always_executing)),
    PlantedBug(name="asking-child-is-work", law="WRITE-AHEAD", plant=changing_states(_asking_is_work)),
)
