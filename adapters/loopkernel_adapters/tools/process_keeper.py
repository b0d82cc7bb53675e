"""The program that keeps one command: it starts it in a session of its own, and leaves nothing of it behind.

It is run by its path, isolated and without site packages, so it imports the standard library alone:

    process_keeper.py LIFELINE STATUS FOLDER PATIENCE_MS PROGRAM ARGUMENT...

LIFELINE, STATUS and FOLDER are descriptors. The command runs in FOLDER. When the other end of LIFELINE is closed, or
the process that holds it dies, the command is asked to end (SIGTERM to its group) and ended (SIGKILL) when its patience
is over. When the command has ended, in whatever way, so is every process that it has left. Then its exit status is
written to STATUS, in decimal (a signal as 128 and its number), and STATUS is closed.

Processes that leave the session are found since this process is their subreaper, where the system knows that (Linux).
"""

import ctypes
import os
import select
import signal
import sys
import time

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
UNHEEDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # it ends when its command has ended, and not before
SWEEP_SECONDS = 2.0  # for processes that start others faster than they are ended


def prctl(option: int, argument: int) -> bool:
    """Set an option of this process; whether the system knows it."""
    try:
        return bool(ctypes.CDLL(None).prctl(option, argument, 0, 0, 0) == 0)
    except (AttributeError, OSError, TypeError):
        return False


def start(program: list[str], folder: int) -> int:
    """The id of a new process that runs the program, the leader of a session."""
    waits, begins = os.pipe()  # both are closed where the program begins, so that a signal then reaches its group
    child = os.fork()
    if child:
        os.close(begins)
        os.read(waits, 1)
        os.close(waits)
        return child
    try:
        os.setsid()
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.fchdir(folder)
        signal.set_wakeup_fd(-1)
        for number in (*UNHEEDED, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)  # what is ignored would stay so in the command
        os.execvp(program[0], program)
    except OSError as error:
        os.write(2, f"{program[0]} cannot be run: {error.strerror}\n".encode(errors="replace"))
    os._exit(127)


def children() -> list[int]:
    """The processes whose parent is this one, as far as the system shows them."""
    mine = str(os.getpid())
    found: list[int] = []
    try:
        names = os.listdir("/proc")
    except OSError:
        return found
    for name in names:
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parent = file.read().rpartition(b")")[2].split()[1]
            except (OSError, IndexError):  # it has just ended
                continue
            if parent.decode() == mine:
                found.append(int(name))
    return found


def send(process: int, number: int) -> None:
    """Send a signal to a process, or to a group where it is negative; gone is gone."""
    try:
        os.kill(process, number)
    except OSError:
        return


def reap(command: int) -> int | None:
    """Take the status of every process that has ended; that of the command, when it is among them."""
    status = None
    while True:
        try:
            process, ended = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status
        if process == 0:
            return status
        if process == command:
            code = os.waitstatus_to_exitcode(ended)
            status = code if code >= 0 else 128 - code


def sweep(command: int, woken: int) -> None:
    """End every process that is left."""
    deadline = time.monotonic() + SWEEP_SECONDS
    send(-command, signal.SIGKILL)
    while time.monotonic() < deadline:
        for child in children():
            send(child, signal.SIGKILL)
        try:
            process, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if process == 0:  # they die soon, and this process is told
            select.select([woken], [], [], 0.05)
            drain(woken)


def drain(woken: int) -> None:
    """Forget what the signals have written."""
    try:
        os.read(woken, 4096)
    except BlockingIOError:
        return


def keep(command: int, lifeline: int, woken: int, patience: float) -> int:
    """Wait for the command, or for the end of the lifeline; the status of the command."""
    deadline: float | None = None
    while (status := reap(command)) is None:
        rest = None if deadline is None else max(0.0, deadline - time.monotonic())
        ready = select.select([woken, *([lifeline] if deadline is None else [])], [], [], rest)[0]
        drain(woken)
        if lifeline in ready:  # nothing is ever written to it: it was closed
            send(-command, signal.SIGTERM)
            deadline = time.monotonic() + patience
        elif rest == 0.0:
            send(-command, signal.SIGKILL)
            send(command, signal.SIGKILL)
            return 128 + signal.SIGKILL
    return status


def main() -> None:
    """Keep the command that the arguments name."""
    lifeline, status, folder, patience_ms = map(int, sys.argv[1:5])
    for descriptor in (lifeline, status, folder):
        os.set_inheritable(descriptor, False)
    woken, wakes = os.pipe()
    for descriptor in (woken, wakes):
        os.set_blocking(descriptor, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    for number in UNHEEDED:
        signal.signal(number, signal.SIG_IGN)
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    if select.select([lifeline], [], [], 0)[0]:
        return  # nobody wants it any more: it is not even begun
    command = start(sys.argv[5:], folder)
    for descriptor in (0, 1, 2, folder):
        os.close(descriptor)  # whoever reads the output must not wait for this process
    code = keep(command, lifeline, woken, patience_ms / 1000)
    sweep(command, woken)
    os.write(status, str(code).encode("ascii"))
    os._exit(0)  # at once: somebody waits for this


if __name__ == "__main__":
    main()
