"""The command: `python -m loopkernel_adapters.testing.scenario_driver FILE ID`."""

import sys

from loopkernel_adapters.testing.scenario_driver.playing import main

sys.exit(main())
