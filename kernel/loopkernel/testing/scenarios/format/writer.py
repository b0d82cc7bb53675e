"""Writes scenarios as YAML, which `document` reads back as the same. Defaults are left out."""

import re
from collections.abc import Iterable

import yaml

from loopkernel.later_typing import override
from loopkernel.testing.scenarios.data.scenario import Scenario
from loopkernel.testing.scenarios.format.special import SCENARIO

_RARE_BREAK = re.compile("[\r\x85\u2028\u2029]")


class _Dumper(yaml.SafeDumper):
    """YAML without anchors: a value that occurs twice is written twice."""

    @override
    def ignore_aliases(self, data: object) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Text in the style that fits; a rare line break only survives as an escape between double quotes."""
    style = '"' if _RARE_BREAK.search(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _represent_text)


def write_scenarios(scenarios: Iterable[Scenario]) -> str:
    """The text of a scenario file, one document a scenario."""
    documents = [SCENARIO.write(scenario) for scenario in scenarios]
    return yaml.dump_all(documents, Dumper=_Dumper, explicit_start=True, sort_keys=False, allow_unicode=True, width=110)
