"""docs/telemetry.md keeps its word: the picture, the names of attributes and metrics, and the lines to set it up."""

import re
from pathlib import Path

from loopkernel_adapters.agent import Agent
from loopkernel_adapters.providers.scripted import ScriptedProvider, text_reply
from loopkernel_adapters.stores.memory import MemoryRuns
from loopkernel_adapters.telemetry import conventions
from loopkernel_adapters.telemetry.conventions import LinkReason, Metric, Operation
from loopkernel_adapters.telemetry.watching import Telemetry
from opentelemetry.sdk.trace import TracerProvider

from tests.adapters.telemetry.drawn_tree import drawn
from tests.adapters.telemetry.test_collector import a_collector

PAGE = (Path(__file__).parents[3] / "docs" / "telemetry.md").read_text(encoding="utf-8")
NAMES = {
    value
    for name, value in vars(conventions).items()
    if name.isupper() and isinstance(value, str) and re.match(r"(gen_ai|loopkernel|error)\.", value)
}


def test_the_picture_is_that_of_a_real_run() -> None:
    (shown,) = re.findall(r"```text\n(.*?)\n```", PAGE, flags=re.DOTALL)
    assert shown == drawn()


def test_the_page_names_each_attribute_metric_span_and_link_and_no_other() -> None:
    told = NAMES | {metric.value for metric in Metric}
    spelt = set(re.findall(r"`((?:gen_ai|loopkernel|error)\.[a-z_.]+)`", PAGE))
    assert spelt == told | {"loopkernel_adapters.telemetry"} & spelt
    assert all(f"| `{operation.value}`" in PAGE for operation in Operation)
    assert all(f"`{reason.value}`" in PAGE for reason in LinkReason)


def test_the_lines_to_set_it_up_work() -> None:
    (lines,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert len(lines.strip().splitlines()) <= 10
    names: dict[str, object] = {"provider": ScriptedProvider([text_reply("Hello.")]), "tools": [], "runs": MemoryRuns()}
    with a_collector() as collector:
        exec(lines.replace("http://127.0.0.1:4318", collector.url), names)
        agent, telemetry, tracers = names["agent"], names["telemetry"], names["tracers"]
        assert isinstance(agent, Agent) and isinstance(telemetry, Telemetry) and isinstance(tracers, TracerProvider)
        assert agent.run_sync("Hello").text == "Hello."
        assert telemetry.close(60)
        tracers.shutdown()
    assert collector.posted
