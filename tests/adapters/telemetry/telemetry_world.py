"""What the tests of telemetry share: providers that keep what they are told, spans as plain data, and as a picture."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any

from attrs import frozen
from loopkernel.data.effects import Request, StartTool
from loopkernel.data.events import Event, RetryScheduled
from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelDelta
from loopkernel.data.tools import EffectClass, ToolOutput, ToolProfile
from loopkernel.replaying import LogRecord
from loopkernel_adapters.blocking_ports import BlockingRuns
from loopkernel_adapters.driver.clocks import ManualClock
from loopkernel_adapters.ports import RunContext, ToolError
from loopkernel_adapters.providers.scripted import Reply, ScriptedProvider
from loopkernel_adapters.telemetry.replayed import export_log
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from typing_extensions import override

from tests.adapters.driver.driver_world import ASKS, FunctionTools, echo, said

NOON_MS = 1_700_000_000_000
NANOSECONDS = 1_000_000  # in a millisecond


class Collected:
    """A tracer provider and a meter provider, and all that they were told."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self._reader = InMemoryMetricReader()
        self.meters = MeterProvider([self._reader], shutdown_on_exit=False)

    @property
    def spans(self) -> "list[PlainSpan]":
        """All spans that have ended, by their ids: in which order they were ended tells nothing."""
        return sorted((plain(span) for span in self.exporter.get_finished_spans()), key=lambda span: span.span)

    @property
    def metrics(self) -> dict[str, dict[str, object]]:
        """By the metric and its attributes: what was counted, without the time at which it was read."""
        found: dict[str, dict[str, object]] = {}
        data = self._reader.get_metrics_data()
        for resource in [] if data is None else data.resource_metrics:
            for scope in resource.scope_metrics:
                for metric in scope.metrics:
                    points = found.setdefault(metric.name, {})
                    for point in metric.data.data_points:
                        points[str(sorted((point.attributes or {}).items()))] = _counted(point)
        return found


def _counted(point: Any) -> object:  # Any: a union of the SDK that is not exported
    if hasattr(point, "bucket_counts"):
        return (point.count, round(point.sum, 6), tuple(point.bucket_counts), tuple(point.explicit_bounds))
    return round(point.value, 9)


@frozen(kw_only=True)
class PlainSpan:
    """A span as data that can be compared."""

    trace: int
    span: int
    parent: int | None
    name: str
    begin_ms: int
    end_ms: int
    error: bool
    attributes: Mapping[str, object]
    events: tuple[tuple[str, int, str], ...]
    links: tuple[tuple[int, int, object], ...]

    def __getitem__(self, name: str) -> object:
        return self.attributes.get(name)


def plain(span: ReadableSpan) -> PlainSpan:
    """The span, without what differs from process to process."""
    context = span.get_span_context()
    assert context is not None and span.start_time is not None and span.end_time is not None
    return PlainSpan(
        trace=context.trace_id,
        span=context.span_id,
        parent=None if span.parent is None else span.parent.span_id,
        name=span.name,
        begin_ms=span.start_time // NANOSECONDS,
        end_ms=span.end_time // NANOSECONDS,
        error=not span.status.is_ok and span.status.status_code.name == "ERROR",
        attributes=dict(span.attributes or {}),
        events=tuple(
            (event.name, event.timestamp // NANOSECONDS, str(sorted((event.attributes or {}).items())))
            for event in span.events
        ),
        links=tuple(
            (link.context.trace_id, link.context.span_id, dict(link.attributes or {}).get("loopkernel.link"))
            for link in span.links
        ),
    )


def replayed(
    runs: BlockingRuns, run: str, children: Iterable[str] = (), content: bool = False, agent_name: str | None = None
) -> Collected:
    """What the logs tell when they are folded anew."""
    return told_of(runs.read(run), {child: runs.read(child) for child in children}, content, agent_name)


def told_of(
    log: Sequence[LogRecord],
    children: Mapping[str, Sequence[LogRecord]] | None = None,
    content: bool = False,
    agent_name: str | None = None,
) -> Collected:
    """What a log tells."""
    collected = Collected()
    export_log(log, collected.tracers, collected.meters, children=children, content=content, agent_name=agent_name)
    return collected


def named(spans: Iterable[PlainSpan], name: str) -> list[PlainSpan]:
    """Those of that name, in the order in which they began."""
    return sorted((span for span in spans if span.name == name), key=lambda span: span.begin_ms)


def picture(spans: Sequence[PlainSpan], show: Callable[[PlainSpan], str]) -> str:
    """The trees that the spans form, each below its parent."""
    lines: list[str] = []

    def draw(span: PlainSpan, depth: int) -> None:
        lines.append(("   " * (depth - 1) + "└─ " if depth else "") + show(span))
        for below in ordered(span.span):
            draw(below, depth + 1)

    def ordered(parent: int | None) -> list[PlainSpan]:
        found = [span for span in spans if span.parent == parent]
        return sorted(found, key=lambda span: (span.begin_ms, span.end_ms, span.name))

    for root in ordered(None):
        draw(root, 0)
    return "\n".join(lines)


# --- a world in which time passes only where something takes time ---------------------------------------------


class TakingTime(ScriptedProvider):
    """Each piece of a reply takes a tenth of a second."""

    def __init__(self, replies: Iterable[Reply], clock: ManualClock) -> None:
        super().__init__(replies)
        self._clock = clock

    @override
    async def stream(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        async for delta in super().stream(request, operation):
            self._clock.advance(100)
            yield delta


def tools_that_take_time(clock: ManualClock) -> FunctionTools:
    """One that reads for as long as its input says, one that fails, one that asks for an approval, and sub-agents."""

    async def read(command: StartTool, context: RunContext) -> ToolOutput:
        taken = command.input.value()
        ms = taken.get("ms") if isinstance(taken, dict) else None
        clock.advance(ms if isinstance(ms, int) else 250)
        return said("milk")

    async def fail(command: StartTool, context: RunContext) -> ToolOutput:
        clock.advance(50)
        raise ToolError("there is no milk")

    async def crash(command: StartTool, context: RunContext) -> ToolOutput:
        raise ZeroDivisionError("a defect")

    async def wonder(command: StartTool, context: RunContext) -> ToolOutput:
        return said(str(await context.ask("Which?")))

    tools = FunctionTools(read=read, fail=fail, crash=crash, wonder=wonder, order=echo, task=echo)
    tools.profiles = {"order": ASKS, "task": ToolProfile(effect=EffectClass.IDEMPOTENT, child=True)}
    return tools


def no_waiting(clock: ManualClock) -> Callable[[Event], None]:
    """An observer for whom each retry comes at once: the time until then passes."""

    def look(event: Event) -> None:
        if isinstance(event, RetryScheduled):
            clock.advance(event.delay_ms)

    return look


def an_input(**fields: int | str) -> Json:
    return Json.of(dict(fields))
