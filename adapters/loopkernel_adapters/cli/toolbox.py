"""The tools of a session: those of one folder, many or few; and `--sandbox`, in which the commands of its shell run."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from loopkernel.data.tools import Tool

from loopkernel_adapters.cli.options import Isolation, Options, ToolSet
from loopkernel_adapters.cli.outcomes import Unusable
from loopkernel_adapters.ports import ToolError, Tools
from loopkernel_adapters.tools.delegation import delegate_tool
from loopkernel_adapters.tools.files import FileTools, Workspace
from loopkernel_adapters.tools.registry import Registry

if TYPE_CHECKING:  # imported when there is a shell
    from loopkernel_adapters.tools.processes import Confined

# What the embedded model can take in one request, at one byte a token, with room for the rest of the prompt.
READ_BYTES = 3_000


@contextmanager
def opened_tools(
    folder: Path, tool_set: ToolSet, *, sub_agents: bool, confined: "Confined | None" = None
) -> Iterator[Tools]:
    """The tools for a workspace, which is open meanwhile; with one for sub-agents, if wanted. Raises Unusable.

    `confined` is how the commands of the shell are held, where that was chosen.
    """
    try:
        workspace = Workspace(folder)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise Unusable(f"the workspace {folder} cannot be opened: {why}; name a folder with --workspace DIR") from error
    with workspace:
        try:
            if tool_set is ToolSet.FILES:
                tools = FileTools(workspace, READ_BYTES).all()
            else:
                from loopkernel_adapters.tools.coding import coding_tools

                tools = coding_tools(workspace, confined=confined)
            registry = Registry((*tools, *((delegate_tool(),) if sub_agents else ())))
        except ToolError as error:
            raise Unusable(f"the workspace {folder} cannot be listed: {error}") from error
        except ImportError as error:
            raise Unusable(str(error)) from error
        yield registry


# --- the sandbox -----------------------------------------------------------------------------------------
# Where it cannot be had, nothing begins.

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
