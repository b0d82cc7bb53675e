"""A sandbox for the commands of the shell: bubblewrap, where it is installed and the system lets it work.

Each command gets a file system of its own, made for it and gone with it. The workspace is there under its own path, and
may be written; the programs and libraries of the system may be read; `/tmp` and the home folder are empty. Nothing else
is there: what is not named here cannot be read, written or asked. It is never left out quietly: where it cannot be had,
`confined` raises.
"""

import subprocess
from pathlib import Path
from shutil import which

from attrs import field, frozen

from loopkernel_adapters.bounded_text import both_ends
from loopkernel_adapters.tools.processes import PROBE_SECONDS, Confined, Confinement
from loopkernel_adapters.tools.shell import shell_program

PROGRAM = "bwrap"
# Where packages of the system put it: what a folder that the person's PATH names holds may be a part of the workspace.
SEARCHED = "/usr/bin:/bin:/usr/local/bin:/run/current-system/sw/bin"
PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/nix/store", "/gnu/store")
# Of /etc, what programs need to start: no keys, no passwords, and nothing of what runs on this machine.
SETTINGS = (
    *("alternatives", "bash.bashrc", "ca-certificates", "ca-certificates.conf", "crypto-policies", "default/locale"),
    *("fonts", "group", "host.conf", "hosts", "inputrc", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime"),
    *("magic", "mime.types", "nsswitch.conf", "os-release", "passwd", "pki/tls/certs", "pki/ca-trust", "profile"),
    *("protocols", "python3", "services", "shells", "ssl/certs", "ssl/openssl.cnf", "terminfo", "timezone"),
)
NETWORK_SETTINGS = ("gai.conf", "resolv.conf")
HOME = "/tmp/home"
MEMORY = Path(".loopkernel")  # of this program itself, in a workspace
ANSWER = 42
LONGEST_REASON = 300  # characters


class SandboxUnavailable(Exception):
    """There is no sandbox here. The message says why, and what to do."""


@frozen(kw_only=True)
class Sandbox:
    """What a command may see and do. `workspace` is absolute, without links.

    `readable` are folders in the workspace that commands may read and not write; where one is missing, nothing is made.
    """

    workspace: Path = field(converter=Path)
    network: bool = False
    readable: tuple[Path, ...] = ()

    def arguments(self) -> tuple[str, ...]:
        """What follows the name of the program, up to the command. It is to be run in the workspace."""
        at = str(self.workspace)
        settings = (*SETTINGS, *(NETWORK_SETTINGS if self.network else ()))
        return (
            *("--unshare-all", *(("--share-net",) if self.network else ()), "--die-with-parent", "--cap-drop", "ALL"),
            *_each("--ro-bind-try", PROGRAMS),
            *_each("--ro-bind-try", tuple(f"/etc/{name}" for name in settings)),
            *("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--dir", HOME),
            *("--bind", ".", at),  # the folder that is open, whatever stands under its name by now
            *self._kept(),
            *("--remount-ro", "/", "--chdir", at, "--setenv", "HOME", HOME, "--setenv", "TMPDIR", "/tmp", "--"),
        )

    def description(self) -> str:
        """What a model is told of it."""
        network = "They can use the network." if self.network else "They have no network."
        return (
            "Commands run in a sandbox: of the files of this machine, they can write those of the workspace alone, "
            f"and read besides only programs and libraries. {network} /tmp and the home folder are empty for each of "
            "them, and what is written there is gone with it."
        )

    def confined(self) -> Confined:
        """The sandbox, tried once with a command that does nothing. Raises SandboxUnavailable."""
        if self.workspace == Path("/"):
            raise SandboxUnavailable("the workspace is the whole file system, which no sandbox can be around")
        program = which(PROGRAM, path=SEARCHED)
        if program is None:
            raise SandboxUnavailable(
                f"bubblewrap is not installed ({PROGRAM} is in none of {SEARCHED}); install it, as with `apt install "
                "bubblewrap` or `dnf install bubblewrap`"
            )
        prefix = (program, *self.arguments())
        self._demand_works(prefix)
        return Confined(Confinement.PID_NAMESPACE, prefix, self.description())

    def _kept(self) -> tuple[str, ...]:
        """For the folders that are not written. Those that lead to one are mounted too, and so keep their names."""
        memory = self.workspace / MEMORY
        found = _each("--ro-bind-try", (str(memory),))
        for folder in self.readable:
            if not folder.is_relative_to(memory):
                above = [each for each in reversed(folder.parents) if self.workspace in each.parents]
                found += _each("--bind-try", tuple(map(str, above))) + _each("--ro-bind-try", (str(folder),))
        return found

    def _demand_works(self, prefix: tuple[str, ...]) -> None:
        try:
            tried = subprocess.run(
                [*prefix, shell_program(), "-c", f"exit {ANSWER}"],
                cwd=self.workspace,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                timeout=PROBE_SECONDS,
                check=False,
            )
            worked, reason = tried.returncode == ANSWER, tried.stderr.decode("utf-8", "replace").strip()
        except (OSError, subprocess.TimeoutExpired) as error:
            worked, reason = False, str(error)
        if not worked:
            said = both_ends(reason, LONGEST_REASON // 2, lambda left: "...") or "it does not say why"
            raise SandboxUnavailable(
                f"{prefix[0]} cannot make a sandbox here: {said}. The "
                "system may forbid namespaces to you, as in a container, or in one of its own settings"
            )


def _each(option: str, paths: tuple[str, ...]) -> tuple[str, ...]:
    """The option for each path, under the same path."""
    return tuple(word for path in paths for word in (option, path, path))
