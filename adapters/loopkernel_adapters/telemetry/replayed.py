"""Telemetry of a log that is there already: the spans and metrics that its run has led to, or would have."""

from collections.abc import Mapping, Sequence

from loopkernel.data.records import LogRecord
from opentelemetry.metrics import MeterProvider
from opentelemetry.trace import TracerProvider

from loopkernel_adapters.telemetry.conventions import OTHER
from loopkernel_adapters.telemetry.exporter import Exporter
from loopkernel_adapters.telemetry.facts import About
from loopkernel_adapters.telemetry.logs import facts_of


def export_log(
    log: Sequence[LogRecord],
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    *,
    children: Mapping[str, Sequence[LogRecord]] | None = None,
    provider_name: str = OTHER,
    agent_name: str | None = None,
    content: bool = False,
) -> None:
    """Give what a log tells to a tracer and a meter, as `Telemetry` does while it is written.

    `children` are the logs of its sub-agents by their sessions (`Runs.read` gives them); the rest is as for
    `Telemetry`. What the log leaves open ends with it, marked `loopkernel.unfinished`. Raises RulesDiffer for a log of
    other rules.
    """
    about = About(provider_name=provider_name, agent_name=agent_name, content=content)
    Exporter(tracer_provider, meter_provider).take(facts_of(log, children, about))
