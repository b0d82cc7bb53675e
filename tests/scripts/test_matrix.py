"""Which other Pythons `make matrix` runs the tests under, by what the machine has."""

import sys

import pytest

from scripts import matrix

OLDER, NEWER = (version for version in matrix.VERSIONS if version != "{}.{}".format(*sys.version_info[:2]))


def ran(monkeypatch: pytest.MonkeyPatch, *there: str, failing: str = "") -> tuple[list[tuple[str, str]], int]:
    """The versions whose tests were run, each with its profile, and the exit status; the tests of `failing` fail."""
    suites: list[tuple[str, str]] = []

    def run_suite(version: str, interpreter: str, profile: str) -> bool:
        suites.append((version, profile))
        return version != failing

    monkeypatch.setattr(matrix, "find_interpreter", lambda version: version if version in there else None)
    monkeypatch.setattr(matrix, "run_suite", run_suite)
    with pytest.raises(SystemExit) as ended:
        matrix.main()
    assert isinstance(ended.value.code, int)
    return suites, ended.value.code


@pytest.fixture(autouse=True)
def unset(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is asked for by the environment."""
    for name in ("ALL", "REQUIRE_ALL_PYTHONS"):
        monkeypatch.delenv(name, raising=False)


def test_the_newest_other_python_that_is_there_runs_the_quick_suite(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ran(monkeypatch, OLDER, NEWER) == ([(NEWER, "again")], 0)
    assert ran(monkeypatch, OLDER) == ([(OLDER, "again")], 0)
    assert ran(monkeypatch, OLDER, NEWER, failing=NEWER) == ([(NEWER, "again")], 1)


def test_each_runs_every_test_where_all_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL", "1")
    assert ran(monkeypatch, OLDER, NEWER) == ([(NEWER, "matrix"), (OLDER, "matrix")], 0)
    assert ran(monkeypatch, OLDER, NEWER, failing=OLDER)[1] == 1


def test_what_is_missing_is_told_and_fails_where_all_are_required(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ran(monkeypatch) == ([], 0)
    assert f"{NEWER}  MISSING" in capsys.readouterr().out
    monkeypatch.setenv("REQUIRE_ALL_PYTHONS", "1")
    assert ran(monkeypatch, OLDER)[1] == 1
