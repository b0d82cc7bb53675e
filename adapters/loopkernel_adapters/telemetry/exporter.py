"""Facts, given to a tracer and a meter. The times of spans are those of the facts; so are their ids.

An id that follows from the log is the same in each process that tells of a run: what a restarted process tells is a
part of the same tree, and a link to what a dead one was doing leads there.
"""

import hashlib
import threading
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import assert_never

if find_spec("opentelemetry.sdk") is None:
    raise ImportError("OpenTelemetry is an extra: pip install 'loopkernel[telemetry]'")

from loopkernel.later_typing import override
from opentelemetry.metrics import Counter, Histogram, Meter, MeterProvider
from opentelemetry.sdk.trace import Tracer as SdkTracer
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import (
    INVALID_SPAN,
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TracerProvider,
    set_span_in_context,
)
from opentelemetry.trace import Link as SdkLink

from loopkernel_adapters.telemetry import conventions as named
from loopkernel_adapters.telemetry.conventions import Metric, Operation
from loopkernel_adapters.telemetry.facts import Begun, Ended, Fact, Happened, Link, Measured, SpanKey

SCOPE = "loopkernel"
_NANOSECONDS = 1_000_000  # in a millisecond
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)


class Exporter:
    """Tells a tracer and a meter what it is told. Belongs to one thread at a time."""

    def __init__(self, tracer_provider: TracerProvider | None, meter_provider: MeterProvider | None) -> None:
        self._tracer = None if tracer_provider is None else tracer_provider.get_tracer(SCOPE)
        self._ids = LogIds.of(self._tracer)
        self._instruments = {} if meter_provider is None else _instruments(meter_provider.get_meter(SCOPE))
        self._open: dict[SpanKey, Span] = {}

    def take(self, facts: Iterable[Fact]) -> None:
        """Tell of them, in order."""
        for fact in facts:
            self._tell(fact)

    def _tell(self, fact: Fact) -> None:
        match fact:
            case Begun():
                self._begin(fact)
            case Happened():
                span = self._open.get(fact.key, INVALID_SPAN)
                span.add_event(fact.name, dict(fact.attributes), fact.at_ms * _NANOSECONDS)
            case Ended():
                self._end(fact)
            case Measured():
                self._measure(fact)
            case _:
                assert_never(fact)

    def _begin(self, begun: Begun) -> None:
        if self._tracer is None:
            return
        parent = INVALID_SPAN if begun.parent is None else self._open.get(begun.parent) or _elsewhere(begun.parent)
        self._ids.next = begun.key
        try:
            self._open[begun.key] = self._tracer.start_span(
                begun.name,
                set_span_in_context(parent),
                SpanKind.CLIENT if begun.operation is Operation.CHAT else SpanKind.INTERNAL,
                dict(begun.attributes),
                [self._link(link) for link in begun.links],
                begun.at_ms * _NANOSECONDS,
            )
        finally:
            self._ids.next = None

    def _link(self, link: Link) -> SdkLink:
        return SdkLink(_context(link.to), {named.LINK: link.reason.value})

    def _end(self, ended: Ended) -> None:
        span = self._open.pop(ended.key, INVALID_SPAN)
        span.set_attributes(dict(ended.attributes))
        if ended.error is not None:
            span.set_attribute(named.ERROR_TYPE, ended.error)
            span.set_status(Status(StatusCode.ERROR, ended.error))
        span.end(ended.at_ms * _NANOSECONDS)

    def _measure(self, measured: Measured) -> None:
        instrument = self._instruments.get(measured.metric)
        if isinstance(instrument, Histogram):
            instrument.record(measured.value, dict(measured.attributes))
        elif isinstance(instrument, Counter):
            instrument.add(measured.value, dict(measured.attributes))


# --- ids --------------------------------------------------------------------------------------------------


class LogIds(IdGenerator):
    """Gives the span that is begun the ids that follow from its key; to any other span, what `others` gives."""

    def __init__(self, others: IdGenerator) -> None:
        self._others = others
        self._told = threading.local()  # a tracer may serve several threads

    @classmethod
    def of(cls, tracer: object) -> "LogIds":
        """The ids of our own tracer, which goes by them from now on. Another kind of tracer keeps its own."""
        if not isinstance(tracer, SdkTracer):
            return cls(_NoIds())
        if not isinstance(tracer.id_generator, cls):
            tracer.id_generator = cls(tracer.id_generator)
        return tracer.id_generator

    @property
    def next(self) -> SpanKey | None:
        """The key of the span that this thread begins now."""
        key: SpanKey | None = getattr(self._told, "key", None)
        return key

    @next.setter
    def next(self, key: SpanKey | None) -> None:
        self._told.key = key

    @override
    def generate_span_id(self) -> int:
        return self._others.generate_span_id() if self.next is None else _span_id(self.next)

    @override
    def generate_trace_id(self) -> int:
        return self._others.generate_trace_id() if self.next is None else _trace_id(self.next)


class _NoIds(IdGenerator):
    """Stands behind a tracer that never asks."""

    @override
    def generate_span_id(self) -> int:
        raise NotImplementedError

    @override
    def generate_trace_id(self) -> int:
        raise NotImplementedError


def _digest(text: str) -> bytes:
    """Spread evenly, since samplers go by the bits of an id."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _span_id(key: SpanKey) -> int:
    return int.from_bytes(_digest(f"span {key.span}")[:8])


def _trace_id(key: SpanKey) -> int:
    return int.from_bytes(_digest(f"trace {key.trace}")[:16])


def _context(key: SpanKey) -> SpanContext:
    return SpanContext(_trace_id(key), _span_id(key), is_remote=True, trace_flags=_SAMPLED)


def _elsewhere(key: SpanKey) -> Span:
    """A span that this exporter has not begun, or has ended."""
    return NonRecordingSpan(_context(key))


# --- instruments ------------------------------------------------------------------------------------------


def _instruments(meter: Meter) -> Mapping[Metric, Histogram | Counter]:
    return {metric: _instrument(meter, metric) for metric in Metric}


def _instrument(meter: Meter, metric: Metric) -> Histogram | Counter:
    match metric:
        case Metric.OPERATION_DURATION | Metric.TURN_DURATION | Metric.TOOL_DURATION:
            return meter.create_histogram(
                metric.value, "s", _ABOUT[metric], explicit_bucket_boundaries_advisory=named.SECONDS_BUCKETS
            )
        case Metric.TOKEN_USAGE:
            return meter.create_histogram(
                metric.value, "{token}", _ABOUT[metric], explicit_bucket_boundaries_advisory=named.TOKEN_BUCKETS
            )
        case Metric.PERSON_WAIT:
            return meter.create_histogram(
                metric.value, "s", _ABOUT[metric], explicit_bucket_boundaries_advisory=named.WAIT_BUCKETS
            )
        case Metric.RETRIES:
            return meter.create_counter(metric.value, "{retry}", _ABOUT[metric])
        case Metric.COST:
            return meter.create_counter(metric.value, "USD", _ABOUT[metric])
        case _:
            assert_never(metric)


_ABOUT: Mapping[Metric, str] = {
    Metric.OPERATION_DURATION: "How long a model call took.",
    Metric.TOKEN_USAGE: "How many tokens a model call used.",
    Metric.TURN_DURATION: "How long a turn took.",
    Metric.TOOL_DURATION: "How long a tool run took.",
    Metric.PERSON_WAIT: "How long a call waited for a person.",
    Metric.RETRIES: "How often a failed model call was to be tried again.",
    Metric.COST: "What model calls cost, by the prices of the policy.",
}
