"""What can be typed behind `loopkernel conform`. Imports nothing of the loop."""

import argparse
from pathlib import Path

WEIGHTS = ("must", "should", "noted", "nothing")


def add_options(parser: argparse.ArgumentParser) -> None:
    """What can be typed behind `conform`."""
    parser.add_argument(
        "--agent",
        metavar="FILE|NAME",
        help="the agent file, or the name of one that is shipped, as `codex` (docs/conformance)",
    )
    parser.add_argument("--list", action="store_true", help="list the scenarios, and play none")
    parser.add_argument(
        "--only", metavar="SCENARIO", action="append", default=[], help="play this one alone; may be given again"
    )
    parser.add_argument("--quick", action="store_true", help="leave out the scenarios that take a minute and more")
    parser.add_argument("--jobs", metavar="N", type=int, default=2, help="how many are played at a time (2)")
    parser.add_argument("--repeat", metavar="N", type=int, default=1, help="play all of them so many times (1)")
    parser.add_argument("--trace", action="store_true", help="show what was seen in each scenario, broken or not")
    parser.add_argument("--html", metavar="FILE", type=Path, help="also write the scorecard as a page")
    parser.add_argument("--junit", metavar="FILE", type=Path, help="also write it as JUnit XML")
    parser.add_argument("--report", metavar="FILE", type=Path, help="also write it as JSON")
    parser.add_argument("--json", action="store_true", help="show it as one JSON document")
    parser.add_argument(
        "--fail-on",
        choices=WEIGHTS,
        default="must",
        help="from which weight on a breach makes the exit status 1 (must)",
    )
