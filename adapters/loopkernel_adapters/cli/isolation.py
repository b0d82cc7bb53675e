"""`--sandbox`: what the commands of the shell run in, and how that is told. Where it cannot be had, nothing begins."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from loopkernel.data.tools import Tool

from loopkernel_adapters.cli.options import Isolation, Options, ToolSet
from loopkernel_adapters.cli.outcomes import Unusable

if TYPE_CHECKING:  # imported when there is a shell
    from loopkernel_adapters.tools.processes import Confined

SHELL = "shell"
TOLD = {
    Isolation.SANDBOX: "commands run in a sandbox: they write in the workspace alone, without network",
    Isolation.SANDBOX_NETWORK: "commands run in a sandbox: they write in the workspace alone, with the network",
    None: "commands are not isolated, and can do what you can; --sandbox isolates them",
}


def confinement_of(options: Options, kept: Path | None) -> "Confined | None":
    """How commands are held, where a sandbox is asked for and there is a shell. Raises Unusable.

    `kept` is the folder of the log, which they must not write.
    """
    if options.isolation is None or options.tool_set is ToolSet.FILES:
        return None
    from loopkernel_adapters.tools.sandbox import Sandbox, SandboxUnavailable

    workspace = options.folder.resolve()
    folder = None if kept is None else kept.resolve()
    if folder == workspace:
        raise Unusable(
            f"--{options.isolation.value}: the log would lie in the workspace itself, {workspace}, where the commands "
            "of the shell may write, and so could change what the run remembers. Name another place with --store or "
            "--log, such as a file in a folder of its own, or move a log that is there"
        )
    inside = folder is not None and workspace in folder.parents
    network = options.isolation is Isolation.SANDBOX_NETWORK
    sandbox = Sandbox(workspace=workspace, network=network, readable=(folder,) if inside and folder else ())
    try:
        return sandbox.confined()
    except SandboxUnavailable as error:
        raise Unusable(
            f"--{options.isolation.value} cannot be had, so nothing was begun: {error}. See docs/sandbox.md for other "
            "ways; without it, commands can do what you can"
        ) from error


def isolation_told(options: Options, offered: Sequence[Tool]) -> tuple[str, ...]:
    """A line about the shell, where there is one."""
    return (f"shell: {TOLD[options.isolation]}",) if any(tool.name == SHELL for tool in offered) else ()
