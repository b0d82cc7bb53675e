"""Threats T10 and T21: a command's output is bounded while it is read, and nothing of a command outlives it."""

import asyncio
import gc
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from loopkernel.data.blocks import text_of
from loopkernel.data.tools import Decision, EffectClass, InvalidCall, ToolProfile, ValidCall
from loopkernel_adapters.ports import ToolError
from loopkernel_adapters.tools import processes
from loopkernel_adapters.tools.files import Workspace
from loopkernel_adapters.tools.processes import (
    Confined,
    Confinement,
    strongest_confinement,
    without_namespace,
)
from loopkernel_adapters.tools.registry import FunctionTool, Registry
from loopkernel_adapters.tools.shell import HEAD_BYTES, TAIL_BYTES, Shell, clean_environment, exit_words

from tests.adapters.driver.driver_world import child_processes, descriptors
from tests.adapters.tools.tools_world import (
    Listener,
    children_with,
    processes_with,
    refused,
    soon,
    soon_here,
    started,
    told,
    verdict,
)

# Each has the marker in its command line, and none ends by itself.
WAITS = "exec {python} -c 'import signal, threading; threading.Event().wait()' {marker}"
DEAF = (
    "exec {python} -c 'import signal, sys, threading; [signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]; "
    'open(sys.argv[1] + sys.argv[2], "w"); threading.Event().wait()\' {folder}/ {marker}'
)
ORPHANS = {
    "a child": "({deaf})",
    "in a session of its own": "setsid sh -c '{deaf_quoted}' & wait",
    "double fork": "(setsid sh -c '{deaf_quoted}' & ) ; read x < gate",
}


@pytest.fixture(params=["strongest", "without a namespace"])
def confined(request: pytest.FixtureRequest) -> Confined:
    """How commands are held together: as well as this system allows, and without a namespace."""
    return strongest_confinement() if request.param == "strongest" else without_namespace()


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    with Workspace(tmp_path) as opened:
        yield opened


@pytest.fixture
def tools(workspace: Workspace, confined: Confined) -> tuple[FunctionTool, ...]:
    return (Shell(workspace, {"GIVEN": "given"}, confined).tool(),)


@pytest.fixture
def marker(tmp_path: Path) -> str:
    """A word that is in the command line of this test's processes, and of no others."""
    return f"marker-{os.getpid()}-{tmp_path.name}"


def test_a_command_is_told_with_its_output_and_its_status(tools: tuple[FunctionTool, ...], tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("buy milk\n")
    script = "cat notes.txt; echo first; echo second >&2; echo third"
    assert told(tools, "shell", command=script) == "buy milk\nfirst\nsecond\nthird\n"
    assert told(tools, "shell", command="true") == "(no output)"
    assert told(tools, "shell", command="echo x; exit 3") == "x\n(exit status 3)"
    assert told(tools, "shell", command="exec 2>/dev/null; kill -KILL $$").endswith(
        "(exit status 137: ended by SIGKILL)"
    )
    assert "not found" in told(tools, "shell", command="there-is-no-such-program")
    assert "U+FFFD" not in told(tools, "shell", command=r"printf '\377'")


def test_a_command_sees_a_clean_world(tools: tuple[FunctionTool, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "a secret")
    monkeypatch.setenv("LC_ALL", "C")
    seen = told(tools, "shell", command="env; ls -l /proc/self/fd; cat; tty; trap")
    assert "a secret" not in seen
    assert {"GIVEN=given", "TERM=dumb", "LC_ALL=C"} <= set(seen.splitlines())
    assert "0 -> /dev/null" in seen
    # 0, 1, 2, and what ls opens to see them
    assert len([line for line in seen.splitlines() if " -> " in line and "/fd" in line]) <= 1
    assert clean_environment({"PATH": "/bin", "TOKEN": "x"})["PATH"] == "/bin"
    assert "TOKEN" not in clean_environment({"PATH": "/bin", "TOKEN": "x"})
    assert told(tools, "shell", command="kill -PIPE $$; echo not reached").startswith("(exit status 141")


def test_a_workspace_that_was_moved_is_still_the_folder_of_commands(
    workspace: Workspace, tmp_path: Path, confined: Confined
) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    with Workspace(inner) as moved:
        inner.rename(tmp_path / "elsewhere")
        inner.mkdir()
        assert told((Shell(moved, confined=confined).tool(),), "shell", command="touch made") == "(no output)"
    assert os.listdir(tmp_path / "elsewhere") == ["made"]


@pytest.mark.rule("TOOL-11")
def test_an_endless_output_is_bounded_while_it_is_read(tools: tuple[FunctionTool, ...]) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    listener = Listener()

    async def run() -> str:
        command = started("shell", command="yes 'a line of output ä' | head -c 100000000")
        return text_of((await Registry(tools).run(command, listener)).content)

    text = asyncio.run(run())
    assert len(text.encode()) < HEAD_BYTES + TAIL_BYTES + 100
    assert "\ufffd" not in text.removesuffix("\ufffd")
    assert f"({100_000_000 - HEAD_BYTES - TAIL_BYTES} bytes are left out here)" in text or "bytes are left out" in text
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000  # KiB; the output has 100 MB
    assert 10 < len(listener.progress) < 80  # by amount: 100 MB or a day of it make a few dozen


def test_progress_is_told_while_a_command_runs(tools: tuple[FunctionTool, ...], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate")

    async def run() -> list[str]:
        listener = Listener()
        script = "for i in $(seq 100); do echo line $i; done; cat gate"
        running = asyncio.create_task(Registry(tools).run(started("shell", command=script), listener))
        await asyncio.wait_for(listener.heard.wait(), 60)
        assert not running.done()
        (tmp_path / "gate").write_text("")  # the command waits for this
        await running
        return listener.progress

    assert "bytes of output so far: line " in asyncio.run(run())[0]


# --- the end ---


@pytest.mark.rule("TOOL-17")
@pytest.mark.parametrize(("kind", "ends"), [*((kind, "abort") for kind in ORPHANS), ("double fork", "timeout")])
def test_no_grandchild_survives(
    tools: tuple[FunctionTool, ...],
    tmp_path: Path,
    marker: str,
    kind: str,
    ends: str,
) -> None:
    os.mkfifo(tmp_path / "gate")
    deaf = DEAF.format(python=sys.executable, folder=tmp_path, marker=marker)
    script = ORPHANS[kind].format(deaf=deaf, deaf_quoted=deaf.replace("'", "'\\''"))
    begun = tmp_path / marker
    before = (descriptors(), threading.active_count(), child_processes())

    async def run() -> None:
        timeout_ms = 600_000 if ends == "abort" else 1_500
        command = started("shell", command=script, timeout_ms=timeout_ms)
        running = asyncio.create_task(Registry(tools).run(command, Listener()))
        assert await soon_here(lambda: begun.exists() or running.done())
        if ends == "abort":
            assert processes_with(marker)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        else:
            with pytest.raises(ToolError, match="was stopped after 1500 ms"):
                await running

    asyncio.run(run())
    assert not processes_with(marker)
    assert (descriptors(), threading.active_count(), child_processes()) == before


def test_what_is_left_in_the_background_ends_with_the_command(
    tools: tuple[FunctionTool, ...], tmp_path: Path, marker: str
) -> None:
    deaf = DEAF.format(python=sys.executable, folder=tmp_path, marker=marker).replace("'", "'\\''")
    os.mkfifo(tmp_path / "gate")
    script = f"setsid sh -c '{deaf}; ' & read x < gate; echo begun"
    opener = threading.Thread(target=lambda: soon((tmp_path / marker).exists) and (tmp_path / "gate").write_text("x\n"))
    opener.start()
    assert told(tools, "shell", command=script) == "begun\n"  # and not: when the one that holds the pipe has ended
    opener.join()
    assert not processes_with(marker)


def test_what_heeds_the_signal_may_clean_up(tools: tuple[FunctionTool, ...], tmp_path: Path) -> None:
    script = "trap 'echo cleaned > cleaned; exit 1' TERM; touch begun; read x < gate"
    os.mkfifo(tmp_path / "gate")

    async def run() -> None:
        running = asyncio.create_task(Registry(tools).run(started("shell", command=script), Listener()))
        assert await soon_here((tmp_path / "begun").exists)
        running.cancel()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(run())
    assert (tmp_path / "cleaned").read_text() == "cleaned\n"


@pytest.mark.rule("RESUME-3")
def test_commands_end_when_this_process_is_killed(tmp_path: Path, confined: Confined, marker: str) -> None:
    deaf = DEAF.format(python=sys.executable, folder=tmp_path, marker=marker)
    program = f"""
import asyncio, sys
from pathlib import Path
from loopkernel_adapters.tools.output_bounds import Capture
from loopkernel_adapters.tools.files import Workspace
from loopkernel_adapters.tools.processes import Command, Confined, Confinement, run_command
async def silent(text): pass
with Workspace(Path({str(tmp_path)!r})) as workspace, workspace.opened_folder(".") as folder:
    asyncio.run(run_command(Command(program=("/bin/sh", "-c", {deaf!r}), folder=folder, environment={{}},
        timeout_ms=600_000, confined=Confined(Confinement({confined.confinement.value!r}), {confined.prefix!r}),
        patience_ms=50), Capture(10, 10), silent))
"""
    with subprocess.Popen([sys.executable, "-c", program], start_new_session=True) as agent:
        assert soon((tmp_path / marker).exists)
        agent.send_signal(signal.SIGKILL)
    assert soon(lambda: not processes_with(marker))


def test_a_keeper_that_does_not_end_is_ended(
    tools: tuple[FunctionTool, ...], tmp_path: Path, marker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "KEEPER_SECONDS", 0.05)
    script = DEAF.format(python=sys.executable, folder=tmp_path, marker=marker)

    async def run() -> None:
        running = asyncio.create_task(Registry(tools).run(started("shell", command=script), Listener()))
        assert await soon_here((tmp_path / marker).exists)
        (keeper,) = children_with("process_keeper.py")
        os.kill(keeper, signal.SIGSTOP)  # it hears nothing any more
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(run())
    assert soon(lambda: not processes_with(marker))


def test_a_command_that_nobody_wants_any_more_is_not_begun(tmp_path: Path) -> None:
    keeper = Path(processes.__file__).with_name("process_keeper.py")
    lifeline, held = os.pipe()
    folder = os.open(tmp_path, os.O_RDONLY)
    for wanted in (True, False):
        if not wanted:
            os.close(held)
        status, tells = os.pipe()
        with subprocess.Popen(
            [sys.executable, "-I", "-S", keeper, *map(str, (lifeline, tells, folder, 50)), "touch", f"begun-{wanted}"],
            pass_fds=(lifeline, tells, folder),
        ):
            os.close(tells)
            assert os.read(status, 10) == (b"0" if wanted else b"")
        os.close(status)
    os.close(lifeline)
    os.close(folder)
    assert os.listdir(tmp_path) == ["begun-True"]


def test_a_progress_that_cannot_be_recorded_ends_the_command(
    tools: tuple[FunctionTool, ...], tmp_path: Path, marker: str
) -> None:
    class Failing(Listener):
        async def report_progress(self, text: str) -> None:  # type: ignore[explicit-override]  # said by its base
            raise OSError("the log cannot be written")

    waits = WAITS.format(python=sys.executable, marker=marker)
    command = started("shell", command=f"seq 1000; {waits}")
    with pytest.raises(OSError, match="log cannot be written"):
        asyncio.run(Registry(tools).run(command, Failing()))
    assert not processes_with(marker)


def test_many_runs_leave_nothing(workspace: Workspace, confined: Confined) -> None:
    registry = Registry([Shell(workspace, confined=confined).tool()])
    gc.collect()
    before = (descriptors(), threading.active_count(), child_processes())

    async def run(number: int) -> None:
        running = asyncio.create_task(registry.run(started("shell", command="echo x; sleep 100"), Listener()))
        for _ in range(number):
            await asyncio.sleep(0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    async def all_runs() -> None:
        await asyncio.gather(*(run(number) for number in range(8)))
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(all_runs())
    assert (descriptors(), threading.active_count(), child_processes()) == before


# --- words ---


def test_what_cannot_be_run_is_refused_in_words(
    tools: tuple[FunctionTool, ...], workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "no NUL character" in refused(tools, "shell", command="echo \0")
    assert "100000 bytes" in refused(tools, "shell", command="x" * 100_001)
    descriptors = len(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as patched:
        patched.setattr(sys, "executable", "")
        assert "no Python program" in refused(tools, "shell", command="true")
        patched.setattr(sys, "executable", "/there/is/none")
        assert "cannot be started: No such file" in refused(tools, "shell", command="true")
    assert len(os.listdir("/proc/self/fd")) == descriptors
    for bad in ({"command": ""}, {"command": "x", "timeout_ms": 0}, {"command": "x", "timeout_ms": 600_001}, {}):
        assert isinstance(verdict(tools, "shell", **bad), InvalidCall)
    assert verdict(tools, "shell", command="x") == ValidCall(())
    workspace.close()
    assert "closed" in refused(tools, "shell", command="true")


def test_the_tool_says_how_it_holds_commands_together(workspace: Workspace, confined: Confined) -> None:
    shell = Shell(workspace, confined=confined)
    assert shell.confinement is confined.confinement
    tool = shell.tool().tool
    assert f"held together by {confined.confinement.value}" in tool.description
    profile = tool.profile or ToolProfile()
    assert (profile.effect, profile.serial, profile.approval) == (EffectClass.DANGEROUS, True, Decision.ASK)


def refuses(*given: object, **named: object) -> "subprocess.CompletedProcess[bytes]":
    """As where no namespace may be made."""
    return subprocess.CompletedProcess([], 1)


def is_absent(*given: object, **named: object) -> "subprocess.CompletedProcess[bytes]":
    """As where there is no such program."""
    raise FileNotFoundError


@pytest.mark.parametrize("act", [refuses, is_absent])
def test_without_namespaces_a_subreaper_is_told(
    monkeypatch: pytest.MonkeyPatch, act: Callable[..., "subprocess.CompletedProcess[bytes]"]
) -> None:
    monkeypatch.setattr(subprocess, "run", act)
    assert strongest_confinement.__wrapped__().confinement is Confinement.SUBREAPER
    monkeypatch.setattr(sys, "platform", "darwin")
    assert strongest_confinement.__wrapped__().confinement is Confinement.PROCESS_GROUP


def test_a_status_is_told_in_words() -> None:
    assert exit_words(1) == "exit status 1"
    assert exit_words(143) == "exit status 143: ended by SIGTERM"
    assert exit_words(255) == "exit status 255"
    assert exit_words(None) == "its end was not seen"
