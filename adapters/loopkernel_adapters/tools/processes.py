"""Running one command, in the event loop and without a thread: its output as it comes, its end, and nothing left of it.

The command does not belong to this process but to a keeper (`process_keeper.py`), which ends it when this process says
so, or is no more. Where the system allows it, the command lives in a PID namespace of its own: what is in it ends with
it, wherever it has gone. Unix only.
"""

import asyncio
import enum
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from attrs import frozen

from loopkernel_adapters.ports import ToolError
from loopkernel_adapters.tools.output_bounds import Capture

PATIENCE_MS = 1_000  # between asking a command to end and ending it
KEEPER_SECONDS = 4.0  # between asking the keeper to end and ending it as well; the driver's patience is 5 s
FIRST_PROGRESS = 256  # bytes of output; then after each quarter more, so that endless output gives few reports
LONGEST_PROGRESS = 200  # characters of the last line
PROBE_SECONDS = 5.0
_PIECE = 65_536
_MOST_DRAINED = 64  # pieces that are read after the end

_KEEPER = Path(__file__).with_name("process_keeper.py")
_UNSHARE = ("unshare", "--pid", "--fork", "--kill-child=SIGKILL")
_AS_USER = ("--user", "--map-current-user")
_NAMESPACES = (
    (*_UNSHARE, "--mount-proc"),
    (*_UNSHARE, *_AS_USER, "--mount-proc"),
    _UNSHARE,
    (*_UNSHARE, *_AS_USER),
)
# The first process of a namespace is deaf to signals by default, so it is a shell that waits for the command.
_FIRST = ("--", "/bin/sh", "-c", '"$@"; exit $?', "sh")


class Confinement(enum.Enum):
    """How the processes of a command are held together."""

    PID_NAMESPACE = "a PID namespace"  # none can leave it
    SUBREAPER = "a subreaper"  # one that leaves its group and session is found by its descent
    PROCESS_GROUP = "a process group"  # one that leaves it is not found


@frozen
class Confined:
    """What stands before a command, and what that gives; in words for a model, where it has to know."""

    confinement: Confinement
    prefix: tuple[str, ...] = ()
    told: str = ""


@lru_cache(maxsize=1)
def strongest_confinement() -> Confined:
    """What the system allows, tried once."""
    for namespace in _NAMESPACES:
        prefix = (*namespace, *_FIRST)
        try:
            tried = subprocess.run(
                [*prefix, "/bin/sh", "-c", "exit 42"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=PROBE_SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            continue
        if tried.returncode == 42:
            return Confined(Confinement.PID_NAMESPACE, prefix)
    return without_namespace()


def without_namespace() -> Confined:
    """What is there without a namespace."""
    linux = sys.platform == "linux" and os.path.isdir("/proc/self")
    return Confined(Confinement.SUBREAPER if linux else Confinement.PROCESS_GROUP)


@frozen(kw_only=True)
class Command:
    """What to run: a program with its arguments, in an opened folder, for at most `timeout_ms` milliseconds."""

    program: Sequence[str]
    folder: int
    environment: Mapping[str, str]
    timeout_ms: int
    confined: Confined
    patience_ms: int = PATIENCE_MS


@frozen
class Ended:
    """How a command ended. A `status` above 128 is a signal and 128; None: its keeper had to be ended."""

    status: int | None
    timed_out: bool


async def run_command(command: Command, output: Capture, tell: Callable[[str], Awaitable[None]]) -> Ended:
    """Run the command to its end, with its output, and that for errors, in `output` in the order of writing.

    `tell` is given how far it is, now and then. A cancellation ends the command with all its processes, at once where
    they heed it, and within `KEEPER_SECONDS` in any case. Raises ToolError where it cannot be started.
    """
    running = _Running(command, output)
    try:
        while not running.ended.done():
            await running.news()
            words = running.progress()
            if words is not None:
                await tell(words)
    except BaseException:
        running.stop()
        await _to_the_end(running.ended)
        raise
    finally:
        running.close()
    return Ended(running.status(), running.timed_out)


async def _to_the_end(ended: "asyncio.Future[None]") -> None:
    """Wait, whoever says that nobody has to: the keeper ends in time, or is ended."""
    while not ended.done():
        try:
            await asyncio.wait({ended})
        except asyncio.CancelledError:
            continue


class _Running:
    """A command under way: its keeper, the descriptors between it and this process, and what has come through them."""

    def __init__(self, command: Command, output: Capture) -> None:
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self.timed_out = False
        self._output = output
        self._told = FIRST_PROGRESS
        self._news = asyncio.Event()
        self._status = b""
        self._readers: set[int] = set()
        self._backstop: asyncio.TimerHandle | None = None
        self._lifeline: int | None
        self._keeper, self._lifeline, self._status_pipe, self._pipe = _started(command)
        for descriptor, act in ((self._pipe, self._read), (self._status_pipe, self._read_status)):
            os.set_blocking(descriptor, False)
            self._loop.add_reader(descriptor, act)
            self._readers.add(descriptor)
        self._timer = self._loop.call_later(command.timeout_ms / 1000, self._run_out)

    async def news(self) -> None:
        """Wait for output that is to be told, or the end."""
        await self._news.wait()
        self._news.clear()

    def progress(self) -> str | None:
        """What is to be told; None when there is too little to tell."""
        total = self._output.total
        if total < self._told:
            return None
        self._told = total + total // 4
        return f"{total} bytes of output so far: {self._output.last_line(LONGEST_PROGRESS)}"

    def stop(self) -> None:
        """Have the keeper end everything."""
        if self._lifeline is None:
            return
        os.close(self._lifeline)
        self._lifeline = None
        self._backstop = self._loop.call_later(KEEPER_SECONDS, self._keeper.kill)

    def status(self) -> int | None:
        """The exit status that the keeper has told."""
        return int(self._status) if self._status else None

    def close(self) -> None:
        """Take what output is still there, and let go of everything."""
        self._timer.cancel()
        for _ in range(_MOST_DRAINED):
            if self._pipe not in self._readers:
                break
            self._read()
        for descriptor in tuple(self._readers):
            self._forget(descriptor)
        if self._lifeline is not None:
            os.close(self._lifeline)
            self._lifeline = None
        if self._backstop is not None:
            self._backstop.cancel()
        if not self.ended.done():
            self._keeper.kill()
        self._keeper.wait()  # it has closed its last descriptor, so this is a moment

    def _run_out(self) -> None:
        self.timed_out = True
        self.stop()

    def _read(self) -> None:
        try:
            piece = os.read(self._pipe, _PIECE)
        except BlockingIOError:
            return
        if not piece:
            self._forget(self._pipe)
            return
        self._output.add(piece)
        if self._output.total >= self._told:
            self._news.set()

    def _read_status(self) -> None:
        piece = os.read(self._status_pipe, 16)
        self._status += piece
        if not piece:
            self._forget(self._status_pipe)
            self.ended.set_result(None)
            self._news.set()

    def _forget(self, descriptor: int) -> None:
        self._readers.discard(descriptor)
        self._loop.remove_reader(descriptor)
        os.close(descriptor)


def _started(command: Command) -> tuple["subprocess.Popen[bytes]", int, int, int]:
    """The keeper, and this side of its lifeline, of its status, and of the output of the command."""
    if not sys.executable:
        raise ToolError("no command can be run here, since no Python program is known that could keep it")
    held, lifeline = os.pipe()
    status, tells = os.pipe()
    pipe, written = os.pipe()
    program = [*command.confined.prefix, *command.program]
    descriptors = [str(descriptor) for descriptor in (held, tells, command.folder)]
    try:
        keeper = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_KEEPER), *descriptors, str(command.patience_ms), *program],
            stdin=subprocess.DEVNULL,
            stdout=written,
            stderr=written,
            env=dict(command.environment),
            pass_fds=(held, tells, command.folder),
            start_new_session=True,
        )
    except (OSError, ValueError) as error:  # ValueError: a NUL in an argument
        for descriptor in (lifeline, status, pipe):
            os.close(descriptor)
        words = error.strerror if isinstance(error, OSError) else str(error)
        raise ToolError(f"the command cannot be started: {words}") from error
    finally:
        for descriptor in (held, tells, written):
            os.close(descriptor)
    return keeper, lifeline, status, pipe
