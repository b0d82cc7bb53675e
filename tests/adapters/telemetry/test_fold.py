"""The fold from a run to its spans: over each scenario of specs/scenarios, whole and cut anywhere."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.states import Cancelled, Done, Idle, Initial, State
from loopkernel.data.thread_deltas import Forked, Resumed
from loopkernel.replaying import LogRecord, replay
from loopkernel_adapters.telemetry import conventions as named
from loopkernel_adapters.telemetry.conventions import Metric, Operation
from loopkernel_adapters.telemetry.facts import About, Begun, Ended, Fact, Happened, Measured, SpanKey
from loopkernel_adapters.telemetry.logs import FoldedLog, facts_of

from tests.kernel.scenario_logs import FILES, logs_of

AT_REST = (Idle, Cancelled, Done, Initial)


def demand_well_formed(facts: Sequence[Fact]) -> dict[SpanKey, tuple[Begun, Ended]]:
    """Each span begins once and ends once, children lie within their parents, and time does not go back."""
    open_spans: dict[SpanKey, Begun] = {}
    whole: dict[SpanKey, tuple[Begun, Ended]] = {}
    for fact in facts:
        match fact:
            case Begun():
                assert fact.key not in open_spans and fact.key not in whole
                assert fact.parent is None or open_spans[fact.parent].at_ms <= fact.at_ms
                assert fact.key.trace == (fact.key.span if fact.parent is None else fact.parent.trace)
                open_spans[fact.key] = fact
            case Happened():
                assert open_spans[fact.key].at_ms <= fact.at_ms
            case Ended():
                begun = open_spans.pop(fact.key)
                assert begun.at_ms <= fact.at_ms
                assert all(other.parent != fact.key for other in open_spans.values()), "a child outlives its parent"
                whole[fact.key] = (begun, fact)
            case Measured():
                assert fact.value >= 0
    assert not open_spans
    return whole


def was_cut(log: Sequence[LogRecord]) -> bool:
    """Whether anything in it may have been interrupted."""
    return any(isinstance(record.delta, Resumed | Forked) for record in log)


def is_at_rest(state: State) -> bool:
    return isinstance(state, AT_REST)


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_every_span_of_every_scenario_ends_within_its_parent_and_at_rest_none_is_open(file: Path) -> None:
    for name, log in logs_of(file).items():
        spans = demand_well_formed(facts_of(log))
        unfinished = [begun.name for begun, ended in spans.values() if named.UNFINISHED in ended.attributes]
        if is_at_rest(replay(log)) and not was_cut(log):
            assert not unfinished, name
        state = replay(log)
        if state.session is not None and not was_cut(log):
            turns = [begun for begun, _ in spans.values() if begun.operation is Operation.INVOKE_AGENT]
            assert len(turns) == state.session.counters.turns, name


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_the_tokens_of_the_spans_are_those_of_the_session(file: Path) -> None:
    """What is billed outside of replies and summaries is a sub-agent's, a correction's, or late."""
    for name, log in logs_of(file).items():
        state = replay(log)
        if state.session is None:
            continue
        facts = facts_of(log)
        tokens = sum(fact.value for fact in facts if isinstance(fact, Measured) and fact.metric is Metric.TOKEN_USAGE)
        assert tokens <= state.session.usage.total, name


def some_log() -> st.SearchStrategy[tuple[LogRecord, ...]]:
    return st.sampled_from(FILES).flatmap(lambda file: st.sampled_from(list(logs_of(file).values())))


@given(log=some_log(), data=st.data())
def test_a_log_told_in_parts_tells_what_it_tells_at_once(log: tuple[LogRecord, ...], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(log)))
    at_once, in_parts = FoldedLog("", About(), {}), FoldedLog("", About(), {})
    facts = at_once.tell(log)
    assert in_parts.tell(log[:cut]) + in_parts.tell(log[cut:]) == facts
    assert in_parts.leave() == at_once.leave()
    ends = {fact.key for fact in facts if isinstance(fact, Ended)}
    assert {begun.key for begun in at_once.open} == {fact.key for fact in facts if isinstance(fact, Begun)} - ends


@given(log=some_log(), data=st.data())
def test_a_crash_anywhere_ends_what_was_under_way_with_its_last_record(
    log: tuple[LogRecord, ...], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(1, max(len(log), 1)))
    begun = log[:cut]
    if not begun or replay(begun).session is None or isinstance(replay(begun), Initial | Done):
        return
    last_ms = max(record.now_ms for record in begun)
    resumed = (*begun, LogRecord(Resumed(), last_ms + 60_000))
    spans = demand_well_formed(facts_of(resumed))
    before = FoldedLog("", About(), {})
    before.tell(begun)
    for open_span in before.open:
        _, ended = spans[open_span.key]
        assert ended.at_ms == last_ms
        assert ended.attributes[named.UNFINISHED] is True
    turns = [span for span in before.open if span.operation is Operation.INVOKE_AGENT]
    later = [span for span, _ in spans.values() if span.at_ms == last_ms + 60_000 and span.parent is None]
    later_turns = [span for span in later if span.operation is Operation.INVOKE_AGENT]
    for turn in turns:
        assert [link.to for link in later_turns[0].links] == [turn.key]


def test_without_content_no_words_of_the_conversation_are_told() -> None:
    """Over all scenarios: with `content` words are told, and without it none of the attributes that hold them."""
    words = {named.INPUT_MESSAGES, named.OUTPUT_MESSAGES, named.TOOL_ARGUMENTS, named.TOOL_RESULT}
    told: set[str] = set()
    for file in FILES:
        for log in logs_of(file).values():
            for fact in facts_of(log):
                assert words.isdisjoint(fact.attributes)
            for fact in facts_of(log, about=About(content=True)):
                told.update(words.intersection(fact.attributes))
    assert told == words
