"""Runs the command `python -m loopkernel.testing.scenarios`, or says what it needs."""

import sys

try:
    from loopkernel.testing.scenarios.command import run_command
except ModuleNotFoundError as error:
    if error.name != "yaml":
        raise
    print("scenarios are YAML, and PyYAML is not installed: install loopkernel[testing], which has it", file=sys.stderr)
    sys.exit(2)

sys.exit(run_command())
