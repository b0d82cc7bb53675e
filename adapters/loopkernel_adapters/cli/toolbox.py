"""The tools of a session: those of one folder, many or few."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from loopkernel_adapters.cli.options import ToolSet
from loopkernel_adapters.cli.outcomes import Unusable
from loopkernel_adapters.ports import ToolError, Tools
from loopkernel_adapters.tools.delegation import delegate_tool
from loopkernel_adapters.tools.files import FileTools, Workspace
from loopkernel_adapters.tools.registry import Registry

if TYPE_CHECKING:  # which few tools need not import
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
        yield registry
