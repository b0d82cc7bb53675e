"""What another policy would have made of a recording, in figures: the time of its calls, and what it does otherwise."""

from collections import Counter
from collections.abc import Mapping, Sequence

from attrs import frozen
from loopkernel.data import events
from loopkernel.data.policy import Policy
from loopkernel.replaying import LogRecord, fold

from loopkernel_adapters.transcripts.comparing import Comparison, Play, compared, plays_of
from loopkernel_adapters.transcripts.source import Source
from loopkernel_adapters.transcripts.timing import Round, rounds_of, span_ms, together


@frozen(kw_only=True)
class Figures:
    """Of one recording under one policy. The times are those of its calls, and of nothing else.

    `replies` have several calls. These took `took_ms`, would take `under_ms` under the policy, and at least `least_ms`
    under any. The rest is how often the policy does what was not recorded.
    """

    calls: int
    replies: int
    took_ms: int
    under_ms: int
    least_ms: int
    asks: int
    compactions: int
    loops: int
    limits: int
    retries: int
    comparison: Comparison

    @property
    def saved_ms(self) -> int:
        """What the policy would have saved; less than 0: it would have taken longer."""
        return self.took_ms - self.under_ms

    @property
    def is_nothing(self) -> bool:
        """Whether nothing at all goes otherwise."""
        return not self.saved_ms and not self.comparison.differences and not self.comparison.not_asked_for


def figures_of(
    source: Source, policies: Sequence[Policy], recorded: Policy, log: Sequence[LogRecord] | None
) -> tuple[Figures, ...]:
    """Those of each policy, beside the one that it was recorded under. Raises Unreadable, OSError.

    `log` is the recording, where it is a log of ours, which tells when each call began. Elsewhere only the ends count:
    the calls of a reply are taken to have run one after the other, so that what is saved is the most that may be.
    """
    first = plays_of(source, recorded)
    logs = [play.records for play in first.values()] if log is None else [log]
    rounds = [one for records in logs for one in rounds_of(fold(records))]
    return tuple(_figures(first, plays_of(source, policy), rounds, policy, recorded, log) for policy in policies)


def _figures(
    first: Mapping[str, Play],
    second: Mapping[str, Play],
    rounds: Sequence[Round],
    policy: Policy,
    recorded: Policy,
    log: Sequence[LogRecord] | None,
) -> Figures:
    comparison = compared(first, second)
    times: Counter[type[object]] = Counter()
    for difference in comparison.differences:
        times[type(difference.event)] += difference.times
    timed = rounds if log is not None else [one.one_by_one() for one in rounds]
    took = sum(span_ms(one, recorded) for one in timed) if log is not None else sum(one.took_ms for one in rounds)
    return Figures(
        calls=sum(len(one.calls) for one in rounds),
        replies=sum(len(one.calls) > 1 for one in rounds),
        took_ms=took,
        under_ms=took if policy == recorded else sum(span_ms(one, policy) for one in timed),
        least_ms=sum(together(one) for one in timed),
        asks=_sum(times, events.ApprovalAsked),
        compactions=_sum(times, events.CompactionStarted, events.ResultsCleared),
        loops=_sum(times, events.LoopNoted, events.ToolDisabled, events.LoopStopped),
        limits=_sum(times, events.LimitReached),
        retries=_sum(times, events.RetryScheduled),
        comparison=comparison,
    )


def _sum(times: Counter[type[object]], *kinds: type[object]) -> int:
    return sum(times[kind] for kind in kinds)
