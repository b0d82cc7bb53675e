"""A collector of its own: it listens on loopback, and reads the protobuf that the OTLP exporters really send."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

from loopkernel_adapters.stores.memory import MemoryRuns
from loopkernel_adapters.telemetry.watching import Telemetry
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from typing_extensions import override

from tests.adapters.telemetry.telemetry_world import NANOSECONDS, replayed
from tests.adapters.telemetry.test_faults import a_run


class Collector(HTTPServer):
    """Keeps what was posted, by path."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Taking)
        self.posted: dict[str, list[bytes]] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Taking(BaseHTTPRequestHandler):
    """Takes a request into its collector."""

    def do_POST(self) -> None:
        assert isinstance(self.server, Collector)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.posted.setdefault(self.path, []).append(body)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    @override
    def log_message(self, format: str, *values: object) -> None:
        """Says nothing."""


@contextmanager
def a_collector() -> Iterator[Collector]:
    with Collector() as collector:
        serving = threading.Thread(target=collector.serve_forever)
        serving.start()
        try:
            yield collector
        finally:
            collector.shutdown()
            serving.join()


def spans_in(bodies: list[bytes]) -> set[tuple[int, int, int, str, int, int]]:
    """What the spans of the requests say of themselves."""
    return {
        (
            int.from_bytes(span.span_id),
            int.from_bytes(span.parent_span_id),
            int.from_bytes(span.trace_id),
            span.name,
            span.start_time_unix_nano // NANOSECONDS,
            span.end_time_unix_nano // NANOSECONDS,
        )
        for body in bodies
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    }


def metrics_in(bodies: list[bytes]) -> set[str]:
    """The metrics that the requests tell of."""
    return {
        metric.name
        for body in bodies
        for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }


def test_a_collector_reads_the_same_tree_and_the_same_numbers() -> None:
    runs = MemoryRuns()
    with a_collector() as collector:
        tracers = TracerProvider(shutdown_on_exit=False)
        tracers.add_span_processor(
            BatchSpanProcessor(OTLPSpanExporter(f"{collector.url}/v1/traces", compression=Compression.NoCompression))
        )
        reader = PeriodicExportingMetricReader(
            OTLPMetricExporter(f"{collector.url}/v1/metrics", compression=Compression.NoCompression)
        )
        meters = MeterProvider([reader], shutdown_on_exit=False)
        with Telemetry(tracers, meters) as telemetry:
            asyncio.run(a_run(telemetry.watch(runs)))
            assert telemetry.flush(60)
        tracers.shutdown()
        meters.shutdown()
    expected = replayed(runs, "run")
    assert spans_in(collector.posted["/v1/traces"]) == {
        (span.span, span.parent or 0, span.trace, span.name, span.begin_ms, span.end_ms) for span in expected.spans
    }
    assert metrics_in(collector.posted["/v1/metrics"]) == set(expected.metrics)
