"""Settings for all sessions: what is typed counts before the environment, and that before the user's own file."""

import itertools
from pathlib import Path

import pytest

from tests.adapters.cli.sessions import CommandLine, says, script

BOUND = '"max_turns":3'  # in a log whose policy the file has bounded


@pytest.fixture(autouse=True)
def settings(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "configuration"))
    monkeypatch.delenv("LOOPKERNEL_MODEL", raising=False)
    path = folder / "configuration" / "loopkernel" / "config.toml"
    path.parent.mkdir(parents=True)
    for name in ("typed", "environment", "file"):
        script(says(f"from {name}"), name=f"{name}.json")
    return path


@pytest.mark.parametrize(
    "places", [each for size in (1, 2, 3) for each in itertools.combinations(("typed", "environment", "file"), size)]
)
def test_the_nearest_place_counts(
    loopkernel: CommandLine, settings: Path, monkeypatch: pytest.MonkeyPatch, places: tuple[str, ...]
) -> None:
    if "file" in places:
        settings.write_text('model = "scripted:file.json"\nmax-turns = 3\n')
    if "environment" in places:
        monkeypatch.setenv("LOOPKERNEL_MODEL", "scripted:environment.json")
    typed = ("--model", "scripted:typed.json") if "typed" in places else ()
    ended = loopkernel("run", "go", *typed)
    assert f"from {places[0]}" in ended.out
    if "file" in places:
        assert BOUND in loopkernel("log", "last", "--json").out


def test_a_run_that_goes_on_stays_as_it_was_begun(loopkernel: CommandLine, settings: Path) -> None:
    loopkernel("run", "go", "--model", "scripted:typed.json", "--max-turns", "7")
    settings.write_text("max-turns = 3\n")
    assert "at most 7 replies" in loopkernel("resume", "last").out


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("max-turns = 'many'", "max-turns"),
        ("tools = 'some'", "files, all"),
        ("approve = 'always'", "none of the settings"),
        ("base-url = 'http://x'", "none of the settings"),
        ("model = true", "a text or a whole number"),
        ("model =", "mend the file"),
    ],
)
def test_what_cannot_be_a_setting_is_told_with_its_place(
    loopkernel: CommandLine, settings: Path, text: str, words: str
) -> None:
    settings.write_text(text)
    ended = loopkernel("run", "go", "--model", "scripted:typed.json")
    assert ended.status == 2
    assert words in ended.err
    assert "config.toml" in ended.err


def test_a_file_of_the_workspace_is_not_read(loopkernel: CommandLine, folder: Path) -> None:
    for place in (".loopkernel", "loopkernel", ".config/loopkernel"):
        (folder / place).mkdir(parents=True)
        (folder / place / "config.toml").write_text("max-turns = 3\n")
    assert loopkernel("run", "go", "--model", "scripted:typed.json").status == 0
    assert BOUND not in loopkernel("log", "last", "--json").out
