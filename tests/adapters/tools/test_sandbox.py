"""The sandbox of the shell: what its command line says, everywhere; and what it holds, where bubblewrap works."""

import os
import shlex
import socket
from collections.abc import Callable
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel_adapters.tools import sandbox as sandboxes
from loopkernel_adapters.tools.coding import coding_tools
from loopkernel_adapters.tools.files import Workspace
from loopkernel_adapters.tools.processes import Confined, Confinement
from loopkernel_adapters.tools.sandbox import Sandbox, SandboxUnavailable
from loopkernel_adapters.tools.shell import Shell

from tests.adapters.tools.tools_world import output, processes_with, refused, soon, told

CANARY = "the canary outside"
Run = Callable[[str], str]
NAMES = st.text(alphabet="ab-. =$;'", min_size=1, max_size=6).filter(lambda name: name not in (".", ".."))


# --- its command line, as data ---


def pairs(arguments: tuple[str, ...], option: str) -> list[tuple[str, str]]:
    """What each of these options is given."""
    found = [place for place, word in enumerate(arguments) if word == option]
    return [(arguments[place + 1], arguments[place + 2]) for place in found]


def test_nothing_may_be_written_but_the_workspace() -> None:
    arguments = Sandbox(workspace=Path("/w/me")).arguments()
    assert pairs(arguments, "--bind") == [(".", "/w/me")]
    assert {"--dev-bind", "--bind-try", "--dev-bind-try"}.isdisjoint(arguments)
    assert ("--remount-ro", "/") in pairwise(arguments)
    assert ("--ro-bind-try", "/w/me/.loopkernel") in pairwise(arguments)


def test_nothing_may_be_read_that_may_hold_a_key() -> None:
    read = [source for source, _ in pairs(Sandbox(workspace=Path("/w"), network=True).arguments(), "--ro-bind-try")]
    closed = ("/", "/etc", "/home", "/root", "/run", "/var", "/tmp", "/etc/shadow", "/etc/ssl", "/etc/ssl/private")
    assert not set(closed) & set(read)
    assert not any(path.startswith(("/etc/ssh", "/home", "/root", "/run", "/var", "/proc", "/sys")) for path in read)


def test_the_network_is_there_only_where_it_is_asked_for() -> None:
    without, with_network = (Sandbox(workspace=Path("/w"), network=each).arguments() for each in (False, True))
    assert without[0] == with_network[0] == "--unshare-all"
    assert "--share-net" not in without
    assert "--share-net" in with_network
    assert "/etc/resolv.conf" not in without
    assert "no network" in Sandbox(workspace=Path("/w")).description()


def test_every_sandbox_ends_with_whoever_began_it() -> None:
    assert "--die-with-parent" in Sandbox(workspace=Path("/w")).arguments()


@given(parts=st.lists(NAMES, min_size=1, max_size=4), more=st.lists(NAMES, min_size=1, max_size=3))
def test_a_folder_that_is_not_written_and_those_above_it_are_mounted_behind_the_workspace(
    parts: list[str], more: list[str]
) -> None:
    workspace, folder = Path("/", *parts), Path("/", *parts, *more)
    arguments = Sandbox(workspace=workspace, readable=(folder,)).arguments()
    assert arguments[-1] == "--"
    mounted = [("--bind", ".", str(workspace)), ("--ro-bind-try", *2 * (f"{workspace}/.loopkernel",))]
    if more[0] != ".loopkernel":
        above = (Path(workspace, *more[:count]) for count in range(1, len(more)))
        mounted += [("--bind-try", str(each), str(each)) for each in above]
        mounted.append(("--ro-bind-try", str(folder), str(folder)))
    words = [word for mount in mounted for word in mount]
    begin = arguments.index("--bind")
    assert list(arguments[begin : begin + len(words)]) == words
    assert arguments[begin + len(words)] == "--remount-ro"


# --- where there is none ---


def test_it_is_said_that_bubblewrap_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandboxes, "SEARCHED", str(tmp_path))
    with pytest.raises(SandboxUnavailable, match=r"bubblewrap is not installed .*; install it, as with `apt install"):
        Sandbox(workspace=tmp_path).confined()


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'bwrap: No permissions to create new namespace' >&2; exit 1", "No permissions to create new namespace"),
        ("exit 0", "it does not say why"),  # whatever was run, it was not what was asked for
        (f"head -c 100000 /dev/zero | tr '\\0' x >&2; echo end >&2; exit {sandboxes.ANSWER + 1}", "xend"),
    ],
)
def test_it_is_said_why_bubblewrap_does_not_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, said: str
) -> None:
    program = tmp_path / "bwrap"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setattr(sandboxes, "SEARCHED", str(tmp_path))
    with pytest.raises(SandboxUnavailable, match="cannot make a sandbox here") as refusal:
        Sandbox(workspace=tmp_path).confined()
    assert said in str(refusal.value)
    assert len(str(refusal.value)) < 700


def test_the_whole_file_system_is_no_workspace() -> None:
    with pytest.raises(SandboxUnavailable, match="whole file system"):
        Sandbox(workspace=Path("/")).confined()


# --- where it works ---


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with what is to be kept from commands in it and beside it."""
    root = tmp_path / "work"
    (root / ".loopkernel").mkdir(parents=True)
    (root / "deep" / "logs").mkdir(parents=True)
    for log in (root / ".loopkernel" / "runs.sqlite", root / "deep" / "logs" / "run.jsonl"):
        log.write_text("the log")
    (tmp_path / "outside.txt").write_text(CANARY)
    return root


@pytest.fixture
def sandbox(root: Path) -> Sandbox:
    return Sandbox(workspace=root.resolve(), readable=(root.resolve() / "deep" / "logs",))


@pytest.fixture
def confined(sandbox: Sandbox) -> Confined:
    """The sandbox, where there is one."""
    try:
        return sandbox.confined()
    except SandboxUnavailable as error:
        pytest.skip(f"NOT TESTED in a sandbox: {error}")


@pytest.fixture
def run(root: Path, confined: Confined) -> Run:
    """What a command in the sandbox shows."""

    def run(command: str) -> str:
        with Workspace(root) as workspace:
            return told((Shell(workspace, {"GIVEN": "given"}, confined).tool(),), "shell", command=command)

    return run


def test_a_command_works_in_the_workspace_and_its_status_is_told(run: Run, root: Path, confined: Confined) -> None:
    assert (
        run("pwd; echo $GIVEN; echo new > new.txt; rm -r deep/../new.txt; echo kept > kept.txt") == f"{root}\ngiven\n"
    )
    assert (root / "kept.txt").read_text() == "kept\n"
    assert run("exit 3") == "(exit status 3)"
    assert run("kill -KILL $$") == "(exit status 137: ended by SIGKILL)"
    assert confined.confinement is Confinement.PID_NAMESPACE
    with Workspace(root) as workspace:
        (shell,) = (tool for tool in coding_tools(workspace, confined=confined) if tool.tool.name == "shell")
    assert "Commands run in a sandbox" in shell.tool.description


def test_nothing_outside_can_be_read_or_written(run: Run, root: Path, tmp_path: Path) -> None:
    outside = shlex.quote(str(tmp_path / "outside.txt"))
    home = shlex.quote(str(Path.home()))
    shown = run(
        f"cat {outside}; cat ../outside.txt; echo x > {outside}; ls -A {home}; ls -A ~; cat /etc/shadow; "
        "echo x > /made; echo x > /usr/made; mkdir /etc/made; ls /root /home /var /sys; ls -A /tmp"
    )
    assert CANARY not in shown
    assert (tmp_path / "outside.txt").read_text() == CANARY
    assert shown.count("Read-only file system") == 3
    assert shown.count("No such file or directory") >= 7
    assert not Path("/made").exists()
    assert not Path("/usr/made").exists()
    link = root / "link"
    link.symlink_to(tmp_path / "outside.txt")
    assert "No such file" in run("cat link; echo x > link")
    assert (tmp_path / "outside.txt").read_text() == CANARY


def test_the_log_is_not_written_and_what_leads_to_it_keeps_its_name(run: Run, root: Path) -> None:
    for log in (".loopkernel/runs.sqlite", "deep/logs/run.jsonl"):
        folder = shlex.quote(str(Path(log).parent))
        shown = run(
            f"echo x >> {log}; rm {log}; mv {log} away; ln {log} hard; touch {folder}/planted; mv {folder} elsewhere; "
            f"rm -r {folder}; chmod 777 {log}; mount -o remount,rw {folder}"
        )
        assert shown.count("Read-only file system") >= 4
        assert (root / log).read_text() == "the log"
        assert [each.name for each in (root / log).parent.iterdir()] == [Path(log).name]
    assert "busy" in run("mv deep other; mkdir -p deep/logs; echo forged > deep/logs/run.jsonl")
    assert (root / "deep" / "logs" / "run.jsonl").read_text() == "the log"
    run("echo free > deep/free.txt")
    assert (root / "deep" / "free.txt").read_text() == "free\n"


def test_a_folder_for_the_log_that_is_not_there_is_not_made(run: Run, root: Path) -> None:
    (root / ".loopkernel" / "runs.sqlite").unlink()
    (root / ".loopkernel").rmdir()
    assert run("ls -A") == "deep\n"


@pytest.mark.parametrize("network", [False, True])
def test_the_network_of_this_machine_is_reached_only_where_that_is_allowed(
    root: Path, sandbox: Sandbox, confined: Confined, network: bool
) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server, Workspace(root) as workspace:
        port = server.getsockname()[1]
        shell = Shell(workspace, {}, evolve(sandbox, network=network).confined(), program="/bin/bash")
        if not Path(shell.program).exists():
            pytest.skip("NOT TESTED: there is no bash, which can connect by itself")
        shown = told((shell.tool(),), "shell", command=f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo connected")
    assert (shown == "connected\n") == network


def test_no_other_process_is_seen_and_none_is_left(run: Run, root: Path) -> None:
    marker = f"marker-{os.getpid()}-{root.parent.name}"
    os.mkfifo(root / "gate")
    shown = run(f"setsid bash -c 'read x < gate' {marker} > /dev/null 2>&1 & kill -0 {os.getpid()}; ls -d /proc/[0-9]*")
    assert "No such process" in shown
    assert shown.count("/proc/") < 8
    assert soon(lambda: not processes_with(marker))


def test_a_command_that_runs_out_of_time_leaves_nothing(root: Path, confined: Confined) -> None:
    marker = f"marker-{os.getpid()}-{root.parent.name}"
    os.mkfifo(root / "gate")
    command = f"bash -c 'trap \"\" TERM INT HUP; while true; do read x < gate; done' {marker} & wait"
    with Workspace(root) as workspace:
        tools = (Shell(workspace, {}, confined).tool(),)
        assert "stopped after 300 ms" in refused(tools, "shell", command=command, timeout_ms=300)
    assert soon(lambda: not processes_with(marker))


def test_what_is_written_in_tmp_and_home_is_gone_with_the_command(run: Run) -> None:
    assert run("echo x > /tmp/x; echo y > ~/y; mktemp > /dev/null; ls ~ $TMPDIR/x") == "/tmp/x\n\n/tmp/home:\ny\n"
    assert run("ls -A ~; test -e /tmp/x || echo gone") == "gone\n"


def test_what_a_command_shows_comes_in_its_order(root: Path, confined: Confined) -> None:
    with Workspace(root) as workspace:
        tools = (Shell(workspace, {}, confined).tool(),)
        shown = output(tools, "shell", command="echo 1; echo 2 >&2; echo 3; cat")  # there is no input, and no terminal
    assert [each for each in str(shown.content) if each in "123"] == ["1", "2", "3"]
