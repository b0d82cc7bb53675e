"""The fold from a run to its spans: over each scenario of specs/scenarios, whole and cut anywhere."""

import os
import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve, fields, has
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.blocks import text_of
from loopkernel.data.effects import StartChild, StartTool
from loopkernel.data.events import MessageReplaced, ToolEnded, TurnEnded
from loopkernel.data.json_text import Json
from loopkernel.data.messages import ResultMessage
from loopkernel.data.model_deltas import ModelInput
from loopkernel.data.policy import Policy
from loopkernel.data.states import Cancelled, Done, Idle, Initial, State
from loopkernel.data.thread_deltas import Forked, Resumed
from loopkernel.loop.algorithms.redaction import redacted
from loopkernel.replaying import LogRecord, fold, replay
from loopkernel_adapters.telemetry import conventions as named
from loopkernel_adapters.telemetry.conventions import Metric, Operation
from loopkernel_adapters.telemetry.facts import About, Begun, Ended, Fact, Happened, Measured, SpanKey
from loopkernel_adapters.telemetry.logs import FoldedLog, facts_of

from tests.kernel.scenario_logs import FILES, logs_of

SHARE = 9 if os.environ.get("HYPOTHESIS_PROFILE", "quick") in ("quick", "again") else 1  # one scenario in so many
PUT_OTHERWISE = ("hooks", "recovery")  # the files in which results are
MARK = "quokka"
# The fields of deltas that hold what people, the model and tools have written.
TEXTS = {
    *("text", "message", "question", "result", "why", "user_text", "reply_text", "instructions", "goal", "description"),
    "content",
}
AT_REST = (Idle, Cancelled, Done, Initial)


def told_logs(file: Path) -> dict[str, tuple[LogRecord, ...]]:
    """The logs of the file, or a share of them: the first is always there."""
    return dict(islice(logs_of(file).items(), 0, None, SHARE))


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
    for name, log in told_logs(file).items():
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
    for name, log in told_logs(file).items():
        state = replay(log)
        if state.session is None:
            continue
        facts = facts_of(log)
        tokens = sum(fact.value for fact in facts if isinstance(fact, Measured) and fact.metric is Metric.TOKEN_USAGE)
        assert tokens <= state.session.usage.total, name


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_what_is_told_of_a_call_is_what_was_shown_of_it_when_its_turn_ended(file: Path) -> None:
    """TOOL-12, HOOK-2, INFER-10: secrets are redacted, and hooks and guardrails may have put a result otherwise."""
    for name, log in (logs_of if file.stem in PUT_OTHERWISE else told_logs)(file).items():
        if was_cut(log):
            continue
        asked, answered = calls_shown(log)
        for begun, ended in demand_well_formed(facts_of(log, about=About(content=True))).values():
            if begun.operation is Operation.EXECUTE_TOOL and named.BACKGROUND not in begun.attributes:
                call = begun.attributes[named.CALL]
                run = (call, begun.attributes[named.RUN])
                assert begun.attributes[named.TOOL_ARGUMENTS] == asked[run], name
                is_last = run == max(other for other in asked if other[0] == call)
                expected = answered.get(call) if is_last else None
                assert ended.attributes.get(named.TOOL_RESULT) == expected, name


def calls_shown(log: Sequence[LogRecord]) -> tuple[dict[tuple[object, object], str], dict[object, str]]:
    """What events show of calls: the input of each run, and how the result read when its turn, or the log, ended."""
    asked: dict[tuple[object, object], str] = {}
    latest: dict[object, str] = {}
    answered: dict[object, str] = {}
    for step in fold(log):
        for effect in step.effects:
            match effect:
                case StartTool() | StartChild():
                    asked[str(effect.call), effect.run] = redacted(effect.input).text
                case ToolEnded():
                    latest[str(effect.result.call)] = text_of(effect.result.content)
                case MessageReplaced(message=ResultMessage() as message):
                    latest.update({str(result.call): text_of(result.content) for result in message.results})
                case TurnEnded():
                    answered = {**latest, **answered}
                case _:
                    pass
    return asked, {**latest, **answered}


def some_log() -> st.SearchStrategy[tuple[LogRecord, ...]]:
    return st.sampled_from(FILES).flatmap(lambda file: st.sampled_from(list(told_logs(file).values())))


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


@pytest.mark.parametrize("file", FILES, ids=lambda path: path.stem)
def test_without_content_no_words_of_the_conversation_are_told(file: Path) -> None:
    """A word that stands in every text of the log is in nothing that is told: no name, no value, no event, no link."""
    for name, log in told_logs(file).items():
        assert MARK not in str(facts_of(marked(log))), name


def test_with_content_the_words_of_the_conversation_are_told_and_nowhere_but_where_they_belong() -> None:
    words = {named.INPUT_MESSAGES, named.OUTPUT_MESSAGES, named.TOOL_ARGUMENTS, named.TOOL_RESULT}
    told: set[str] = set()
    for file in FILES:
        for log in told_logs(file).values():
            for fact in facts_of(marked(log), about=About(content=True)):
                holding = {name for name, value in fact.attributes.items() if MARK in str(value)}
                assert holding <= words
                told |= holding
    assert told == words


def marked(log: Sequence[LogRecord]) -> tuple[LogRecord, ...]:
    """The log with a word in each text that people, the model or tools have written."""
    return tuple(evolve(record, delta=with_mark(record.delta)) for record in log)


def with_mark(value: Any, name: str = "") -> Any:  # Any: whatever is in a delta, and the same kind again
    """The value with the word in its texts; `name` is that of the field in which it stands."""
    if isinstance(value, Json):
        return value if name == "input_schema" else Json.of_parsed(with_mark(value.value(), "text"))
    if isinstance(value, ModelInput):
        return evolve(value, text=re.sub('": ?"', lambda found: found[0] + MARK, value.text))
    if isinstance(value, tuple):
        return tuple(with_mark(inner, name) for inner in value)
    if isinstance(value, list):
        return [with_mark(inner, name) for inner in value]
    if isinstance(value, dict):
        return {key: with_mark(inner, name) for key, inner in value.items()}
    if isinstance(value, str) and name in TEXTS:
        return MARK + value
    if has(type(value)) and not isinstance(value, Policy):
        inner = {each.name: with_mark(getattr(value, each.name), each.name) for each in fields(type(value))}
        return evolve(value, **{key: new for key, new in inner.items() if new is not getattr(value, key)})
    return value
