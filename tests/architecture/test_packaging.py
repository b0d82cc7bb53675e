"""The tree as it is handed over: nothing of one machine, nothing large, rooms that are not packages."""

import os
import re
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LARGEST_FILE = 300_000  # bytes
LEFT_BY_TOOLS = re.compile(
    r"(?:\.git|\.venv.*|__pycache__|dist|mutants|\.loopkernel|\..*_cache|\.hypothesis|\.coverage.*)"
)

# Every pattern is joined from pieces, so that this file does not hold what it forbids.
HOME_PATHS = [
    "/ho" + r"me/[\w.-]+",
    "/Us" + r"ers/[\w.-]+",
    "/ro" + "ot/",
    r"[A-Za-z]:\\{1,2}Us" + r"ers\\",
    "/wo" + r"rk/(?:ma" + "in|sha" + "red)",
]
REGISTRY_HOSTS = [
    "py" + r"pi\.(?:org|io|python\.org)",
    "python" + r"hosted\.org",
    "npm" + r"js\.(?:org|com)",
    "yarn" + r"pkg\.com",
    "crates" + r"\.io",
    "proxy" + r"\.golang\.org",
    "debian" + r"\.org",
    "conda" + r"\.(?:org|io|com)",
    "maven" + r"\.org",
    "ruby" + r"gems\.org",
    "hugging" + r"face\.co",
    "gh" + r"cr\.io",
]
FORBIDDEN_TEXT = re.compile("|".join(HOME_PATHS + REGISTRY_HOSTS))
TWIN_IMPORT = re.compile(r"\b(?:kernel|adapters)" + r"\.loopkernel")


@cache
def files_of_the_tree() -> tuple[Path, ...]:
    """Return every file that is, or would be, committed; without git, every file but what tools leave."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    try:
        listing = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return tuple(walk(ROOT))
    listed = (ROOT / name for name in listing.split("\0") if name)
    return tuple(sorted(path for path in listed if path.is_file()))


def walk(folder: Path) -> Iterator[Path]:
    """Yield the files under a folder, sorted, without what environments and tools leave."""
    for path, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not LEFT_BY_TOOLS.fullmatch(name))
        yield from (Path(path, name) for name in sorted(names) if not LEFT_BY_TOOLS.fullmatch(name))


def lines_matching(pattern: re.Pattern[str], text: str) -> list[tuple[int, str]]:
    """Return the number of each line that matches and what matched there."""
    numbered = enumerate(text.splitlines(), start=1)
    return [(number, found[0]) for number, line in numbered if (found := pattern.search(line))]


def breaches(pattern: re.Pattern[str], suffix: str = "") -> list[str]:
    """Return `file:line: match` for each line of the tree that matches."""
    return [
        f"{path.relative_to(ROOT)}:{number}: {found}"
        for path in files_of_the_tree()
        if path.name.endswith(suffix)
        for number, found in lines_matching(pattern, path.read_text(encoding="utf-8", errors="replace"))
    ]


def test_the_tree_is_found() -> None:
    names = {str(path.relative_to(ROOT)) for path in files_of_the_tree()}
    assert {"pyproject.toml", "Makefile", ".ci/run", "kernel/loopkernel/__init__.py"} <= names
    assert not any(name.startswith((".venv", ".git/")) for name in names)


def test_every_source_is_found_without_git_too() -> None:
    def sources(paths: tuple[Path, ...]) -> set[Path]:
        return {path for path in paths if path.suffix == ".py"}

    assert sources(files_of_the_tree()) <= sources(tuple(walk(ROOT)))


@pytest.mark.parametrize(
    "text",
    [
        "see /ho" + "me/ada/notes.txt",
        "open('/ro" + "ot/x')",
        r"C:\Us" + r"ers\ada",
        "/wo" + "rk/ma" + "in/README.md",
        "--index-url https://py" + "pi.org/simple",
        "https://files.python" + "hosted.org/packages/a.whl",
        "registry.npm" + "js.org",
    ],
)
def test_the_forbidden_is_recognised(text: str) -> None:
    assert lines_matching(FORBIDDEN_TEXT, "first\n" + text)[0][0] == 2


def test_no_file_names_a_home_folder_or_a_registry() -> None:
    assert breaches(FORBIDDEN_TEXT) == []


def test_no_file_is_large() -> None:
    large = {str(path.relative_to(ROOT)): path.stat().st_size for path in files_of_the_tree()}
    assert {name: size for name, size in large.items() if size > LARGEST_FILE} == {}


@pytest.mark.parametrize("room", ["kernel", "adapters"])
def test_a_room_is_no_package(room: str) -> None:
    assert not (ROOT / room / "__init__.py").exists(), f"{room}/__init__.py would shadow a published package"


def test_nothing_imports_a_package_through_its_room() -> None:
    """It would work from the root, and make a second copy of every class that no match recognises."""
    assert breaches(TWIN_IMPORT, ".py") == []


def targets() -> dict[str, str]:
    """Return the rest of its line for each target of the Makefile."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    return dict(re.findall(r"^([a-z][\w-]*):(?!=)(.*)$", makefile, re.MULTILINE))


def test_every_command_of_the_readme_is_a_target() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    code = re.findall(r"^```.*?^```|^ {4}.*?$|`[^`\n]+`", readme, re.MULTILINE | re.DOTALL)
    named = {target for part in code for target in re.findall(r"(?<![\w-])make ([a-z][\w-]*)", part)}
    assert {"run", "test"} <= named
    assert named - targets().keys() == set()


def test_every_target_says_what_it_does() -> None:
    assert [name for name, rest in targets().items() if "## " not in rest] == []


def test_continuous_integration_runs_the_documented_commands() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    commands = re.search(r"for target in ([a-z ]+); do", script)
    assert commands is not None
    assert {"check", "test"} <= set(commands[1].split()) <= targets().keys()
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_the_pins_are_exact_and_cover_what_is_declared() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        settings = tomllib.load(file)
    project = settings["project"]
    extras = project["optional-dependencies"]
    groups = settings["dependency-groups"]
    development = [each for each in groups["dev"] if isinstance(each, str)] + groups["build"]
    declared = {
        "dev": sum((extras[name] for name in extras if name != "local"), project["dependencies"] + development),
        "run": project["dependencies"] + extras["tools"] + groups["build"],
        "local": extras["local"],
    }
    for name, requirements in declared.items():
        pins = (ROOT / "constraints" / f"{name}.txt").read_text(encoding="utf-8")
        pinned = pins_by_name(pins)
        assert {package_name(requirement) for requirement in requirements} <= pinned.keys()
        assert all(hashes > 0 for hashes in pinned.values())


def pins_by_name(pins: str) -> dict[str, int]:
    """Return how many hashes each exact pin has; fail on a line that is neither a pin nor a hash."""
    counts: dict[str, int] = {}
    latest = ""
    for line in pins.splitlines():
        if re.fullmatch(r" {4}--hash=sha256:[0-9a-f]{64}(?: \\)?", line):
            counts[latest] += 1
        else:
            assert re.fullmatch(r"[a-z0-9-]+==[\w.+]+(?: ; [^\\]+)? \\", line), f"not an exact pin: {line}"
            latest = line.partition("==")[0]
            counts[latest] = 0
    return counts


def package_name(requirement: str) -> str:
    """Return the normalized name that a requirement starts with."""
    name = re.match(r"[\w.-]+", requirement)
    assert name is not None
    return re.sub(r"[-_.]+", "-", name[0]).lower()
