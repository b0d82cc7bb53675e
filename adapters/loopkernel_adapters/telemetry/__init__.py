"""Spans and metrics of what happens in runs, by the conventions of OpenTelemetry. Needs the extra `telemetry`."""

from importlib.util import find_spec

if find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None:  # a part is looked for in the whole
    raise ImportError("OpenTelemetry is an extra: pip install 'loopkernel[telemetry]'")
