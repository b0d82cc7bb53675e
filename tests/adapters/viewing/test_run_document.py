"""What a document says of a run agrees with its log: of all scenarios, and of runs that nobody thought of."""

import json
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from loopkernel.data import effects as commands
from loopkernel.data.json_text import JsonValue
from loopkernel.data.records import LogRecord, StepRecord
from loopkernel.data.states import Backoff, State, Streaming
from loopkernel.data.words import CallStatus
from loopkernel.replaying import fold
from loopkernel.testing.run import Run
from loopkernel.testing.strategies.walks import runs
from loopkernel.views.waiting import waiting
from loopkernel_adapters.viewing.bars import turn_of
from loopkernel_adapters.viewing.plain import SHORT, plain
from loopkernel_adapters.viewing.run import LONG_AGO, RunDocument

from tests.adapters.viewing.shown_runs import Told, documents, logs, told


def assert_agrees(records: Sequence[LogRecord]) -> None:
    """All that the document says, beside the log."""
    assert_document(told(records), records)


def assert_document(document: Told, records: Sequence[LogRecord]) -> None:
    steps = fold(records)
    assert_steps(document, records, steps)
    assert_states(document, steps)
    assert_bars(document, steps)
    assert_messages(document, steps)


def test_the_document_of_each_scenario_agrees_with_its_log() -> None:
    for (name, records), document in zip(logs(), documents(), strict=True):
        try:
            assert_document(document, records)
        except AssertionError as error:
            raise AssertionError(name) from error


@given(runs())
def test_the_document_of_any_run_agrees_with_its_log(run: Run) -> None:
    assert_agrees([LogRecord(step.context.delta, step.context.now_ms) for step in run.steps])


def assert_steps(document: Told, records: Sequence[LogRecord], steps: Sequence[StepRecord]) -> None:
    """Every record has its step, with its time since the first, its effects and their rules."""
    assert [step["n"] for step in document["steps"]] == list(range(1, len(records) + 1))
    times = [step["at"] for step in document["steps"]]
    assert times == sorted(times)
    latest = [max(record.now_ms for record in records[: at + 1]) for at in range(len(records))]
    if latest and latest[-1] < LONG_AGO:
        assert times == [max(0, time - records[0].now_ms) for time in latest]
    for shown, step in zip(document["steps"], steps, strict=True):
        assert shown["phase"] == type(step.after).__name__
        assert len(shown["effects"]) == len(step.effects)
        for kind, _, rule, is_event in shown["effects"]:
            identity, sentence = document["rules"][rule]
            assert identity.partition("-")[2].isdigit() and sentence and kind
            assert isinstance(is_event, bool)


def assert_states(document: Told, steps: Sequence[StepRecord]) -> None:
    """The differences, put in one after the other, give each state."""
    state = document["start"]
    for shown, step in zip(document["steps"], steps, strict=True):
        for path, *news in shown["changes"]:
            state = put(state, path, news)
        assert state == plain(step.after, SHORT), shown["n"]


def put(value: JsonValue, path: list[str | int], news: list[JsonValue]) -> JsonValue:
    """As the page does it."""
    if not path:
        return news[0]
    first, *rest = path
    if isinstance(value, list):
        assert isinstance(first, int) and first <= len(value)
        return [*value[:first], put(value[first] if rest else None, rest, news), *value[first + 1 :]]
    assert isinstance(value, dict) and isinstance(first, str)
    if not rest and not news:
        return {key: part for key, part in value.items() if key != first}
    return value | {first: put(value.get(first), rest, news)}


# --- bars -------------------------------------------------------------------------------------------------


def assert_bars(document: Told, steps: Sequence[StepRecord]) -> None:
    bars, shown = document["bars"], document["steps"]
    for bar in bars:
        assert 1 <= bar["first"] <= bar["last"] <= len(steps)
        assert bar["from"] == shown[bar["first"] - 1]["at"]
        assert bar["to"] == shown[bar["last"] - 1]["at"]
        assert bar["how"] or bar["last"] == len(steps)
    effects = Counter(type(effect) for step in steps for effect in step.effects)
    kinds = Counter(bar["kind"] for bar in bars)
    assert kinds["model"] == effects[commands.CallModel]
    assert kinds["tool"] == effects[commands.StartTool] + effects[commands.StartChild]
    for number, step in enumerate(steps, start=1):
        open_now = [bar for bar in bars if bar["first"] <= number and (number < bar["last"] or not bar["how"])]
        assert_open(Counter(bar["kind"] for bar in open_now), step.after)


def assert_open(kinds: Counter[str], state: State) -> None:
    """What is under way after a step, as the state has it."""
    assert kinds["turn"] == (turn_of(state) is not None)
    assert kinds["person"] == len(waiting(state))
    assert kinds["retry"] == isinstance(state, Backoff)
    assert kinds["model"] == (isinstance(state, Streaming) and state.after is None)
    running = sum(entry.has_run for entry in state.ledger.entries) if hasattr(state, "ledger") and state.ledger else 0
    held = 0 if state.session is None else len(state.session.held)
    assert kinds["tool"] == running + held


# --- messages ---------------------------------------------------------------------------------------------


def assert_messages(document: Told, steps: Sequence[StepRecord]) -> None:
    """After each step those are there that are in the thread."""
    for number, step in enumerate(steps, start=1):
        there = [
            message["id"]
            for message in document["messages"]
            if message["step"] <= number and (message["gone"] is None or number < message["gone"])
        ]
        thread = () if step.after.session is None else step.after.session.thread
        assert sorted(there) == sorted(message.id for message in thread)


def test_each_answer_of_a_call_is_shown_as_it_ended() -> None:
    endings: set[str] = set()
    for document in documents():
        for message in document["messages"]:
            endings |= {part["status"] for part in message["parts"] if part["is"] == "result"}
    assert {status.value for status in CallStatus} >= endings >= {"done", "error", "cancelled"}


# --- a run that goes on -----------------------------------------------------------------------------------


@pytest.mark.parametrize("pieces", [1, 3, 7])
def test_what_is_new_brings_a_page_to_where_the_whole_document_is(pieces: int) -> None:
    for _, records in logs()[::9]:
        document = RunDocument(name="a run")
        document.take(records[:1])
        page = read(document.as_json())
        for begin in range(1, len(records), pieces):
            since = document.length
            document.take(records[begin : begin + pieces])
            follow(page, read(document.news(since)))
        whole = RunDocument(name="a run")
        whole.take(records)
        assert page == read(whole.as_json())


def read(value: JsonValue) -> Told:
    """As the page reads it."""
    told: Told = json.loads(json.dumps(value))
    return told


def follow(page: Told, news: Told) -> None:
    """As the page does it."""
    page.update({key: news[key] for key in ("name", "kind", "clock", "duration", "rules", "notes")})
    page["steps"] = [*page["steps"][: news["since"]], *news["steps"]]
    for kind in ("bars", "messages"):
        for place, one in news[kind]:
            page[kind][place : place + 1] = [one]
