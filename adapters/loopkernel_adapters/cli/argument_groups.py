"""Options of which one at most is given, and what they come to."""

import argparse

from loopkernel_adapters.cli import argument_values as values
from loopkernel_adapters.cli.options import RUNS_SHOWN, Isolation


def add_isolation(command: argparse.ArgumentParser) -> None:
    """What the commands of the shell run in."""
    isolation = command.add_mutually_exclusive_group()
    isolation.add_argument(
        "--sandbox",
        dest="isolation",
        action="store_const",
        const=Isolation.SANDBOX.value,
        help="the commands of the shell can write in the workspace alone, read little else, and have no network; "
        "needs bubblewrap, and nothing begins without it",
    )
    isolation.add_argument(
        "--sandbox-network",
        dest="isolation",
        action="store_const",
        const=Isolation.SANDBOX_NETWORK.value,
        help="the same, with the network",
    )


def add_page(listing: argparse.ArgumentParser) -> None:
    """How many runs are listed."""
    shown = listing.add_mutually_exclusive_group()
    shown.add_argument(
        "--limit", metavar="N", type=values.count, help=f"the latest N runs ({RUNS_SHOWN}; with --json: all of them)"
    )
    shown.add_argument("--all", action="store_true", help="all of them")


def runs_shown(given: argparse.Namespace) -> int | None:
    """How many runs `runs` is to show; None for all of them."""
    if given.limit is not None:
        return int(given.limit)
    return None if given.all or given.json else RUNS_SHOWN
