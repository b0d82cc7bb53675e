"""Long outputs in files: all of an output is there, without secrets; whatever is in the way leaves head and tail."""

import asyncio
import os
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import example, given
from hypothesis import strategies as st
from loopkernel import Json
from loopkernel.data.blocks import TextBlock, text_of
from loopkernel.data.choices import ApprovalMode, Oversize
from loopkernel.data.events import ToolEnded
from loopkernel.data.policy import ROOM_FOR_PATH, ResultLimit
from loopkernel.loop.algorithms.shortening import shortened
from loopkernel.policy import preset
from loopkernel_adapters import Agent, ScriptedProvider, call_reply, text_reply
from loopkernel_adapters.bounded_text import in_force
from loopkernel_adapters.ports import ToolError
from loopkernel_adapters.secrets import Secrets
from loopkernel_adapters.tools import spilling
from loopkernel_adapters.tools.coding import coding_tools
from loopkernel_adapters.tools.files import Workspace
from loopkernel_adapters.tools.registry import Registry
from loopkernel_adapters.tools.shell import Shell
from loopkernel_adapters.tools.spilling import FOLDER, OutputFile, SpillingCapture

from tests.adapters.driver.driver_world import descriptors
from tests.adapters.tools.tools_world import Listener, soon_here, started

pytestmark = pytest.mark.rule("TOOL-11")

LIMIT = ResultLimit(chars=2_000, head=100, tail=100, oversize=Oversize.SPILL, preview=20)
LONG = "for number in $(seq 1000); do echo line $number; done"
WRITTEN = "".join(f"line {number}\n" for number in range(1, 1001))


# Long ones too, of few and of many bytes a character, and such as are cut within one.
PIECES = st.builds(
    lambda piece, times, cut: (piece * times)[cut:],
    st.one_of(st.binary(max_size=9), st.text(max_size=9).map(str.encode), st.just("\U0001f600".encode())),
    st.integers(0, 600),
    st.integers(0, 3),
)


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    with Workspace(tmp_path) as opened:
        yield opened


def ran(workspace: Workspace, command: str = LONG, limit: ResultLimit = LIMIT, key: str = "k") -> str:
    """What the shell gives back of a command."""
    tools = Registry([Shell(workspace).tool()])
    run = tools.run(started("shell", command=command), Listener(limit, key))
    return text_of(asyncio.run(run).content)


def files_in(folder: Path) -> list[Path]:
    """The outputs that are there, and what may be left of one that is not."""
    return sorted(path for path in (folder / FOLDER).iterdir() if path.name != ".gitignore")


@pytest.mark.parametrize("beyond", [0, 1])
def test_an_output_beyond_the_limit_goes_to_a_file_and_its_ends_are_shown(
    workspace: Workspace, tmp_path: Path, beyond: int
) -> None:
    said = ran(workspace, f"head -c {LIMIT.chars + beyond} /dev/zero | tr '\\0' x")
    if not beyond:
        assert said == "x" * LIMIT.chars
        assert not (tmp_path / FOLDER).exists()
        return
    (file,) = files_in(tmp_path)
    assert file.read_text() == "x" * (LIMIT.chars + 1)
    first, note, last = said.split("\n")
    assert (first, last) == ("x" * LIMIT.preview, "x" * LIMIT.preview)
    path = file.relative_to(tmp_path)
    assert note.startswith(f"(The output has 2,001 characters, 2,001 bytes; all of it is in {path}. ")


@given(
    pieces=st.lists(PIECES, max_size=4),
    preview=st.integers(0, 60),
    more=st.integers(0, 30),
    ends=st.integers(0, 40),
)
@example(pieces=[b"x" * ROOM_FOR_PATH, b"\xf0"], preview=0, more=0, ends=0)
def test_nothing_is_lost_and_what_is_shown_is_not_cut_again(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], preview: int, more: int, ends: int
) -> None:
    limit = ResultLimit(
        chars=2 * preview + ROOM_FOR_PATH + more, head=1, tail=1, oversize=Oversize.SPILL, preview=preview
    )
    content = b"".join(pieces)
    folder = tmp_path_factory.mktemp("workspace")
    with Workspace(folder) as workspace, closing(OutputFile(workspace, "k")) as file:
        capture = SpillingCapture(limit, file, ends, ends)
        for piece in pieces:
            capture.add(piece)
        capture.end()
        file.keep()
        said = capture.text()
    whole = content.decode("utf-8", "replace")
    assert shortened((TextBlock(said),), limit) == (TextBlock(said),)
    if len(whole) <= limit.chars:
        assert (said, (folder / FOLDER).exists()) == (whole, False)
    else:
        assert files_in(folder)[0].read_bytes() == content
        begin, end = whole[:preview], whole[len(whole) - preview :]
        assert said.startswith(f"{begin}\n(The output has {len(whole):,} characters, {len(content):,} bytes; ")
        assert said.endswith(f"\n{end}")


@pytest.mark.rule("TOOL-12")
@given(st.integers(1, 30), st.integers(0, 400))
def test_no_secret_gets_into_the_file(tmp_path_factory: pytest.TempPathFactory, size: int, before: int) -> None:
    value = "a-value-that-nobody-sees"
    content = ("x" * before + value) * 100
    folder = tmp_path_factory.mktemp("workspace")
    secrets = Secrets({"KEY": value})
    with in_force(secrets), Workspace(folder) as workspace, closing(OutputFile(workspace, "k")) as file:
        capture = SpillingCapture(
            ResultLimit(chars=1_000, head=0, tail=0, oversize=Oversize.SPILL, preview=0), file, 9, 9
        )
        for place in range(0, len(content), size):
            capture.add(content[place : place + size].encode())
        capture.end()
        file.keep()
    (kept,) = files_in(folder)
    assert kept.read_text() == secrets.hide(content)


def test_the_model_reads_the_file_with_its_own_tool_under_the_preset(tmp_path: Path) -> None:
    replies = [call_reply(("shell", Json.of({"command": "seq 10000"}))), text_reply("long")]
    policy = evolve(preset("claude"), approval_mode=ApprovalMode.BYPASS)
    ended: list[ToolEnded] = []
    with Workspace(tmp_path) as workspace:
        agent = Agent(
            ScriptedProvider(replies),
            coding_tools(workspace),
            policy=policy,
            observers=(lambda event: ended.append(event) if isinstance(event, ToolEnded) else None,),
        )
        agent.run_sync("go")
        (file,) = files_in(tmp_path)
        said = text_of(ended[0].result.content)
        path = str(file.relative_to(tmp_path))
        assert f"all of it is in {path}" in said
        assert said.startswith("1\n2\n3\n")
        assert said.endswith("9999\n10000\n")
        read = asyncio.run(
            Registry(coding_tools(workspace)).run(
                started("read_file", path=path, first_line=5_000, lines=2), Listener()
            )
        )
    assert "5000" in text_of(read.content)


def test_a_run_that_is_repeated_leaves_one_file_and_another_call_has_its_own(
    workspace: Workspace, tmp_path: Path
) -> None:
    ran(workspace)
    ran(workspace, f"{LONG}; echo again")
    (file,) = files_in(tmp_path)
    assert file.read_text() == f"{WRITTEN}again\n"
    ran(workspace, key="another")
    assert len(files_in(tmp_path)) == 2


def test_a_failing_command_has_a_file_as_well(workspace: Workspace, tmp_path: Path) -> None:
    assert ran(workspace, f"{LONG}; exit 3").endswith("line 1000\n(exit status 3)")
    assert files_in(tmp_path)[0].read_text() == WRITTEN
    tools, listener = Registry([Shell(workspace).tool()]), Listener(LIMIT, "late")
    late = started("shell", command=f"{LONG}; exec sleep 1000", timeout_ms=1_500)
    with pytest.raises(ToolError, match=f"all of it is in {FOLDER}/"):
        asyncio.run(tools.run(late, listener))


def test_what_is_there_is_the_users_alone_and_not_for_git(workspace: Workspace, tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        ran(workspace)
    finally:
        os.umask(before)
    (file,) = files_in(tmp_path)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / FOLDER, file)]
    assert modes == [0o700, 0o600]
    assert (tmp_path / FOLDER / ".gitignore").read_text() == "*\n"


def test_a_folder_of_the_user_is_taken_as_it_is(workspace: Workspace, tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    ran(workspace)
    assert len(files_in(tmp_path)) == 1
    assert not (tmp_path / FOLDER / ".gitignore").exists()


def demand_head_and_tail(said: str, why: str) -> None:
    """The result is what it would be without a file, and says why there is none."""
    assert said.startswith("line 1\n")
    note = said.splitlines()[-1]
    assert note.startswith("(The output could not be kept in a file: ")
    assert why in note
    assert "line 1000\n" in said


def test_no_link_is_followed(workspace: Workspace, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (tmp_path / FOLDER).symlink_to(elsewhere)
    demand_head_and_tail(ran(workspace), "links are not followed")
    assert list(elsewhere.iterdir()) == []
    (tmp_path / FOLDER).unlink()
    ran(workspace)
    (file,) = files_in(tmp_path)
    file.unlink()
    (elsewhere / "theirs").write_text("theirs")
    file.symlink_to(elsewhere / "theirs")
    ran(workspace)
    assert (file.is_symlink(), file.read_text()) == (False, WRITTEN)
    assert (elsewhere / "theirs").read_text() == "theirs"


@pytest.mark.parametrize("at", ["the folder", "the file"])
def test_what_stands_in_the_place_is_left_alone(workspace: Workspace, tmp_path: Path, at: str) -> None:
    if at == "the folder":
        (tmp_path / FOLDER).write_text("mine")
        demand_head_and_tail(ran(workspace), "a folder is needed here")
        assert (tmp_path / FOLDER).read_text() == "mine"
        return
    ran(workspace)
    (file,) = files_in(tmp_path)
    file.unlink()
    file.mkdir()
    demand_head_and_tail(ran(workspace), "cannot be written")
    assert files_in(tmp_path) == [file]


def test_a_file_and_the_folder_are_bounded(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spilling, "MOST_OF_ONE", 5_000)
    monkeypatch.setattr(spilling, "MOST_OF_ALL", 12_000)
    said = ran(workspace)
    (file,) = files_in(tmp_path)
    assert file.read_text() == WRITTEN[:5_000]
    assert f"its first 5,000 bytes are in {FOLDER}/" in said
    ran(workspace, key="b")
    demand_head_and_tail(ran(workspace, key="c"), f"{FOLDER} holds 10,002 bytes already")
    assert len(files_in(tmp_path)) == 2
    monkeypatch.setattr(spilling, "MOST_FILES", 2)
    demand_head_and_tail(ran(workspace, key="c"), f"{FOLDER} holds more than 2 files")


def test_a_run_that_is_aborted_leaves_nothing(workspace: Workspace, tmp_path: Path) -> None:
    before = descriptors()

    async def run() -> None:
        listener = Listener(LIMIT)
        command = started("shell", command=f"{LONG}; touch begun; exec sleep 1000")
        running = asyncio.create_task(Registry([Shell(workspace).tool()]).run(command, listener))
        assert await soon_here(lambda: (tmp_path / FOLDER).exists() and files_in(tmp_path))
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(run())
    assert files_in(tmp_path) == []
    assert descriptors() == before
