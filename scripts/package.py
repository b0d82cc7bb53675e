"""Build the wheel and the source distribution, install the wheel in an empty environment, and try it as a user would.

Usage: python scripts/package.py. The source distribution must hold every file of the tree and build the same wheel.
The wheel is installed with what it declares alone, in the versions of constraints/dev.txt, and is tried in an empty
folder. Exits 1 with the first thing that is wrong.
"""

import re
import shlex
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = "cli,tools,testing"
FIRST_LINES = (
    "from loopkernel_adapters import Agent, ScriptedProvider, text_reply; "
    "print(Agent(ScriptedProvider([text_reply('Good morning!')])).run_sync('Hello').text)"
)
# Each command that is tried, in order, and what it must print.
TRIED = {
    f"python -c {shlex.quote(FIRST_LINES)}": "Good morning!",
    "loopkernel policy show claude": "max_turns",
    "loopkernel run Hello --model scripted:replies.json": "Good morning!",
    "loopkernel why last": "(INFER-1)",
    "loopkernel view last --html page.html": "page.html",
    "python -m loopkernel.testing.scenarios": " 0 failed",
}


def main() -> None:
    """Build, compare, install, try."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run([sys.executable, "-m", "hatchling", "build", "-d", str(folder)], ROOT)
        (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
        hold_source(source)
        hold_same_wheel(wheel, source, folder / "again")
        try_installed(wheel, folder / "environment")


def hold_source(source: Path) -> None:
    """Exit unless the source distribution holds every committed file of the tree."""
    listed = run(["git", "ls-files", "-z"], ROOT).split("\0")
    with tarfile.open(source) as archive:
        held = {member.split("/", 1)[1] for member in archive.getnames() if "/" in member}
    if missing := sorted(path for path in listed if path and path not in held):
        sys.exit(f"{source.name} lacks {len(missing)} files of the tree, first {missing[0]}: see pyproject.toml")
    print(f"{source.name}: every file of the tree is in it")


def hold_same_wheel(wheel: Path, source: Path, folder: Path) -> None:
    """Exit unless the wheel that is built from the source distribution is the one that is built from the tree."""
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", str(folder)]
    run([*pip, str(source)], folder.parent)
    (again,) = folder.glob("*.whl")
    if different := sorted(contents(wheel) ^ contents(again)):
        sys.exit(f"the wheel of {source.name} is not that of the tree: {different[0][0]} differs")
    print(f"{wheel.name}: the same from the tree and from {source.name}")


def contents(wheel: Path) -> set[tuple[str, int]]:
    """Name and checksum of each file."""
    with zipfile.ZipFile(wheel) as archive:
        return {(file.filename, file.CRC) for file in archive.infolist()}


def try_installed(wheel: Path, directory: Path) -> None:
    """Install the wheel with what it declares, and exit unless each command prints what it must."""
    venv.create(directory, with_pip=True)
    versions = directory / "versions.txt"
    pins = (ROOT / "constraints" / "dev.txt").read_text(encoding="utf-8")
    versions.write_text("\n".join(re.findall(r"^(\S+==\S+(?: ; [^\\\n]+)?)", pins, flags=re.MULTILINE)))
    pip = [str(directory / "bin" / "python"), "-m", "pip", "install", "-q", "--only-binary=:all:", "-c", str(versions)]
    run([*pip, f"{wheel}[{EXTRAS}]"], directory)
    empty = directory / "work"
    empty.mkdir()
    (empty / "replies.json").write_text('[{"text": "Good morning!"}]')
    for command, due in TRIED.items():
        program, *arguments = shlex.split(command)
        told = run([str(directory / "bin" / program), *arguments], empty)
        if due not in told:
            sys.exit(f"`{command}` of the installed package printed no {due!r}, but:\n{told}")
        print(f"installed: {command.splitlines()[0][:60]}: passed")


def run(command: list[str], folder: Path) -> str:
    """What a command prints; exits with it if the command fails."""
    ended = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if ended.returncode != 0:
        sys.exit(f"{ended.stdout}\nThe command above failed: {shlex.join(command)}")
    return ended.stdout


if __name__ == "__main__":
    main()
