"""The command: `python -m tests.adapters.scenario_driver FILE ID`."""

import sys

from tests.adapters.scenario_driver.playing import main

sys.exit(main())
