"""check_tools: every tools of this project passes, and each broken duty is caught and named."""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

import pytest
from attrs import evolve
from loopkernel.data.effects import CheckCall, StartTool
from loopkernel.data.tools import ToolOutput, Verdict
from loopkernel_adapters.ports import RunContext
from loopkernel_adapters.testing import tools_check as checks
from loopkernel_adapters.testing.tools_check import EndlessCall, ToolsTrial, check_tools
from loopkernel_adapters.tools.coding import coding_tools
from loopkernel_adapters.tools.delegation import delegate_tool
from loopkernel_adapters.tools.files import FileTools, Workspace
from loopkernel_adapters.tools.functions import tool
from loopkernel_adapters.tools.processes import Confined, strongest_confinement, without_namespace
from loopkernel_adapters.tools.registry import Registry
from typing_extensions import override

from tests.adapters.tools.broken_tools import (
    Broken,
    EndsBeforeItsTask,
    EndsBySelf,
    FailsWhereItShouldNot,
    FailsWithAFlood,
    FailsWithoutAWord,
    Floods,
    FloodsWithImages,
    HoldsTheLoopForEver,
    HoldsTheLoopUp,
    JudgesInThreads,
    KnowsEverything,
    LeavesADescriptor,
    LeavesAProcess,
    LeavesATask,
    LeavesAThread,
    LetsEverythingPass,
    NamesNothing,
    NamesWhatItTouchesAsItIsWritten,
    OthersEachTime,
    RaisesAnything,
    RefusesWhatFits,
    RefusesWhatIsNotThereYet,
    RefusesWithItsKey,
    RefusesWithoutAWord,
    ReturnsText,
    SchemaOfText,
    SlowToJudge,
    SpeaksFromAThread,
    SwallowsItsAbort,
    TalksToProgrammers,
    TellsItsKey,
    TwoOfOneName,
    sound,
)
from tests.adapters.tools.test_searching import CATASTROPHE
from tests.adapters.tools.test_shell import DEAF

# --- the tools of this project keep the duties --------------------------------------------------------


@contextmanager
def coding_trial(folder: Path, confined: Confined) -> Iterator[ToolsTrial]:
    """The set of a coding agent, in a workspace of its own."""
    (folder / "notes.txt").write_text("one\ntwo\n")
    (folder / "trap.txt").write_text("a" * 60 + "b")
    marker = f"marker-{os.getpid()}-{folder.name}"
    begun = folder / marker
    begun.unlink(missing_ok=True)
    deaf = DEAF.format(python=sys.executable, folder=folder, marker=marker)
    with Workspace(folder) as workspace:
        yield ToolsTrial(
            tools=Registry(coding_tools(workspace, confined=confined)),
            valid=(
                ("read_file", {"path": "notes.txt"}),
                ("write_file", {"path": "notes.txt", "text": "one\nthree\n"}),
                ("edit_file", {"path": "notes.txt", "old_text": "three", "new_text": "two"}),
                ("list_files", {}),
                ("glob", {"pattern": "**"}),
                ("grep", {"pattern": "one"}),
                ("shell", {"command": "yes | head -c 3000000"}),
            ),
            invalid=(
                ("read_file", {}),
                ("read_file", {"path": "../x"}),
                ("read_file", {"path": "notes.txt", "first_line": 0}),
                ("shell", {"command": 3}),
            ),
            failing=(
                ("read_file", {"path": "absent"}),
                ("edit_file", {"path": "notes.txt", "old_text": "absent", "new_text": "x"}),
                ("grep", {"pattern": "("}),
                ("shell", {"command": "sleep 100", "timeout_ms": 1}),
            ),
            endless=(
                EndlessCall(call=("grep", {"pattern": CATASTROPHE})),
                EndlessCall(
                    call=("shell", {"command": f"setsid --wait {deaf[5:]}"}), begun=begun.exists, marker=marker
                ),
            ),
            watched=(folder,),
        )


@pytest.mark.parametrize("confined", [strongest_confinement(), without_namespace()])
def test_the_coding_set_keeps_the_duties(tmp_path: Path, confined: Confined) -> None:
    check_tools(lambda: coding_trial(tmp_path, confined))


def test_the_file_tools_keep_the_duties(tmp_path: Path) -> None:
    @contextmanager
    def trial() -> Iterator[ToolsTrial]:
        (tmp_path / "notes.txt").write_text("one")
        with Workspace(tmp_path) as workspace:
            yield ToolsTrial(
                tools=Registry((*FileTools(workspace).all(), delegate_tool())),
                valid=(
                    ("read_file", {"path": "notes.txt"}),
                    ("list_files", {}),
                    ("write_file", {"path": "x", "text": ""}),
                ),
                invalid=(("read_file", {}), ("delegate", {"prompt": 1})),
                failing=(("read_file", {"path": "absent"}), ("delegate", {"prompt": "x"})),
                watched=(tmp_path,),
            )

    check_tools(trial)


def test_tools_of_typed_functions_keep_the_duties() -> None:
    assert check_tools(lambda: sound()) == (
        "not tried: whether a check changes something (duty 2): give the folder of the tools in `watched`",
    )


# --- and what was not tried is told -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("without", "untried"),
    [
        (
            lambda trial: evolve(trial, valid=()),
            (
                "not run: add: give a call of it in `valid`, `failing` or `endless`",
                "not tried: what a call gives that succeeds (duties 3, 9 and 11): give one in `valid`",
            ),
        ),
        (
            lambda trial: evolve(trial, failing=()),
            (
                "not run: fails: give a call of it in `valid`, `failing` or `endless`",
                "not tried: how a tool fails (duties 4 and 11): give a call that fails in `failing`",
            ),
        ),
        (
            lambda trial: evolve(trial, endless=()),
            (
                "not run: waits: give a call of it in `valid`, `failing` or `endless`",
                "not tried: an abort (duty 8): give a call that does not end in `endless`",
            ),
        ),
        (
            lambda trial: evolve(trial, invalid=()),
            ("not tried: whether a tool refuses what does not fit it (duty 2): give such a call in `invalid`",),
        ),
        (
            lambda trial: evolve(trial, alike=()),
            ("not tried: whether calls that touch the same have a key in common (duty 2): give two in `alike`",),
        ),
        (
            lambda trial: evolve(trial, keys=()),
            ("not tried: whether a key is given away (duty 12): give those of the tools in `keys`",),
        ),
        (lambda trial: trial, ()),
    ],
)
def test_what_there_is_no_sample_for_is_told_with_what_to_give(
    without: Callable[[ToolsTrial], ToolsTrial], untried: tuple[str, ...]
) -> None:
    with sound() as trial:
        tried = without(evolve(trial, watched=(Path(__file__),)))
    assert check_tools(lambda: nullcontext(tried)) == untried


def test_a_tool_that_no_sample_calls_is_told_of() -> None:
    @tool
    def raises(one: int) -> int:
        """Raise whatever is asked."""
        raise LookupError(one)

    untried = check_tools(lambda: nullcontext(ToolsTrial(tools=Registry([raises]))))
    assert untried[0] == "not run: raises: give a call of it in `valid`, `failing` or `endless`"
    assert len(untried) == 8


# --- and each broken one is caught --------------------------------------------------------------------


@pytest.fixture
def short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not kept at once is not kept: nobody waits for the whole grace here."""
    monkeypatch.setattr(checks, "GRACE_SECONDS", 0.1)


@pytest.mark.usefixtures("short_grace")
@pytest.mark.parametrize(
    ("broken", "seen"),
    [
        (TwoOfOneName, "tools 1: two tools are named add"),
        (SchemaOfText, "tools 1: the input schema of more is not an object"),
        (OthersEachTime, "tools 1: other tools are offered"),
        (KnowsEverything, "tools 2: a call of a tool that is not there"),
        (LetsEverythingPass, r"tools 2: the call add\(\[\]\) does not fit, and is Valid"),
        (RefusesWithoutAWord, "tools 2: .* is said without a reason"),
        (TalksToProgrammers, "tools 2: .* is for programmers"),
        (RefusesWhatIsNotThereYet, "tools 2: .* which may yet fit"),
        (RefusesWhatFits, "tools 2: the valid call add"),
        (SlowToJudge, "tools 2: the check of add.* takes"),
        (JudgesInThreads, "tools 2: a check has left the thread"),
        (ReturnsText, "tools 3: add.* returned a str"),
        (RaisesAnything, "tools 4: .* gave LookupError"),
        (FailsWithoutAWord, "tools 4: .* fails without a word"),
        (FailsWhereItShouldNot, "tools 4: the valid call add.* raised"),
        (Floods, "tools 11: add.* returned 1001000 characters"),
        (FloodsWithImages, "tools 11: add.* of media"),
        (FailsWithAFlood, "tools 11: .* fails with"),
        (LeavesAThread, "tools 9: when add.* had ended, there was still the thread left behind"),
        (EndsBeforeItsTask, "tools 9: when add.* had ended, there was still 1 of its tasks"),
        (LeavesADescriptor, "tools 9: when add.* had ended, there was still 1 open descriptors"),
        (LeavesAProcess, "tools 9: when add.* had ended, there was still the child process"),
        (SpeaksFromAThread, "tools 9: add.* used its context from another thread"),
        (EndsBySelf, "tools 8: waits.* was to be endless, and has ended"),
        (SwallowsItsAbort, "tools 8: waits.* had not stopped"),
        (LeavesATask, "tools 9: when waits.* had stopped, there was still 1 of its tasks"),
        (TellsItsKey, r"tools 12: key 1 shows in what there-is.* gave: ToolError.*key=\*\*\* failed"),
        (RefusesWithItsKey, r"tools 12: key 1 shows in what add.* gave: InvalidCall"),
        (NamesWhatItTouchesAsItIsWritten, "tools 2: add.* and add.* touch the same, and their keys are"),
        (NamesNothing, r"tools 2: add.* touch the same, and their keys are \[\] and \[\]"),
    ],
)
def test_a_broken_duty_is_caught_and_named(broken: Callable[[], Broken], seen: str) -> None:
    tools = broken()

    def trial() -> AbstractContextManager[ToolsTrial]:
        return nullcontext(evolve(tools.trial, tools=tools))

    try:
        with pytest.raises(AssertionError, match=seen):
            check_tools(trial)
    finally:
        for kept in tools.kept:
            let_go(kept)


@pytest.mark.usefixtures("short_grace")
def test_a_run_that_holds_the_loop_up_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "HELD_UP_SECONDS", 0.1)
    tools = HoldsTheLoopUp()
    with pytest.raises(AssertionError, match=r"tools 9: add.* holds the event loop up for \d\.\d s\n    Due is"):
        check_tools(lambda: nullcontext(evolve(tools.trial, tools=tools)))


@pytest.mark.usefixtures("short_grace")
def test_a_run_that_never_lets_the_loop_go_is_caught_and_said_where(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_DUTIES", ((9, checks._stops),))
    tools = HoldsTheLoopForEver()
    try:
        with pytest.raises(
            AssertionError, match=r"tools 9: after 0\.5 s it has .* broken_tools\.py:\d+, in run\n    Due is"
        ):
            check_tools(lambda: nullcontext(evolve(tools.trial, tools=tools)), patience_seconds=0.5)
    finally:
        for kept in tools.kept:
            let_go(kept)


def let_go(kept: object) -> None:
    """Take away what a broken tool has left."""
    match kept:
        case threading.Event():
            kept.set()
        case socket.socket():
            kept.close()
        case subprocess.Popen():
            kept.kill()
            kept.wait()
        case _:
            return


@pytest.mark.usefixtures("short_grace")
def test_a_check_that_changes_what_it_looks_at_is_caught(tmp_path: Path) -> None:
    class Notes(Broken):
        @override
        def check(self, command: CheckCall) -> Verdict:
            (tmp_path / "notes.txt").write_text(command.tool)
            return super().check(command)

    tools = Notes()

    @contextmanager
    def trial() -> Iterator[ToolsTrial]:
        (tmp_path / "notes.txt").write_text("")
        yield evolve(tools.trial, tools=tools, watched=(tmp_path,))

    with pytest.raises(AssertionError, match="tools 2: a check has changed what it looked at"):
        check_tools(trial)


@pytest.mark.usefixtures("short_grace")
def test_a_process_that_has_left_its_parent_is_caught(tmp_path: Path) -> None:
    marker = f"marker-{os.getpid()}-{tmp_path.name}"

    class Forgets(Broken):
        @override
        async def run(self, command: StartTool, context: RunContext) -> ToolOutput:
            if command.tool == "waits" and not self.kept:
                deaf = DEAF.format(python=sys.executable, folder=tmp_path, marker=marker)
                script = f"(setsid {deaf[5:]}) > /dev/null &"
                self.kept.append(subprocess.run(["/bin/sh", "-c", script], stdout=subprocess.DEVNULL, check=True))
            return await super().run(command, context)

    tools = Forgets()

    @contextmanager
    def trial() -> Iterator[ToolsTrial]:
        endless = EndlessCall(call=("waits", {}), begun=(tmp_path / marker).exists, marker=marker)
        yield evolve(tools.trial, tools=tools, endless=(endless,))

    try:
        with pytest.raises(AssertionError, match=r"tools 9: when waits.* there was still the process"):
            check_tools(trial)
    finally:
        for process in checks._marked(marker):
            os.kill(process, 9)
