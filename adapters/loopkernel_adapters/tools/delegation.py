"""The tool that a sub-agent runs in the place of: its profile says so, and the kernel starts the sub-agent."""

from loopkernel.data.json_text import Json
from loopkernel.data.tools import EffectClass, Tool, ToolProfile

from loopkernel_adapters.ports import RunContext, ToolError
from loopkernel_adapters.tools.input_schema import JsonObject
from loopkernel_adapters.tools.registry import FunctionTool

DESCRIPTION = (
    "Hands a task to another agent, which has the same tools and knows nothing of this conversation, and gives back "
    "what it says last. Use it for work whose details are not needed here."
)
INPUT_SCHEMA = Json.of(
    {
        "type": "object",
        "properties": {"prompt": {"type": "string", "description": "the whole task, with all that has to be known"}},
        "required": ["prompt"],
        "additionalProperties": False,
    }
)


def delegate_tool(effect: EffectClass = EffectClass.IDEMPOTENT) -> FunctionTool:
    """A tool `delegate`. `effect` is the worst that the tools of a sub-agent may do; each of them asks for itself."""
    profile = ToolProfile(effect=effect, child=True)
    tool = Tool(name="delegate", description=DESCRIPTION, input_schema=INPUT_SCHEMA, profile=profile)
    return FunctionTool(tool=tool, function=_never_run)


def _never_run(given: JsonObject, context: RunContext) -> str:
    """For a log that is gone on with by a session in which the tool is none for sub-agents."""
    raise ToolError("no sub-agent can be started here; do the work with the other tools")
