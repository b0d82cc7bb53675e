"""Reads scenario files: YAML, one scenario a document, all faults told at once with file, line and key."""

import re
from pathlib import Path

from loopkernel.testing.scenarios.data.expectations import Expectations
from loopkernel.testing.scenarios.data.scenario import PolicyChoice, Scenario
from loopkernel.testing.scenarios.format.actions_reader import timed_action
from loopkernel.testing.scenarios.format.expectations_reader import expectations
from loopkernel.testing.scenarios.format.fields import Fields, Place, many, name, table, text, wants
from loopkernel.testing.scenarios.format.model_reader import entries, entry
from loopkernel.testing.scenarios.format.nodes import (
    MAX_CHARACTERS,
    Node,
    ScenarioError,
    ScenarioFault,
    read_documents,
)
from loopkernel.testing.scenarios.format.outside_reader import (
    child,
    correction,
    handoff,
    hook,
    start_message,
    summary,
)
from loopkernel.testing.scenarios.format.policy import policy
from loopkernel.testing.scenarios.format.tools_reader import tools

_ID = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")


def _id(node: Node, place: Place) -> str:
    found = text(node, place)
    if found and not _ID.fullmatch(found):
        wants("an id of lower-case letters and digits in words joined by hyphens", node, place)
    return found


def _scenario(node: Node, place: Place) -> Scenario:
    fields = Fields(node, place)
    scenario = Scenario(
        id=fields.required("scenario", _id, ""),
        about=fields.optional("about", text, ""),
        rules=fields.optional("rules", many(text), ()),
        policy=fields.optional("policy", policy, PolicyChoice()),
        tools=fields.optional("tools", tools, {}),
        model=fields.optional("model", entries, ()),
        model_rest=fields.optional("model_rest", entry, None),
        user=fields.optional("user", many(timed_action), ()),
        hooks=fields.optional("hooks", many(hook), ()),
        summaries=fields.optional("summaries", many(summary), ()),
        corrections=fields.optional("corrections", many(correction), ()),
        handoffs=fields.optional("handoffs", many(handoff), ()),
        children=fields.optional("children", table(name, child), {}),
        start=fields.optional("start", many(start_message), ()),
        expect=fields.optional("expect", expectations, Expectations()),
        source=place.source,
        line=node.line,
    )
    fields.finish()
    return scenario


def _repeated_ids(scenarios: list[Scenario]) -> list[ScenarioFault]:
    first: dict[str, int] = {}
    faults = []
    for scenario in scenarios:
        line = first.setdefault(scenario.id, scenario.line)
        if line != scenario.line:
            message = f"the id `{scenario.id}` is taken by the scenario of line {line}; ids are unique"
            faults.append(ScenarioFault(scenario.source, scenario.line, "scenario", message))
    return faults


def read_scenarios(text: str, source: str) -> tuple[Scenario, ...]:
    """The scenarios of a file's text, in its order; `source` is the file's name in faults.

    Raises ScenarioError, and nothing else, with every fault of the file.
    """
    documents, faults = read_documents(text, source)
    if not documents and not faults:
        faults.append(ScenarioFault(source, 1, "", "no scenario here; begin one with `scenario: its-id`"))
    scenarios = [_scenario(node, Place(source, "", faults)) for node in documents]
    faults += _repeated_ids([scenario for scenario in scenarios if scenario.id])
    if faults:
        raise ScenarioError(faults)
    return tuple(scenarios)


def read_scenario_file(path: Path) -> tuple[Scenario, ...]:
    """The scenarios of a file in UTF-8. Raises ScenarioError, also where the file cannot be read."""
    try:
        with path.open("rb") as file:
            content = file.read(4 * MAX_CHARACTERS + 1)  # no character takes more than 4 bytes
        return read_scenarios(content.decode(), str(path))
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        fault = ScenarioFault(str(path), line, "", "not UTF-8; save the file in that encoding")
    except OSError as error:
        fault = ScenarioFault(str(path), 1, "", f"cannot be read: {error.strerror or error}")
    raise ScenarioError([fault])
