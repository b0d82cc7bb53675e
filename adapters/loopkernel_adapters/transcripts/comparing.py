"""What another policy would have made of a recording: where its play parts from what was recorded, and in what.

Events are the same when they say the same at the same place of the recording; the end of a call is told by its call,
since calls that wait for each other are answered later. What streams, and what only follows from the rest, is left out.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias, assert_never

from attrs import evolve, frozen
from loopkernel.data import events
from loopkernel.data.policy import Policy
from loopkernel.data.states import State
from loopkernel.data.user_deltas import ChangeTools, Permit, RetryNow, Say
from loopkernel.replaying import LogRecord, fold

from loopkernel_adapters.transcripts.counting import Tally
from loopkernel_adapters.transcripts.entries import Place
from loopkernel_adapters.transcripts.formats import reader_of
from loopkernel_adapters.transcripts.reenacting import PUT_IN
from loopkernel_adapters.transcripts.replaying import Replayed, reenacted, replayed
from loopkernel_adapters.transcripts.source import Source


@frozen
class NotAskedFor:
    """The loop had stopped: so that the recorded reply could go in, the play made it go on."""


# What a policy may decide otherwise.
TurningPoint: TypeAlias = (
    NotAskedFor
    | events.ApprovalAsked
    | events.CompactionStarted
    | events.CorrectionInjected
    | events.HandoffStarted
    | events.LimitReached
    | events.LoopNoted
    | events.LoopStopped
    | events.Queued
    | events.Refused
    | events.ReplyFailed
    | events.ResultsCleared
    | events.RetryScheduled
    | events.Steered
    | events.ToolDisabled
    | events.ToolEnded
    | events.TurnEnded
    | events.WorkCancelled
)


@frozen(kw_only=True)
class Difference:
    """What happens under the policy alone: how often, and of the first time the place and the event.

    `state` is the one that the event led to. `recorded` is how the call ended as recorded, of the end of a call.
    """

    conversation: str
    place: Place | None
    event: TurningPoint
    state: State
    recorded: str = ""
    times: int = 1


@frozen(kw_only=True)
class Ends:
    """How the turns of logs ended, and how their calls were answered: each how often."""

    turns: Counter[str]
    calls: Counter[str]


def ends_of(logs: Iterable[Sequence[LogRecord]]) -> Ends:
    """Those of all the logs together."""
    told = [event for records in logs for step in fold(records) for event in step.effects]
    return Ends(
        turns=Counter(event.reason.value for event in told if isinstance(event, events.TurnEnded)),
        calls=Counter(event.result.status.value for event in told if isinstance(event, events.ToolEnded)),
    )


@frozen(kw_only=True)
class Comparison:
    """The differences by their places, and the parts of the recording that are not asked for under the policy."""

    differences: tuple[Difference, ...]
    not_asked_for: tuple[Place, ...]
    ends: Ends  # of the play that it is held against

    @property
    def asked(self) -> tuple[Difference, ...]:
        """The calls that ask a person, who does as recorded: nothing else changes by that."""
        return tuple(each for each in self.differences if isinstance(each.event, events.ApprovalAsked))

    @property
    def others(self) -> tuple[Difference, ...]:
        """What goes otherwise besides: where the two part."""
        return tuple(each for each in self.differences if not isinstance(each.event, events.ApprovalAsked))


@frozen(kw_only=True)
class Play:
    """A conversation as it was played: its log, and for each record of it the place in the recording."""

    records: Sequence[LogRecord]
    places: Sequence[Place | None]
    unplaced: Sequence[Place]


def played_under(source: Source, policy: Policy, recorded: Policy) -> tuple[Replayed, Comparison]:
    """The recording, played under the policy, and held against a play under the one that it was recorded under.

    Raises Unreadable, OSError.
    """
    first = plays_of(source, recorded)
    found = replayed(source, policy)
    second = {
        other.name: Play(records=other.records, places=other.places, unplaced=other.unplaced)
        for other in found.conversations
    }
    return found, compared(first, second)


def plays_of(source: Source, policy: Policy) -> dict[str, Play]:
    """Each conversation of the recording, played under the policy and not judged. Raises Unreadable, OSError."""
    return {
        name: Play(records=played.records, places=played.places, unplaced=played.unplaced)
        for name, played in reenacted(source, reader_of(source), policy, Tally(counts_reasoning=False), []).items()
    }


def compared(first: Mapping[str, Play], second: Mapping[str, Play]) -> Comparison:
    """What the second plays do that the first do not."""
    differences: list[Difference] = []
    missing: list[Place] = []
    for name, other in second.items():
        differences += _differences(name, first[name], other)
        missing += (Counter(other.unplaced) - Counter(first[name].unplaced)).elements()
    return Comparison(
        differences=tuple(sorted(differences, key=lambda found: _order(found.place))),
        not_asked_for=tuple(sorted(missing, key=_order)),
        ends=ends_of(play.records for play in first.values()),
    )


def _order(place: Place | None) -> int:
    return 0 if place is None else place.record


@frozen
class _Seen:
    """A turning point, the state that it led to, and where the play was."""

    event: TurningPoint
    state: State
    place: Place | None


def _turning_points(play: Play) -> Iterator[_Seen]:
    for step, place in zip(fold(play.records), play.places, strict=True):
        delta = step.context.delta
        put_in = isinstance(delta, Say) and delta.content == PUT_IN
        by_the_play = put_in or isinstance(delta, ChangeTools | Permit | RetryNow)
        refused = any(isinstance(effect, events.Refused) for effect in step.effects)
        if (put_in or isinstance(delta, RetryNow)) and not refused:
            yield _Seen(NotAskedFor(), step.after, place)
        for effect in step.effects:
            if isinstance(effect, TurningPoint) and not (by_the_play and isinstance(effect, events.Refused)):
                yield _Seen(effect, step.after, place)


def _differences(name: str, first: Play, second: Play) -> list[Difference]:
    expected: Counter[tuple[object, ...]] = Counter()
    ends: dict[str, str] = {}
    for seen in _turning_points(first):
        expected[_kind(seen.event), _which(seen)] += 1
        if isinstance(seen.event, events.ToolEnded):
            ends.setdefault(seen.event.result.provider_id, seen.event.result.status.value)
    found: dict[tuple[str, ...], Difference] = {}
    for seen in _turning_points(second):
        kind = _kind(seen.event)
        if expected[kind, _which(seen)] > 0:
            expected[kind, _which(seen)] -= 1
            continue
        recorded = ends.get(seen.event.result.provider_id, "") if isinstance(seen.event, events.ToolEnded) else ""
        if (*kind, recorded) in found:
            found[*kind, recorded] = evolve(found[*kind, recorded], times=found[*kind, recorded].times + 1)
        else:
            found[*kind, recorded] = Difference(
                conversation=name, place=seen.place, event=seen.event, state=seen.state, recorded=recorded
            )
    return list(found.values())


def _which(seen: _Seen) -> object:
    """What tells an event from others of its kind."""
    return seen.event.result.provider_id if isinstance(seen.event, events.ToolEnded) else seen.place


def _kind(event: TurningPoint) -> tuple[str, str]:
    """What an event says, of whatever it says it."""
    name = type(event).__name__
    match event:
        case events.ToolEnded(result=result):
            return name, result.status.value
        case events.TurnEnded(reason=reason):
            return name, reason.value
        case events.LimitReached(limit=limit):
            return name, limit.value
        case events.ReplyFailed(error=error):
            return name, error.value
        case events.Refused(action=action, reason=refusal):
            return name, f"{action.value} {refusal.value}"
        case events.WorkCancelled(reason=cancel):
            return name, cancel.value
        case (
            NotAskedFor()
            | events.ApprovalAsked()
            | events.CompactionStarted()
            | events.CorrectionInjected()
            | events.HandoffStarted()
            | events.LoopNoted()
            | events.LoopStopped()
            | events.Queued()
            | events.ResultsCleared()
            | events.RetryScheduled()
            | events.Steered()
            | events.ToolDisabled()
        ):
            return name, ""
        case _:
            assert_never(event)
