"""Runs one check of an adapter so that it ends: with a verdict also where the adapter never comes back.

A check runs in a thread of its own, since nothing else in Python can be left behind: neither a blocked event loop nor a
lock that is waited for can be interrupted from outside. The thread of a check that hangs is left to itself.
"""

import contextvars
import sys
import sysconfig
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TypeVar

# --- the duties, in the words of `specs/ports.md` --------------------------------------------------------


DUTIES: Mapping[str, str] = {
    "provider 1": "`stream(request, operation)` returns at once, and gives the reply as deltas.",
    "provider 2": "The last delta is `ModelCompleted` or `ModelFailed`.",
    "provider 4": "The adapter classifies the errors that it knows, in one function, and gives them as `ModelFailed`",
    "provider 5": "It never tries again by itself.",
    "provider 7": "When it is cancelled or closed, it lets go of sockets, threads and files at once.",
    "provider 9": "Pieces of text and of a call's arguments, joined, are the whole.",
    "provider 11": "A call is given when its arguments have ended. One within which the stream is cut is not given.",
    "provider 12": "No key is in what it gives or raises, nor in what it shows of itself",
    "tools 1": "`offered()` lists the tools of a new session; their names are unique.",
    "tools 2": "`check(command)` judges one call: unknown tool, invalid input",
    "tools 3": "`run(command, context)` runs the tool once, and returns what the model shall see.",
    "tools 4": "A failure is raised as `ToolError`; its text goes to the model as it stands",
    "tools 8": "An abort is a cancellation of the task, also of one that waits for an answer.",
    "tools 9": "Blocking work happens in a thread or process that the tool owns, never in the event loop",
    "tools 11": "What a run gives back is bounded while it comes in, and says what was left out",
    "tools 12": "No key is in what a check says, in a result or in the words of a failure.",
    "store 1": "`append(records, durable)` adds at the end, in order.",
    "store 2": "After a failed append nothing is tried again on the same store; it refuses every further append.",
    "store 3": "There is one writer. A second one is refused when it opens the log, at once and as `StoreLocked`",
    "store 4": "`load()` gives all records in order, or raises `StoreCorrupt`",
    "store 5": "An append that never ended may be cut off when the log is opened.",
    "store 6": "`close()` makes durable what is not, and lets go of file and lock.",
    "store 7": "`restore()` gives the newest snapshot that can be trusted and the records behind it, or all records.",
    "store 8": "`save_snapshot(state)` is a favour.",
    "store 9": "What a store makes can be read by its owner only.",
    "store 11": "Appends take effect in the order of their calls, also where one begins before another has returned",
    "runs 1": "`open(run)` gives the log of that id, empty or gone on with. Any text is an id; no two lead to the same",
    "runs 2": "`read(run)` gives all complete records without a lock, also while they are written",
    "runs 3": "`entries()` lists the runs that have records, the latest last.",
    "runs 4": "`close()` lets go of everything but the logs that were opened; those are closed by who uses them.",
    "driver 1": "One delta is applied at a time, in the order of arrival.",
    "driver 2": "The order within a step: transition, record, commands, events.",
    "driver 3": "A record is durable before any command of its step is carried out.",
    "driver 4": "`send` returns when its delta is durable.",
    "driver 5": "Each command is carried out at most once, with what it says, also over a restart",
    "driver 6": "If the log cannot be written, nothing more is started, what is under way is cancelled",
    "driver 7": "`rest` returns when nothing goes on by itself",
    "driver 8": "After `close` there is no task, timer, thread or file of the driver left.",
    "driver 9": "An empty log is begun with `created` and `acquired`. Any other is folded, and goes on with `resumed`",
    "driver 10": "Where the policy is `on_error: raise`, `rest` raises `RunFailed`, with class and message",
    "driver 11": "Timers run on the driver's clock.",
    "driver 16": "An abort is a cancellation of the run, or of the reading of the stream, which is then closed.",
    "driver 17": "A report that comes late, or twice, is passed on to the kernel like any other",
    "driver 19": "Others get their turn",
    "driver 23": "What a run says and asks goes through the log",
    "driver 22": "A snapshot is kept when the driver's rule says so",
}


def due(told: str) -> str:
    """What is told of a broken duty, which begins with its name and a colon, and behind it what is due."""
    duty = told.partition(":")[0]
    words = DUTIES.get(duty)
    return told if words is None else f"{told}\n    Due is ({duty} in specs/ports.md): {words}"


# --- one check, watched ----------------------------------------------------------------------------------

T = TypeVar("T")

_HERE = str(Path(__file__).parent)
_STANDARD_LIBRARY = sysconfig.get_path("stdlib")
_PACKAGES = ("site-packages", "dist-packages")  # they may lie within the standard library's folder


class StandsStill(Exception):
    """A check has not ended in its time. Says where the adapter stands; `stack` is that of the check, the call last."""

    def __init__(self, told: str, stack: Sequence[tuple[FrameType, int]]) -> None:
        super().__init__(told)
        self.stack = stack


# The threads that a check has begun beside its own, in which the adapter may stand.
_BESIDE = contextvars.ContextVar[list[threading.Thread] | None]("threads of a check", default=None)


def watch_too(thread: threading.Thread) -> None:
    """The adapter is in this thread: where it stands there is told, if the check does not come back."""
    beside = _BESIDE.get()
    if beside is not None:
        beside.append(thread)


def watched(act: Callable[[], T], patience_seconds: float) -> T:
    """What `act` returns or raises. Raises StandsStill where it has done neither after so many seconds."""
    returned: list[T] = []
    raised: list[BaseException] = []
    context = contextvars.copy_context()
    beside: list[threading.Thread] = []
    context.run(_BESIDE.set, beside)

    def run() -> None:
        try:
            returned.append(context.run(act))
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, name="check of an adapter", daemon=True)
    thread.start()
    thread.join(patience_seconds)
    frames = sys._current_frames()
    if thread.is_alive():
        stacks = [frames[each.ident] for each in (thread, *beside) if each.ident in frames]
        places = [_place(traceback.extract_stack(stack)) for stack in stacks]
        innermost_first = list(traceback.walk_stack(stacks[0])) if stacks else []
        told = f"after {patience_seconds:g} s it has not come back{_standing(places)}"
        raise StandsStill(told, innermost_first[::-1])
    if raised:
        raise raised[0]
    return returned[0]


def _standing(places: Sequence[str]) -> str:
    place = next(filter(None, places), "")
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


def raising(error: BaseException, what: str = "it") -> str:
    """What was raised, and where, in words."""
    place = raised_at(error)
    return f"{what} raised {type(error).__name__}: {error}{f' (at{place})' if place else ''}"


def told_of_adapter(duty: str, error: Exception) -> str:
    """What is told of an error that a check of this duty has ended in."""
    return f"{duty}: {error if isinstance(error, StandsStill) else raising(error)}"


def judged(
    duty: str, act: Callable[[], T], patience_seconds: float, tell: Callable[[str, Exception], str] = told_of_adapter
) -> T:
    """What `act` returns. Raises AssertionError that names a duty, what was seen, and what is due.

    `act` says itself which duty is broken, by an AssertionError; whatever else it raises, and that it does not come
    back, `tell` tells, as a breach of `duty` if it knows no better.
    """
    try:
        return watched(act, patience_seconds)
    except AssertionError as error:
        told = str(error)
    except StandsStill as error:
        told = tell(duty, error)
    except Exception as error:
        raise AssertionError(due(tell(duty, error))) from error
    raise AssertionError(due(told))
