"""An exporter that raises, hangs, or falls behind: the run does not notice, and what can be told is told."""

import asyncio
import logging
import threading
from collections.abc import Sequence
from contextlib import suppress

import pytest
from loopkernel.data.model_deltas import ModelCompleted
from loopkernel.data.records import StepRecord
from loopkernel_adapters.agent import Agent, Result
from loopkernel_adapters.driver.clocks import ManualClock
from loopkernel_adapters.ports import Runs, StoreError
from loopkernel_adapters.providers.scripted import call_reply, text_reply
from loopkernel_adapters.stores.memory import MemoryRuns, MemoryStore
from loopkernel_adapters.telemetry import fold, logs
from loopkernel_adapters.telemetry.facts import Fact
from loopkernel_adapters.telemetry.tracing import Tracing
from loopkernel_adapters.telemetry.watching import Telemetry
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from typing_extensions import override

from tests.adapters.telemetry.telemetry_world import (
    NOON_MS,
    Collected,
    TakingTime,
    an_input,
    tools_that_take_time,
)


async def a_run(runs: Runs, turns: int = 1) -> Result:
    clock = ManualClock(NOON_MS)
    replies = (call_reply(("read", an_input(ms=1))), text_reply("Milk."))
    agent = Agent(TakingTime(replies * turns, clock), tools_that_take_time(clock), runs=runs, clock=clock)
    async with agent.session("run") as session:
        for _ in range(turns - 1):
            await session.say("go")
        return await session.say("go")


class Hanging(SpanExporter):
    """Exports nothing until it may."""

    def __init__(self) -> None:
        self.hangs, self.may_go_on = threading.Event(), threading.Event()
        self.exported: list[ReadableSpan] = []

    @override
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.hangs.set()
        self.may_go_on.wait()
        self.exported += spans
        return SpanExportResult.SUCCESS


class Raising(SpanProcessor):
    """Raises at the end of every model call."""

    @override
    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        pass

    @override
    def on_end(self, span: ReadableSpan) -> None:
        if span.name.startswith("chat"):
            raise ConnectionError("no collector")


class Counting(SpanProcessor):
    """Notes which spans have begun and not ended."""

    def __init__(self) -> None:
        self.begun = 0
        self.under_way: set[int] = set()

    @override
    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        self.begun += 1
        self.under_way.add(span.get_span_context().span_id)

    @override
    def on_end(self, span: ReadableSpan) -> None:
        context = span.get_span_context()
        assert context is not None
        self.under_way.discard(context.span_id)


def test_an_exporter_that_hangs_holds_up_no_run() -> None:
    hanging, tracers = Hanging(), TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(hanging))
    telemetry = Telemetry(tracers)
    result = asyncio.run(a_run(telemetry.watch(MemoryRuns())))
    assert result.text == "Milk."
    assert hanging.hangs.wait(60)
    assert not telemetry.flush(0)
    hanging.may_go_on.set()
    assert telemetry.close(60)
    assert len(hanging.exported) == 4


def test_an_exporter_that_raises_is_complained_of_once_and_the_rest_is_told(caplog: pytest.LogCaptureFixture) -> None:
    collected = Collected()
    collected.tracers = TracerProvider(shutdown_on_exit=False)
    collected.tracers.add_span_processor(Raising())
    collected.tracers.add_span_processor(SimpleSpanProcessor(collected.exporter))
    with caplog.at_level(logging.WARNING), Telemetry(collected.tracers, collected.meters) as telemetry:
        result = asyncio.run(a_run(telemetry.watch(MemoryRuns()), turns=2))
        assert telemetry.flush(60)
    assert result.text == "Milk."
    assert [record.getMessage() for record in caplog.records] == [
        "what happened in a run cannot be told; the run itself goes on, and this is said once"
    ]
    assert [span.name for span in collected.spans].count("invoke_agent") == 2


def test_a_run_that_gets_too_far_ahead_is_told_no_more_and_the_next_one_is(caplog: pytest.LogCaptureFixture) -> None:
    hanging, tracers = Hanging(), TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(hanging))
    telemetry = Telemetry(tracers, most_waiting=40)
    runs = MemoryRuns()
    with caplog.at_level(logging.WARNING):
        result = asyncio.run(a_run(telemetry.watch(runs), turns=20))
    assert result.text == "Milk."
    assert [record.getMessage() for record in caplog.records] == [
        "run run is told no more: the exporter is too far behind; the run itself goes on, and this is said once"
    ]
    hanging.may_go_on.set()
    assert telemetry.flush(60)
    assert len(hanging.exported) < 80
    asyncio.run(a_run(telemetry.watch(MemoryRuns())))
    assert telemetry.close(60)
    assert [span.name for span in hanging.exported[-4:]].count("invoke_agent") == 1


def test_without_providers_nothing_is_told_and_the_run_is_the_same() -> None:
    with Telemetry() as telemetry:
        assert asyncio.run(a_run(telemetry.watch(MemoryRuns()))).text == "Milk."


def test_two_that_look_on_with_one_tracer_provider_do_not_mix_up_their_ids() -> None:
    collected = Collected()
    with Telemetry(collected.tracers) as one, Telemetry(collected.tracers) as other:
        asyncio.run(a_run(one.watch(MemoryRuns())))
        asyncio.run(a_run(other.watch(MemoryRuns())))
        assert one.flush(60) and other.flush(60)
    assert len({span.span for span in collected.spans}) == len(collected.spans) == 8
    with collected.tracers.get_tracer("another").start_as_current_span("of the program") as span:
        assert span.get_span_context().span_id not in {span.span for span in collected.spans}


class Closing(MemoryRuns):
    """Its logs raise when they are closed."""

    @override
    def open(self, run: str) -> MemoryStore:
        store = super().open(run)

        def close() -> None:
            raise StoreError("the disk is gone")

        store.close = close  # type: ignore[method-assign]  # a fault that the store itself has no way to
        return store


@pytest.mark.parametrize(("runs", "too_far"), [(MemoryRuns(), True), (Closing(), False)])
def test_no_span_stays_open_of_a_run_that_is_told_no_more_or_whose_log_raises_when_it_is_closed(
    runs: MemoryRuns, too_far: bool, caplog: pytest.LogCaptureFixture
) -> None:
    counting, tracers = Counting(), TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(counting)
    telemetry = Telemetry(tracers, most_waiting=100)
    may_go_on = threading.Event()

    def hold() -> None:
        may_go_on.wait()

    async def run() -> None:
        clock = ManualClock(NOON_MS)
        provider = TakingTime([call_reply(("order", an_input()))], clock)
        agent = Agent(provider, tools_that_take_time(clock), runs=telemetry.watch(runs), clock=clock)
        async with agent.session("run") as session:
            await session.say("go")
            assert await asyncio.to_thread(telemetry.flush, 60)
            assert counting.under_way
            if too_far:
                telemetry._teller.post(hold, 100)
                await session.say("and?")

    with caplog.at_level(logging.WARNING), suppress(StoreError):
        asyncio.run(run())
    assert [record.name for record in caplog.records] == ["loopkernel_adapters.telemetry.watching"] * too_far
    may_go_on.set()
    assert telemetry.close(60)
    assert not counting.under_way


def test_no_span_stays_open_of_a_run_that_cannot_be_folded_any_more(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A defect in the fold, planted at the end of a reply, is the end of what is told of that run."""

    def faulty(tracing: Tracing, step: StepRecord) -> tuple[Tracing, tuple[Fact, ...]]:
        if isinstance(step.context.delta, ModelCompleted):
            raise ZeroDivisionError("a defect")
        return fold.told(tracing, step)

    monkeypatch.setattr(logs, "told", faulty)
    counting, tracers = Counting(), TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(counting)
    with caplog.at_level(logging.WARNING), Telemetry(tracers) as telemetry:
        assert asyncio.run(a_run(telemetry.watch(MemoryRuns()))).text == "Milk."
        assert telemetry.flush(60)
    assert counting.begun == 2 and not counting.under_way
    assert [record.getMessage() for record in caplog.records] == [
        "a run is not told any more; the run itself goes on, and this is said once"
    ]


def test_after_it_is_closed_nothing_is_gathered_and_nobody_waits() -> None:
    hanging, tracers = Hanging(), TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(hanging))
    telemetry = Telemetry(tracers)
    watched = telemetry.watch(MemoryRuns())
    asyncio.run(a_run(watched))
    assert hanging.hangs.wait(60)
    assert not telemetry.close(0)
    asyncio.run(a_run(telemetry.watch(MemoryRuns())))
    assert not telemetry.close(threading.TIMEOUT_MAX)  # for ever, if it waited
    assert not telemetry.flush(threading.TIMEOUT_MAX)
    hanging.may_go_on.set()
    assert telemetry._teller._all_done.wait(60)
    assert telemetry.close(0)
    assert len(hanging.exported) == 4
