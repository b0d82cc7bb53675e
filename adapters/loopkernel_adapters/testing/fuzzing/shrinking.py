"""Makes a scenario small: less is in it, as long as the driver breaks the same rule in it."""

from collections.abc import Callable, Iterator

from attrs import evolve
from loopkernel.testing.scenarios.data.scenario import PolicyChoice, Scenario
from loopkernel.testing.scenarios.data.world import Behaviour, ModelCompletes, ModelEntry

MOST_RUNS = 400

Breaks = Callable[[Scenario], bool]


def shrunk(scenario: Scenario, breaks: Breaks) -> Scenario:
    """The smallest scenario found in which the rule is still broken, within so many runs."""
    runs, found = 0, True
    while found:
        found = False
        for smaller in _smaller(scenario):
            runs += 1
            if runs > MOST_RUNS:
                return scenario
            if breaks(smaller):
                scenario, found = smaller, True
                break
    return scenario


def _smaller(scenario: Scenario) -> Iterator[Scenario]:
    """The scenarios that are one step smaller, the largest steps first."""
    for place in range(len(scenario.model)):
        yield evolve(scenario, model=scenario.model[:place] + scenario.model[place + 1 :])
    for place in range(len(scenario.user)):
        yield evolve(scenario, user=scenario.user[:place] + scenario.user[place + 1 :])
    used = {call.tool for entry in scenario.model for call in entry.calls}
    if any(name not in used for name in scenario.tools):
        yield evolve(scenario, tools={name: tool for name, tool in scenario.tools.items() if name in used})
    for name in scenario.policy.options:
        options = {key: value for key, value in scenario.policy.options.items() if key != name}
        yield evolve(scenario, policy=PolicyChoice(preset=scenario.policy.preset, options=options))
    for name, tool in scenario.tools.items():
        for simpler in (Behaviour(), *tool.runs[:1]):
            if tool.runs:
                yield evolve(scenario, tools={**scenario.tools, name: evolve(tool, runs=(), behaviour=simpler)})
    for place, entry in enumerate(scenario.model):
        for simpler_entry in _simpler(entry):
            model = (*scenario.model[:place], simpler_entry, *scenario.model[place + 1 :])
            yield evolve(scenario, model=model)


def _simpler(entry: ModelEntry) -> Iterator[ModelEntry]:
    for place in range(len(entry.calls)):
        calls = entry.calls[:place] + entry.calls[place + 1 :]
        names = {call.name for call in entry.calls} - {call.name for call in calls}
        yield evolve(entry, calls=calls, pieces=tuple(p for p in entry.pieces if getattr(p, "call", None) not in names))
    if entry.pieces:
        yield evolve(entry, pieces=())
    if entry.text and entry.calls:
        yield evolve(entry, text="", pieces=())
    if entry.takes_ms:
        yield evolve(entry, takes_ms=0, pieces=())
    if entry.usage is not None:
        yield evolve(entry, usage=None)
    plain = ModelEntry(text="done")
    if not entry.calls and entry != plain and isinstance(entry.ending, ModelCompletes):
        yield plain
