"""Print what each preset does at each choice of `loopkernel conform`, measured as of any agent: over its wire, boxed.

python -m scripts.conform_presets > adapters/loopkernel_adapters/conform/presets.json
"""

import json
import sys
from concurrent.futures import ThreadPoolExecutor

from loopkernel.presets import PRESETS
from loopkernel_adapters.conform.agent_file import agent_text
from loopkernel_adapters.conform.catalogue import scenario_named
from loopkernel_adapters.conform.choices import QUESTIONS
from loopkernel_adapters.conform.running import played


def under(preset: str) -> str:
    """The agent file of our own agent under a preset."""
    own = agent_text("loopkernel").replace('"loopkernel", "', f'"{sys.executable}", "-m", "loopkernel_adapters", "')
    return own.replace('"--approve"', f'"--policy", "{preset}", "--approve"')


def choice_of(name: str, preset: str) -> str:
    """What the preset does. Raises LookupError where that was not to be seen."""
    found = played(under(preset), scenario_named(name), "")
    if name not in found.choices:
        raise LookupError(f"{preset} in {name}: {found.trouble}")
    return found.choices[name]


def main() -> None:
    """Measure, and print."""
    asked = [(name, preset) for name in QUESTIONS for preset in PRESETS]
    with ThreadPoolExecutor(2) as threads:
        seen = dict(zip(asked, threads.map(lambda each: choice_of(*each), asked), strict=True))
    table = {name: {preset: seen[name, preset] for preset in PRESETS} for name in QUESTIONS}
    sys.stdout.write(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
