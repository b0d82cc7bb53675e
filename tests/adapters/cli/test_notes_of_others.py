"""What a run was begun with is not believed where others may have written it: as in a folder that was cloned."""

import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from loopkernel_adapters.cli import models
from loopkernel_adapters.cli.outcomes import ExitStatus
from loopkernel_adapters.ports import Provider
from loopkernel_adapters.stores.sqlite import SqliteRuns

from tests.adapters.cli.sessions import MODEL, STORE, CommandLine, calls, says, script
from tests.adapters.mcp.test_mcp_servers import RAW

Way = Callable[[Path], object]


def cloned(note: Path) -> None:
    """As a folder has it that others can read."""
    note.chmod(0o644)


def unpacked(note: Path) -> None:
    """As an archive makes it, or a clone where files are for their owner alone."""
    shutil.copyfile(note, note.with_suffix(".new"))
    note.with_suffix(".new").chmod(0o600)
    os.replace(note.with_suffix(".new"), note)


def changed(names: dict[str, object]) -> Path:
    """The note of the one run, which now names this."""
    (note,) = Path(".loopkernel").glob("*.begun/*")
    note.write_text(json.dumps({**json.loads(note.read_text()), **names}))
    return note


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """The addresses that models are asked at."""
    addresses = list[str | None]()
    opened = models.opened_model

    def noted(wanted: str, base_url: str | None) -> AbstractContextManager[tuple[Provider, str]]:
        addresses.append(base_url)
        return opened(wanted, base_url)

    monkeypatch.setattr(models, "opened_model", noted)
    return addresses


def taken_away(note: Path) -> None:
    """As where somebody has put a run into the store by hand."""
    note.unlink()


@pytest.mark.parametrize("way", [cloned, unpacked, taken_away])
def test_no_key_is_sent_to_an_address_that_others_may_have_named(
    loopkernel: CommandLine, asked: list[str | None], way: Way
) -> None:
    script(says("Done."))
    assert loopkernel("run", "go", *MODEL, "--base-url", "http://mine").status == 0
    assert loopkernel("resume", "last").status == 0
    assert asked == ["http://mine", "http://mine"]  # it is one's own, and as it was begun
    way(changed({"base_url": "http://theirs"}))
    for command in (("resume", "last"), ("fork", "last", "--at", "2")):
        refused = loopkernel(*command)
        assert refused.status == 2
        assert "others may have recorded this run" in refused.err
        assert "--model MODEL`, with --workspace, --base-url, --mcp and --secret" in refused.err
    assert loopkernel("resume", "last", "--base-url", "http://mine").status == 2  # whoever is meant by it
    assert loopkernel("resume", "last", *MODEL, "--base-url", "http://mine").status == 0
    assert loopkernel("resume", "last").status == 0  # said once, it is one's own again
    assert set(asked) == {"http://mine"}


@pytest.mark.parametrize("way", [cloned, unpacked])
def test_servers_that_others_may_have_named_are_not_run(loopkernel: CommandLine, folder: Path, way: Way) -> None:
    server = Path(shutil.copy(RAW, folder / "server.py"))
    named = ("--mcp", shlex.join([f"raw={sys.executable}", "-S", str(server), "honest"]))
    script(says("Done."))
    assert loopkernel("run", "go", *MODEL, *named).status == 0
    variables = {"server_variables": ["raw=PATH"], "server_headers": ["raw=X: {PATH}"]}
    note = changed({"servers": {"x=touch harm": "0" * 64}, **variables})
    way(note)
    for command in (("resume", "last"), ("fork", "last", "--at", "2")):
        refused = loopkernel(*command)
        assert refused.status == 2
        assert "others may have recorded this run" in refused.err
    assert not Path("harm").exists()
    for again in ((*MODEL, *named), ()):
        assert loopkernel("resume", "last", *again).status == 0
    kept = json.loads(note.read_text())
    assert note.stat().st_mode & 0o777 == 0o600
    assert (kept["server_variables"], kept["server_headers"]) == ([], [])
    assert kept["model"] == MODEL[1]


def test_secrets_that_others_may_have_named_are_not_given(
    loopkernel: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "tweet-tweet")
    script(says("Done."))
    assert loopkernel("run", "go", *MODEL).status == 0
    note = changed({"secrets": {"x": "TOKEN"}, "base_url": "http://theirs"})
    assert loopkernel("resume", "last").status == 0
    cloned(note)
    assert loopkernel("resume", "last").status == 2
    assert loopkernel("resume", "last", *MODEL).status == 0
    kept = json.loads(note.read_text())
    assert (kept["secrets"], kept["base_url"]) == ({}, None)


def test_a_fork_is_ones_own_also_that_of_a_sub_agent(loopkernel: CommandLine) -> None:
    script(calls("delegate", prompt="look"), says("I looked."), says("Done."))
    begun = loopkernel("run", "go", *MODEL, "--sub-agents", "--json")
    (run,) = (str(told["run"]) for told in begun.objects_of("run"))
    runs = SqliteRuns(STORE)
    (child,) = (entry.run for entry in runs.entries() if entry.run != run)
    runs.close()
    for old in (run, child):
        assert loopkernel("fork", old, "--at", "2").status == 0
        assert loopkernel("resume", "last").status != ExitStatus.UNUSABLE  # a task says nothing that could end it well
