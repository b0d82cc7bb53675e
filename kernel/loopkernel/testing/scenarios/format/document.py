"""Reads scenario files: YAML, one scenario a document, all faults told at once with file, line and key."""

from pathlib import Path

from loopkernel.testing.scenarios.data.scenario import Scenario
from loopkernel.testing.scenarios.format.fields import Place
from loopkernel.testing.scenarios.format.nodes import MAX_CHARACTERS, ScenarioError, ScenarioFault, read_documents
from loopkernel.testing.scenarios.format.special import SCENARIO


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
    scenarios = [SCENARIO.read(node, Place(source, "", faults)) for node in documents]
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
