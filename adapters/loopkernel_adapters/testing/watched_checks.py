"""Runs one check of an adapter so that it ends: with a verdict also where the adapter never comes back.

A check runs in a thread of its own, since nothing else in Python can be left behind: neither a blocked event loop nor a
lock that is waited for can be interrupted from outside. The thread of a check that hangs is left to itself.
"""

import contextvars
import sys
import sysconfig
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TypeVar

from loopkernel_adapters.testing.duties import due

T = TypeVar("T")

_HERE = str(Path(__file__).parent)
_STANDARD_LIBRARY = sysconfig.get_path("stdlib")
_PACKAGES = ("site-packages", "dist-packages")  # they may lie within the standard library's folder


class StandsStill(Exception):
    """A check has not ended in its time. Says where the adapter stands."""


def watched(act: Callable[[], T], patience_seconds: float) -> T:
    """What `act` returns or raises. Raises StandsStill where it has done neither after so many seconds."""
    returned: list[T] = []
    raised: list[BaseException] = []
    context = contextvars.copy_context()

    def run() -> None:
        try:
            returned.append(context.run(act))
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, name="check of an adapter", daemon=True)
    thread.start()
    thread.join(patience_seconds)
    frame = sys._current_frames().get(thread.ident or 0)
    if thread.is_alive():
        raise StandsStill(f"after {patience_seconds:g} s it has not come back{_standing(frame)}")
    if raised:
        raise raised[0]
    return returned[0]


def _standing(frame: FrameType | None) -> str:
    place = _place(traceback.extract_stack(frame)) if frame is not None else ""
    return f" from{place}" if place else "; it waits for something that never comes"


def raised_at(error: BaseException) -> str:
    """Where in an adapter the error came from, as ` my_store.py:12, in append`; empty where it is not from there."""
    return _place(traceback.extract_tb(error.__traceback__))


def _place(stack: traceback.StackSummary) -> str:
    for frame in reversed(stack):
        if not _is_ours(frame.filename):
            return f" {Path(frame.filename).name}:{frame.lineno}, in {frame.name}"
    return ""


def _is_ours(file: str) -> bool:
    """The check itself, or the standard library that it and the adapter run on."""
    if file.startswith(("<", _HERE)):
        return True
    return file.startswith(_STANDARD_LIBRARY) and not any(name in file for name in _PACKAGES)


def raising(error: BaseException) -> str:
    """What was raised, and where, in words."""
    place = raised_at(error)
    return f"it raised {type(error).__name__}: {error}{f' (at{place})' if place else ''}"


def judged(duty: str, act: Callable[[], T], patience_seconds: float) -> T:
    """What `act` returns. Raises AssertionError that names a duty, what was seen, and what is due.

    `act` says itself which duty is broken, by an AssertionError; whatever else it raises, and that it does not come
    back, counts as a breach of `duty`.
    """
    try:
        return watched(act, patience_seconds)
    except AssertionError as error:
        told = str(error)
    except StandsStill as error:
        told = f"{duty}: {error}"
    except Exception as error:
        told = f"{duty}: {raising(error)}"
        raise AssertionError(due(told)) from error
    raise AssertionError(due(told))
