"""Logs, folded to what is to be told of them: one after another, or record by record as they are written."""

from collections.abc import Iterable, Mapping, Sequence

from loopkernel.data.records import LogRecord, StepRecord
from loopkernel.data.states import State
from loopkernel.data.steps import Context
from loopkernel.loop.transition import transition
from loopkernel.replaying import START

from loopkernel_adapters.ports import RulesDiffer, is_of_these_rules
from loopkernel_adapters.telemetry.facts import About, Begun, Fact, SpanKey
from loopkernel_adapters.telemetry.fold import left_open, told
from loopkernel_adapters.telemetry.tracing import Tracing

ABOUT_NOTHING = About()
# Of each sub-agent, by its session: the spans of the calls that have started it, and when.
Starts = dict[str, list[tuple[int, SpanKey]]]


class FoldedLog:
    """One log as far as it has been told. What starts sub-agents is noted in `starts`, for their logs to be told."""

    def __init__(self, run: str, about: About, starts: Starts) -> None:
        self._state: State = START
        self._tracing = Tracing(about=about, parents=tuple(starts.get(run, ())))
        self._starts = starts

    def tell(self, records: Iterable[LogRecord]) -> tuple[Fact, ...]:
        """What is to be told of more records."""
        facts: list[Fact] = []
        for record in records:
            context = Context(record.delta, record.now_ms)
            after, effects = transition(self._state, context)
            step = StepRecord(self._state, context, after, effects)
            self._tracing, more = told(self._tracing, step)
            self._state = after
            facts += more
        for fact in facts:
            if isinstance(fact, Begun) and fact.child_session is not None:
                self._starts.setdefault(fact.child_session, []).append((fact.at_ms, fact.key))
        return tuple(facts)

    @property
    def open(self) -> tuple[Begun, ...]:
        """What has begun and not ended, as it was told when it began."""
        return tuple(span.begun for span in self._tracing.open.values())

    def leave(self) -> tuple[Fact, ...]:
        """What is to be told where the log ends for now."""
        return left_open(self._tracing)


def facts_of(
    log: Sequence[LogRecord], children: Mapping[str, Sequence[LogRecord]] | None = None, about: About = ABOUT_NOTHING
) -> tuple[Fact, ...]:
    """All that is to be told of a run, and of its sub-agents, whose logs are given by their sessions.

    Raises RulesDiffer where a log was written under other rules than those of this loopkernel.
    """
    starts: Starts = {}
    facts: list[Fact] = []
    below = sorted((children or {}).items())  # the session of a sub-agent begins with that of its parent
    for run, records in [("", log), *below]:
        if records and not is_of_these_rules(records):
            raise RulesDiffer("the log was written under other rules: the loopkernel that wrote it can tell of it")
        folded = FoldedLog(run, about, starts)
        facts += folded.tell(records)
        facts += folded.leave()
    return tuple(facts)
