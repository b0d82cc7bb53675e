"""A process of Linux that has of the system what Windows has: both lasting stores are used in it, and a run is made.

Gone are `fcntl` and the functions and flags that only POSIX has. A folder cannot be opened, an open file neither
removed nor replaced, and text mode is the default. `msvcrt` locks by the real lock of the system.
"""

import asyncio  # noqa: F401 - it takes what POSIX has before that goes, as do the modules below
import ctypes
import os
import sqlite3  # noqa: F401
import subprocess  # noqa: F401
import sys
import tempfile  # noqa: F401
import types
from contextlib import closing
from pathlib import Path
from typing import Any  # of functions that pass on what they are given

import attrs  # noqa: F401

BINARY = 1 << 40
FLOCK = ctypes.CDLL(None, use_errno=True).flock
LOCK_EX_NB = 2 | 4
LARGEST_POSITION = 0x7FFF_FFFF
locked: list[int] = []  # where each lock was taken

for module in ("fcntl", "termios", "tty", "pty", "resource", "pwd", "grp"):
    sys.modules[module] = None  # type: ignore[assignment]  # which is how Python is told that there is none
for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_DIRECTORY", "O_CLOEXEC", "geteuid", "getuid", "fchmod", "pread", "pwrite"):
    delattr(os, name)
os.O_BINARY = BINARY  # type: ignore[attr-defined]  # Windows has it

_open, _unlink, _rename, _replace = os.open, os.unlink, os.rename, os.replace


def opened(path: Any, flags: int, *others: Any, **named: Any) -> int:
    if "loopkernel" in sys._getframe(1).f_code.co_filename:
        assert flags & BINARY, f"{path} is opened as text"
    if os.path.isdir(path):
        raise PermissionError(13, "Permission denied", str(path))
    return _open(path, flags & ~BINARY, *others, **named)


def demand_closed(path: Any) -> None:
    held = {os.path.realpath(f"/proc/self/fd/{each}") for each in os.listdir("/proc/self/fd")}
    if os.path.realpath(path) in held:
        raise PermissionError(13, "it is open", str(path))


def unlink(path: Any, **named: Any) -> None:
    demand_closed(path)
    _unlink(path, **named)


def rename(source: Any, target: Any, **named: Any) -> None:
    demand_closed(source)
    demand_closed(target)
    _rename(source, target, **named)


def replace(source: Any, target: Any, **named: Any) -> None:
    demand_closed(source)
    demand_closed(target)
    _replace(source, target, **named)


def locking(descriptor: int, mode: int, count: int) -> None:
    position = os.lseek(descriptor, 0, os.SEEK_CUR)
    assert (mode, count) == (2, 1) and position <= LARGEST_POSITION - count
    locked.append(position)
    if FLOCK(descriptor, LOCK_EX_NB):
        raise PermissionError(13, "Permission denied")


os.open, os.unlink, os.rename, os.replace = opened, unlink, rename, replace  # type: ignore[assignment]
msvcrt = types.ModuleType("msvcrt")
msvcrt.LK_NBLCK, msvcrt.locking = 2, locking  # type: ignore[attr-defined]
sys.modules["msvcrt"] = msvcrt

from loopkernel import replay  # noqa: E402
from loopkernel_adapters import Agent, JsonlFolder, ScriptedProvider, SqliteRuns, StoreLocked, text_reply  # noqa: E402

for runs in (JsonlFolder("logs"), SqliteRuns("runs.sqlite")):
    agent = Agent(ScriptedProvider([text_reply("Hello."), text_reply("Still here.")]), runs=runs)
    assert agent.run_sync("Hello", run="a").text == "Hello."
    with closing(runs.open("a")) as store:
        assert store.restore().doubt is None, store.restore().doubt
        before = store.load()
        try:
            runs.open("a")
        except StoreLocked:
            pass
        else:
            raise AssertionError(f"{runs} has two writers")
        assert runs.read("a") == before  # while it is open
        store.vouch()
        store.save_snapshot(replay(before))
    assert agent.run_sync("And now?", run="a").text == "Still here."
    assert len(runs.read("a")) > len(before)
    assert [entry.run for entry in runs.entries()] == ["a"]
assert locked and min(locked) > Path("runs.sqlite").stat().st_size  # nobody is kept from reading
try:
    from loopkernel_adapters import Workspace  # noqa: F401
except ImportError as error:
    assert "they need Linux or macOS" in str(error)
else:
    raise AssertionError("the tools of a coding agent cannot work here, and do not say so")
print("both stores keep their runs")
