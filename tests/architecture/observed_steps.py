"""Every scripted step under watch: a program that prints, as one JSON object, what `transition` did beside its work.

While it watches, every audit event of the interpreter is noted, and so is every call of a clock, of a source of
randomness, of the environment and of a stream, for which the interpreter has no event. It watches some impure
functions as well, so that the reader can tell that it sees.
"""

import builtins
import datetime
import hashlib
import importlib
import json
import os
import random
import secrets
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from loopkernel.codec import effects_to_text, state_to_text
from loopkernel.data.states import Initial, State
from loopkernel.data.steps import Context, Step
from loopkernel.data.thread_deltas import Acquired
from loopkernel.loop.transition import transition
from loopkernel.testing.explorer.moves import moves
from loopkernel.testing.explorer.scope import Scope

from tests.architecture.scripted_runs import steps

Transition = Callable[[State, Context], Step[State]]

# What the interpreter reports no event for, or not in every version of it.
SILENT: dict[ModuleType | type, tuple[str, ...]] = {
    time: (
        "time",
        "time_ns",
        "monotonic",
        "monotonic_ns",
        "perf_counter",
        "perf_counter_ns",
        "process_time",
        "thread_time",
        "localtime",
        "gmtime",
        "sleep",
    ),
    random: ("random", "randint", "randrange", "getrandbits", "choice", "shuffle", "uniform", "seed"),
    random.Random: ("random", "getrandbits", "seed"),
    secrets: ("token_bytes", "token_hex", "randbelow", "choice"),
    uuid: ("uuid1", "uuid4", "getnode"),
    os: ("urandom", "getpid", "getenv", "getcwd", "times"),
    datetime: ("datetime", "date"),
    threading: ("Thread",),
    builtins: ("print",),
    sys: ("stdin", "stdout", "stderr"),
}


class Impure(BaseException):
    """What was watched reached outside. Not an Exception, so that nobody catches it by accident."""


def _builds_value(event: str, arguments: tuple[object, ...]) -> bool:
    """Whether a new value changes its class for the twin, or back, or what makes it is written (`value_classes`)."""
    if event == "object.__setattr__":
        value, name, into = arguments
        return name == "__class__" and isinstance(into, type) and into.__qualname__ == type(value).__qualname__
    if event not in ("compile", "exec"):
        return False
    place = getattr(arguments[0], "co_filename", None) if event == "exec" else arguments[1]
    return isinstance(place, str) and place.startswith(("<constructor of ", "<copy of "))


class Watch:
    """Notes what is reached for while a function runs, also if the function hides what comes of it."""

    def __init__(self) -> None:
        self._on = False
        self._seen: list[str] = []
        sys.addaudithook(self._audit)

    def _audit(self, event: str, arguments: tuple[object, ...]) -> None:
        if self._on and not _builds_value(event, arguments):
            self._reached(event)

    def _reached(self, name: str) -> NoReturn:
        self._seen.append(name)
        raise Impure(name)

    def of(self, step: Transition, state: State, ctx: Context) -> tuple[Step[State] | None, list[str]]:
        """What the step gives, None if it was stopped, and what it reached for, in order."""
        self._seen = []
        real = [(owner, name, getattr(owner, name)) for owner, names in SILENT.items() for name in names]
        for owner, name, _ in real:
            setattr(owner, name, _Tripwire(f"{owner.__name__}.{name}", self._reached))
        outcome: Step[State] | None = None
        self._on = True
        try:
            outcome = step(state, ctx)
        except Impure:
            pass  # noted already
        finally:
            self._on = False
            for owner, name, found in real:
                setattr(owner, name, found)
        return outcome, self._seen


class _Tripwire:
    """Stands in the place of a function, a class or a stream; whatever is done with it is noted."""

    def __init__(self, name: str, reached: Callable[[str], NoReturn]) -> None:
        self._name = name
        self._reached = reached

    def __call__(self, *_: object, **__: object) -> NoReturn:
        self._reached(self._name)

    def __getattr__(self, part: str) -> NoReturn:
        self._reached(f"{self._name}.{part}")


# --- impure functions, which must be seen ---------------------------------------------------------------


def _hides_a_file() -> None:
    try:
        Path(__file__).read_bytes()
    except BaseException:  # as widely as it can be hidden
        return


PLANTED: dict[str, Callable[[], object]] = {
    "opens a file": lambda: open(__file__),  # noqa: SIM115  # it never opens
    "hides that it opens a file": _hides_a_file,
    "lists a folder": lambda: os.listdir("."),
    "removes a file": lambda: os.remove("no such file"),
    "opens a socket": socket.socket,
    "looks up a host": lambda: socket.gethostbyname("localhost"),
    "starts a process": lambda: subprocess.run([sys.executable, "--version"], check=True),
    "starts a thread": lambda: threading.Thread(target=int).start(),
    "imports a module": lambda: importlib.import_module("colorsys"),
    "runs text as code": lambda: eval("1 + 1"),
    "reads the clock": lambda: time.time(),
    "reads the monotonic clock": lambda: time.monotonic(),
    "reads the date": lambda: datetime.datetime.now(),
    "sleeps": lambda: time.sleep(0),
    "draws a number": lambda: random.random(),
    "draws from a generator of its own": lambda: random.Random(1).random(),
    "draws bytes": lambda: os.urandom(1),
    "mints an identifier": lambda: uuid.uuid4(),
    "reads the environment": lambda: os.getenv("HOME"),
    "prints": lambda: print("hello"),
    "writes to a stream": lambda: sys.stderr.write("hello"),
}


def planted(work: Callable[[], object]) -> Transition:
    """A step that does the work, and then nothing."""

    def step(state: State, ctx: Context) -> Step[State]:
        work()
        return Step(state, ())

    return step


# --- the report -----------------------------------------------------------------------------------------


def watched_steps(watch: Watch) -> tuple[list[str], list[str]]:
    """A digest of what each step gives, in order, and whatever any step reached for."""
    digests: list[str] = []
    reached: list[str] = []

    def note(name: str, state: State, ctx: Context) -> None:
        outcome, seen = watch.of(transition, state, ctx)
        delta = type(ctx.delta).__name__
        reached.extend(f"{name}: {delta} in {type(state).__name__} reaches for {what}" for what in seen)
        if outcome is not None:
            written = state_to_text(outcome.next) + effects_to_text(outcome.effects)
            digest = hashlib.sha256(written.encode()).hexdigest()[:16]
            digests.append(f"{name}: {delta} in {type(state).__name__}: {digest}")

    for name, state, context, _ in list(steps()):
        note(name, state, context)
        for move in moves(state, Scope()):
            note(name, state, Context(move.delta, context.now_ms))
    return digests, reached


def main() -> None:
    """Print the report: the steps and what they reached for, and what was seen of each planted function."""
    watch = Watch()
    digests, reached = watched_steps(watch)
    context = Context(Acquired(), 0)
    seen = {name: watch.of(planted(work), Initial(), context)[1] for name, work in PLANTED.items()}
    order = list({"one", "two", "three", "four", "five", "six"})  # by hash, so that seeds are known to differ
    print(json.dumps({"steps": digests, "reached": reached, "planted": seen, "order": order}))


if __name__ == "__main__":
    main()
