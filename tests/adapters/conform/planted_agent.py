"""The agent of this project with a bug planted in its kernel: run as a program, it is a stranger with that bug.

python planted_agent.py BUG chat --model ...
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from loopkernel.loop.transition import transition
from loopkernel_adapters.cli.main import main
from loopkernel_adapters.driver import asyncio_driver

from tests.adapters.conform.planted_outside import named_outside


def planted_main(name: str, arguments: list[str]) -> int:
    """The command line, with the bug of that name in the transition of its driver."""
    bug = named_outside(name)
    vars(asyncio_driver)["transition"] = bug.plant(transition)  # where the driver has it from
    return main(arguments)


if __name__ == "__main__":
    sys.exit(planted_main(sys.argv[1], sys.argv[2:]))
