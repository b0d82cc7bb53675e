"""An exporter that raises, hangs, or falls behind: the run does not notice, and what can be told is told."""

import asyncio
import logging
import threading
from collections.abc import Sequence

import pytest
from loopkernel_adapters.agent import Agent, Result
from loopkernel_adapters.driver.clocks import ManualClock
from loopkernel_adapters.ports import Runs
from loopkernel_adapters.providers.scripted import call_reply, text_reply
from loopkernel_adapters.stores.memory import MemoryRuns
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
