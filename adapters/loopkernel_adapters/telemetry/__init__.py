"""Spans and metrics of what happens in runs, by the conventions of OpenTelemetry. Needs the extra `telemetry`."""
