"""The file tools as they write: whole files or none, nothing outside the workspace, nothing under another name."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.json_text import safe_text
from loopkernel_adapters.ports import ToolError
from loopkernel_adapters.tools.files import MOST_WRITTEN, Workspace

KEPT = "what was there"
PARTS = st.sampled_from(["a", "b.txt", "..", ".", "", ".hidden", "Ä", "x" * 300, "\0", "\n"])
PATHS = st.one_of(
    st.lists(PARTS, max_size=4).map("/".join),
    st.lists(PARTS, max_size=4).map(lambda parts: "/" + "/".join(parts)),
    st.text(max_size=5),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A workspace with a file in it, and another file beside it."""
    (tmp_path / "outside.txt").write_text(KEPT)
    root = tmp_path / "workspace"
    (root / "inner").mkdir(parents=True)
    (root / "notes.txt").write_text(KEPT)
    return root


@pytest.fixture
def workspace(folder: Path) -> Iterator[Workspace]:
    with Workspace(folder) as opened:
        yield opened


def all_files(folder: Path) -> dict[str, bytes]:
    """What every file below the folder holds."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def size_of(text: str) -> str:
    """How a file of the text is told to be large."""
    size = len(safe_text(text).encode())
    return "1 byte" if size == 1 else f"{size} bytes"


@given(st.text(), st.text())
def test_a_file_holds_what_was_written_last(tmp_path_factory: pytest.TempPathFactory, first: str, second: str) -> None:
    root = tmp_path_factory.mktemp("written")
    with Workspace(root) as workspace:
        assert workspace.write("a", first) == f'Wrote "a", now {size_of(first)}.'
        assert workspace.write("./a", second) == f'Replaced "a", now {size_of(second)}.'
    assert all_files(root) == {"a": safe_text(second).encode()}


@given(PATHS)
def test_whatever_the_path_nothing_outside_the_workspace_is_written(
    tmp_path_factory: pytest.TempPathFactory, path: str
) -> None:
    around = tmp_path_factory.mktemp("property")
    root = around / "workspace"
    (root / "a").mkdir(parents=True)
    (around / "b.txt").write_text(KEPT)
    with Workspace(root) as workspace:
        try:
            workspace.write(path, "new")
        except ToolError as error:
            assert str(error).isprintable()
            assert all_files(root) == {}
        else:
            assert list(all_files(root).values()) == [b"new"]
    assert {name: held for name, held in all_files(around).items() if not name.startswith("workspace/")} == {
        "b.txt": KEPT.encode()
    }


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("inner", "is, or lies in, a folder"),
        (".", "is, or lies in, a folder"),
        ("link.txt", "links are not followed"),
        ("linked/new.txt", "links are not followed"),
        ("pipe", "neither a file nor a folder"),
        ("absent/new.txt", "there is no"),
        ("notes.txt/new.txt", "a file"),
        (".hidden", "hidden"),
    ],
)
def test_what_is_no_place_for_a_file_is_refused_and_left_as_it_is(
    workspace: Workspace, folder: Path, path: str, why: str
) -> None:
    (folder / "link.txt").symlink_to(folder.parent / "outside.txt")
    (folder / "linked").symlink_to(folder.parent)
    os.mkfifo(folder / "pipe")
    before = all_files(folder.parent)
    with pytest.raises(ToolError, match=why):
        workspace.write(path, "new")
    assert all_files(folder.parent) == before
    assert sorted(entry.name for entry in folder.iterdir()) == ["inner", "link.txt", "linked", "notes.txt", "pipe"]


def test_the_other_name_of_a_hard_link_keeps_what_it_held(workspace: Workspace, folder: Path) -> None:
    os.link(folder.parent / "outside.txt", folder / "again.txt")
    workspace.write("again.txt", "new")
    assert (folder.parent / "outside.txt").read_text() == KEPT


def test_a_replaced_file_keeps_its_permissions(workspace: Workspace, folder: Path) -> None:
    (folder / "notes.txt").chmod(0o750)
    workspace.write("notes.txt", "new")
    assert stat.S_IMODE((folder / "notes.txt").stat().st_mode) == 0o750


@pytest.mark.parametrize("call", ["fchmod", "fsync", "rename"])
def test_a_write_that_fails_leaves_the_file_as_it_was(
    workspace: Workspace, folder: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, call, fails)
        with pytest.raises(ToolError, match=r'"notes\.txt" cannot be written: No space left on device'):
            workspace.write("notes.txt", "new")
    assert all_files(folder) == {"notes.txt": KEPT.encode()}


def test_too_much_for_one_file_is_refused(workspace: Workspace, folder: Path) -> None:
    workspace.write("most.txt", "x" * MOST_WRITTEN)
    with pytest.raises(ToolError, match=f"write at most {MOST_WRITTEN}"):
        workspace.write("notes.txt", "x" * (MOST_WRITTEN + 1))
    assert (folder / "notes.txt").read_text() == KEPT


def test_a_closed_workspace_is_not_written(folder: Path) -> None:
    workspace = Workspace(folder)
    workspace.close()
    with pytest.raises(ToolError, match="closed"):
        workspace.write("notes.txt", "new")
