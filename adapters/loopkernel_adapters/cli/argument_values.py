"""What an argument of the command line may be, and of which options one at most is given; what is wrong in words."""

import argparse
import os
import re
from pathlib import Path

from loopkernel_adapters.cli.options import RUNS_SHOWN, Isolation

LARGEST_NUMBER = 999_999_999
LARGEST_PORT = 65_535
VARIABLE_IN_BRACES = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
HEADER = re.compile(r"([^=\s]+)=([A-Za-z0-9!#$%&'*+.^_`|~-]+):[ \t]*(.+)")  # of a server: RFC 9110, section 5.6.2


def count(text: str) -> int:
    """A whole number from 1 on. Raises ArgumentTypeError."""
    return number(text, least=1)


def number(text: str, least: int = 0) -> int:
    """A whole number. Raises ArgumentTypeError."""
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(LARGEST_NUMBER)) and int(text) >= least):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} to {LARGEST_NUMBER}")
    return int(text)


def port(text: str) -> int:
    """A port to listen to; 0 for any that is free. Raises ArgumentTypeError."""
    found = number(text)
    if found > LARGEST_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port; give a number from 0 to {LARGEST_PORT}")
    return found


def count_or_all(text: str) -> int | str:
    """A whole number from 1 on, or `all`. Raises ArgumentTypeError."""
    try:
        return text if text == "all" else count(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}, nor `all`") from error


def name(text: str) -> str:
    """Any text that can name something. Raises ArgumentTypeError."""
    if "\0" in text or not text:
        raise argparse.ArgumentTypeError("it is empty" if not text else "it holds a NUL character, which no name can")
    return text


def url(text: str) -> str:
    """An address of the web. Raises ArgumentTypeError."""
    if not text.startswith(("http://", "https://")):
        raise argparse.ArgumentTypeError(f"{text!r} begins neither with http:// nor with https://")
    return name(text)


def path(text: str) -> Path:
    """A path. Raises ArgumentTypeError."""
    return Path(name(text))


def secret(text: str) -> tuple[str, str]:
    """A name, and the environment variable that holds the value; never the value itself, which others could see."""
    called, sign, holder = text.partition("=")
    if not (called and sign and holder):
        raise argparse.ArgumentTypeError("give a name and an environment variable, as in TOKEN=GITHUB_TOKEN")
    return called, variable(holder)


def variable(text: str) -> str:
    """The name of an environment variable. It is not repeated: it may be a value that was given by mistake."""
    if text not in os.environ:
        raise argparse.ArgumentTypeError("there is no environment variable of the name given; export it first")
    return text


def server_variable(text: str) -> str:
    """The name of an environment variable, with that of the one server before it that gets it, or without."""
    server, sign, called = text.rpartition("=")
    if sign and not server:
        raise argparse.ArgumentTypeError("it names no server before the =; give NAME=VARIABLE, or VARIABLE alone")
    variable(called)
    return text


def server_header(text: str) -> str:
    """The name of a server and a header; whose value names environment variables, since others see what is typed."""
    found = HEADER.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError("give a server and a header, as in 'NAME=Authorization: Bearer {TOKEN}'")
    called = VARIABLE_IN_BRACES.findall(found[3])
    if not called:
        raise argparse.ArgumentTypeError(
            "put the value into an environment variable, where nobody else sees it, and name that in braces, as in "
            "'NAME=Authorization: Bearer {TOKEN}'"
        )
    for each in called:
        variable(each)
    return text


# --- options of which one at most is given ---------------------------------------------------------------


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
        "--limit", metavar="N", type=count, help=f"the latest N runs ({RUNS_SHOWN}; with --json: all of them)"
    )
    shown.add_argument("--all", action="store_true", help="all of them")


def runs_shown(given: argparse.Namespace) -> int | None:
    """How many runs `runs` is to show; None for all of them."""
    if given.limit is not None:
        return int(given.limit)
    return None if given.all or given.json else RUNS_SHOWN
