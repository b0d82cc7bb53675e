"""Threat T20 for the whole coding set: whatever the path, nothing outside is read, changed or waited for."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.blocks import text_of
from loopkernel.data.json_text import JsonValue
from loopkernel.data.tools import (
    AccessMode,
    Claim,
    Decision,
    EffectClass,
    FieldResource,
    InvalidCall,
    ToolProfile,
    ValidCall,
)
from loopkernel_adapters.ports import ToolError
from loopkernel_adapters.tools.coding import coding_tools
from loopkernel_adapters.tools.editing import edit
from loopkernel_adapters.tools.files import Workspace
from loopkernel_adapters.tools.paths import PROTECTED, PathRefused, canonical_path
from loopkernel_adapters.tools.processes import without_namespace
from loopkernel_adapters.tools.registry import FunctionTool, Registry

from tests.adapters.tools.tools_world import output, refused, told, verdict

CANARY = "the canary outside"
NAMES = st.sampled_from(
    ["a", "b.txt", "..", ".", "", "link", "file-link", "up", "pipe", ".git", ".env", "x" * 300, "\0", "\n", "-rf", "Ä"]
)
WALKS = st.sampled_from(["a", "b.txt", "..", ".", "link", "up", "outside", "workspace"])  # where a leak would lead
PATHS = st.one_of(
    st.lists(WALKS, min_size=1, max_size=4).map("/".join),
    st.lists(NAMES, max_size=5).map("/".join),
    st.lists(NAMES, max_size=4).map(lambda parts: "/" + "/".join(parts)),
    st.text(max_size=6),
)


def world(around: Path) -> Path:
    """A workspace with every trap, and canaries beside it."""
    (around / "outside").mkdir()
    (around / "outside" / "b.txt").write_text(CANARY)
    (around / "b.txt").write_text(CANARY)
    root = around / "workspace"
    (root / "a").mkdir(parents=True)
    (root / "b.txt").write_text("inside")
    (root / "a" / "b.txt").write_text("inside")
    (root / "link").symlink_to("../outside")
    (root / "file-link").symlink_to(around / "b.txt")
    (root / "a" / "up").symlink_to("../..")
    os.mkfifo(root / "pipe")
    (root / ".git").write_text(CANARY)
    (root / ".env").write_text("hidden")
    return root


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return world(tmp_path)


@pytest.fixture
def tools(folder: Path) -> Iterator[tuple[FunctionTool, ...]]:
    with Workspace(folder) as opened:
        yield coding_tools(opened, shell=False)


def calls(path: str) -> list[tuple[str, dict[str, JsonValue]]]:
    """Every file tool but grep, which starts a process, with that path."""
    return [
        ("read_file", {"path": path}),
        ("list_files", {"path": path}),
        ("glob", {"pattern": "**", "path": path}),
        ("edit_file", {"path": path, "old_text": "canary", "new_text": "bird"}),
        ("edit_file", {"path": path, "old_text": "inside", "new_text": "changed"}),
        ("write_file", {"path": path, "text": "changed"}),
    ]


@given(path=PATHS, dot_names=st.booleans())
def test_no_path_leads_outside(tmp_path_factory: pytest.TempPathFactory, path: str, dot_names: bool) -> None:
    around = tmp_path_factory.mktemp("confined")
    root = world(around)
    with Workspace(root, dot_names=dot_names) as workspace:
        tools = Registry(coding_tools(workspace, shell=False))
        for tool, given_input in calls(path):
            judged = verdict(tools, tool, **given_input)
            try:
                said = text_of(output(tools, tool, **given_input).content)
            except ToolError as error:
                said = str(error)
                assert said.isprintable()
            else:
                misspelled = isinstance(judged, InvalidCall) and "has another spelling" in judged.why
                assert misspelled or isinstance(judged, ValidCall), "what runs was judged to be valid"
            assert CANARY not in said
    for canary in ("outside/b.txt", "b.txt", "workspace/.git"):
        assert (around / canary).read_text() == CANARY
    assert sorted(os.listdir(around)) == ["b.txt", "outside", "workspace"]
    assert sorted(os.listdir(around / "outside")) == ["b.txt"]


def test_grep_sees_nothing_outside_either(tools: tuple[FunctionTool, ...]) -> None:
    assert told(tools, "grep", pattern="canary|inside") == "b.txt:1: inside\na/b.txt:1: inside"


def test_a_racing_exchange_of_a_folder_for_a_link_changes_nothing_outside(folder: Path) -> None:
    (folder / "real").mkdir()
    (folder / "real" / "b.txt").write_text("inside")
    (folder / "false").symlink_to("../outside")
    over = threading.Event()

    def exchange() -> None:
        while not over.is_set():
            for target in ("real", "false"):
                os.rename(folder / target, folder / "door")
                os.rename(folder / "door", folder / target)

    racer = threading.Thread(target=exchange)
    racer.start()
    written = 0
    try:
        with Workspace(folder) as workspace:
            for number in range(300):
                try:
                    workspace.write("door/b.txt", f"inside {number}", make_folders=False)
                    edit(workspace, "door/b.txt", "inside", "within")
                    written += 1
                except ToolError:
                    continue  # the door was closed, or a link, just then
    finally:
        over.set()
        racer.join()
    assert (folder.parent / "outside" / "b.txt").read_text() == CANARY
    assert os.listdir(folder.parent / "outside") == ["b.txt"]


def test_what_is_no_file_is_never_opened_for_long(tools: tuple[FunctionTool, ...], folder: Path) -> None:
    for path in ("pipe", "link/b.txt", "file-link", "a/up/b.txt"):
        for tool, given_input in calls(path)[:1] + calls(path)[3:]:
            assert "is, or lies in" in refused(tools, tool, **given_input)
    assert not [name for name in os.listdir(folder) if name.endswith(".writing")]


def test_the_other_name_of_a_file_outside_keeps_what_it_held(tools: tuple[FunctionTool, ...], folder: Path) -> None:
    os.link(folder.parent / "b.txt", folder / "hard.txt")
    told(tools, "edit_file", path="hard.txt", old_text="canary", new_text="bird")
    assert (folder / "hard.txt").read_text() == "the bird outside"
    assert (folder.parent / "b.txt").read_text() == CANARY


def test_a_name_that_is_no_utf_8_is_listed_and_not_opened(tools: tuple[FunctionTool, ...], folder: Path) -> None:
    os.close(os.open(os.fsencode(folder) + b"/bad\xff", os.O_CREAT | os.O_WRONLY))
    assert "bad\ufffd" in told(tools, "list_files").splitlines()
    assert "there is no" in refused(tools, "read_file", path="bad\ufffd")


def test_write_file_makes_the_folders_that_are_missing(tools: tuple[FunctionTool, ...], folder: Path) -> None:
    assert told(tools, "write_file", path="new/deep/file.txt", text="x") == 'Wrote "new/deep/file.txt", now 1 byte.'
    assert (folder / "new" / "deep" / "file.txt").read_text() == "x"
    assert "links are not followed" in refused(tools, "write_file", path="link/deep/file.txt", text="x")


def test_dot_names_can_be_opened_up_but_not_those_that_act(folder: Path) -> None:
    with Workspace(folder, dot_names=True) as workspace:
        tools = coding_tools(workspace, shell=False)
        assert told(tools, "read_file", path=".env") == "hidden"
        assert ".env" in told(tools, "list_files").splitlines()
        for name in (".git", ".GIT", ".loopkernel", "a/.git/config"):
            assert "hidden" in refused(tools, "write_file", path=name, text="x")
            assert isinstance(verdict(tools, "write_file", path=name, text="x"), InvalidCall)
        assert not PROTECTED & set(told(tools, "list_files").splitlines())


@pytest.mark.rule("TOOL-18")
def test_a_call_has_one_spelling_and_one_key(folder: Path) -> None:
    given_input: dict[str, JsonValue] = {"old_text": "x", "new_text": "y"}
    with Workspace(folder) as workspace:
        tools = coding_tools(workspace, shell=False)
        reads, writes = (workspace.named(Claim("a/b.txt", mode)) for mode in AccessMode)
        assert verdict(tools, "read_file", path="a/b.txt") == ValidCall((reads,))
        assert verdict(tools, "edit_file", path="a/b.txt", **given_input) == ValidCall((writes,))
        for path in ("./a//b.txt", "a/./b.txt"):
            refused = InvalidCall(f'"{path}" has another spelling; write it as "a/b.txt"')
            edited = verdict(tools, "edit_file", path=path, **given_input)
            assert verdict(tools, "read_file", path=path) == edited == refused
        whole, below = (workspace.named(Claim(key, AccessMode.READ, tree=True)) for key in (".", "a"))
        assert verdict(tools, "grep", pattern="x") == verdict(tools, "list_files") == ValidCall((whole,))
        assert verdict(tools, "glob", pattern="x", path="a") == ValidCall((below,))


@pytest.mark.rule("ASK-1")
def test_a_claim_is_named_by_its_absolute_paths_too(folder: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(folder)
    with Workspace(link) as workspace:
        claim = workspace.named(Claim("a/b.txt", AccessMode.READ))
        assert claim.also == (f"{link}/a/b.txt", f"{os.path.realpath(folder)}/a/b.txt")
        assert workspace.named(Claim(".", AccessMode.READ)).also == (str(link), os.path.realpath(folder))


@pytest.mark.rule("TOOL-18")
def test_where_case_does_not_count_two_spellings_have_one_key(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    look = os.stat

    def ignoring_case(path: str, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> os.stat_result:
        return look(str(path).lower(), dir_fd=dir_fd, follow_symlinks=follow_symlinks)

    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", ignoring_case)
        with Workspace(folder) as workspace:
            assert workspace.key("A/STRASSE") == workspace.key("a/straße") == "a/strasse"
            assert workspace.key("e\u0301") == workspace.key("\u00e9")
    with Workspace(folder) as workspace:
        assert workspace.key("A/b") == "A/b"


@pytest.mark.rule("TOOL-1")
def test_the_profiles_are_true(folder: Path) -> None:
    with Workspace(folder) as workspace:
        tools = coding_tools(workspace, confined=without_namespace())
        trusted = coding_tools(workspace, shell=False, approval=Decision.ALLOW)
    profiles = {entry.tool.name: entry.tool.profile or ToolProfile() for entry in tools}
    reads = (FieldResource("path", AccessMode.READ),)
    searches = (FieldResource("path", AccessMode.READ, tree=True),)
    writes = (FieldResource("path", AccessMode.WRITE),)
    assert {name: (found.effect, found.approval, found.resources) for name, found in profiles.items()} == {
        "read_file": (EffectClass.READ_ONLY, Decision.ALLOW, reads),
        "write_file": (EffectClass.IDEMPOTENT, Decision.ASK, writes),
        "edit_file": (EffectClass.DANGEROUS, Decision.ASK, writes),
        "list_files": (EffectClass.READ_ONLY, Decision.ALLOW, searches),
        "glob": (EffectClass.READ_ONLY, Decision.ALLOW, searches),
        "grep": (EffectClass.READ_ONLY, Decision.ALLOW, searches),
        "shell": (EffectClass.DANGEROUS, Decision.ASK, ()),
    }
    assert [name for name, found in profiles.items() if found.serial] == ["shell"]
    assert {name: found.commands for name, found in profiles.items() if found.commands} == {"shell": ("command",)}
    assert {entry.tool.profile.approval for entry in trusted if entry.tool.profile} == {Decision.ALLOW}


@given(PATHS)
def test_a_path_of_dot_names_stays_within_as_well(path: str) -> None:
    try:
        canonical = canonical_path(path, dot_names=True)
    except PathRefused:
        return
    assert canonical_path(canonical, dot_names=True) == canonical
    assert not {"..", *PROTECTED} & set(canonical.split("/"))
    assert not canonical.startswith("/")
