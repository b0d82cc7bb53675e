"""`python -m loopkernel_adapters`: the command line, also where no program is installed."""

import sys

from loopkernel_adapters.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
