"""How a command ends: its exit status, the error that is the user's to mend, and the faults that stop nothing."""

import enum
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import extract_tb
from typing import TYPE_CHECKING, Any

from loopkernel_adapters.cli.screen import in_one_line, printable


class ExitStatus(enum.IntEnum):
    """What the shell is told."""

    NATURAL_END = 0  # the model ended the turn by itself; a replayed log is whole and every law held
    OTHER_END = 1  # the turn ended otherwise, a replayed log ends in a torn tail, or what should agree does not
    UNUSABLE = 2  # wrong usage, or something that is needed is missing


class Unusable(Exception):
    """The command cannot do its work. The message says what is wrong, where, and what to do next."""


# --- faults that stop nothing, or that nobody foresaw ----------------------------------------------------
# Told in one line, where Python would show a traceback.

if TYPE_CHECKING:
    import asyncio  # the help needs none of it

LONGEST_TOLD = 500  # characters


def described(error: BaseException) -> str:
    """The kind of the error, its words, and where it came from."""
    frames = extract_tb(error.__traceback__)
    where = f" (in {Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    try:
        words = str(error)
    except Exception:
        words = "(its message cannot be read)"
    return f"{type(error).__name__}: {in_one_line(words, LONGEST_TOLD)}{where}"


def complain(message: str) -> None:
    """Write it to the standard error; where that is closed or gone, nobody is told."""
    try:
        print(f"loopkernel: {printable(message)}", file=sys.stderr, flush=True)
    except (OSError, ValueError, AttributeError):
        return


def in_loop(loop: "asyncio.AbstractEventLoop", context: dict[str, Any]) -> None:
    """Any: what an event loop gives its exception handler is not typed."""
    error = context.get("exception")
    message = str(context.get("message", "something failed"))
    complain(f"{message}; the run goes on{f': {described(error)}' if isinstance(error, BaseException) else ''}")


@contextmanager
def told_in_words() -> Iterator[None]:
    """Within it, what fails in a thread or while something is thrown away is told by `complain`."""
    in_threads, unraisable = threading.excepthook, sys.unraisablehook

    def of_thread(given: threading.ExceptHookArgs) -> None:
        if given.exc_value is not None:
            complain(f"something failed beside the run: {described(given.exc_value)}")

    def of_cleaning(given: "sys.UnraisableHookArgs") -> None:
        if given.exc_value is not None:
            complain(f"something could not be let go of: {described(given.exc_value)}")

    threading.excepthook, sys.unraisablehook = of_thread, of_cleaning
    try:
        yield
    finally:
        threading.excepthook, sys.unraisablehook = in_threads, unraisable
