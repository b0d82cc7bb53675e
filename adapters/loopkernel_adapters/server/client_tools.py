"""Tools that a client brings along for a run, beside those of the agent: a call of one is put to it as a question.

The client runs the call itself and answers with what came of it. Nothing of that is decided here: the run waits as it
does for the answer to the question of any tool, and when it is taken up after a crash, the question is put again.
"""

import re
from collections.abc import Sequence

from loopkernel.data.blocks import TextBlock
from loopkernel.data.effects import CheckCall, StartTool
from loopkernel.data.errors import CodecError
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.states import State
from loopkernel.data.tools import (
    AccessMode,
    EffectClass,
    FixedResource,
    Tool,
    ToolOutput,
    ToolProfile,
    Verdict,
)
from loopkernel.later_typing import override

from loopkernel_adapters.ports import RunContext, ToolError, Tools
from loopkernel_adapters.server.ag_ui_content import NotTaken, output_of
from loopkernel_adapters.sessions.waiting_calls import WaitingCall
from loopkernel_adapters.tools.registry import FunctionTool, Registry

# By this a tool of a client is known in a log. Its calls change nothing here, so several may wait at one time.
CLIENT = FixedResource("the client of this run", AccessMode.READ)
PROFILE = ToolProfile(effect=EffectClass.READ_ONLY, resources=(CLIENT,))
QUESTION = "This is a tool of the client: it runs the call, and answers with what came of it."
GONE_ON = "the client has gone on without running it, so there is no result"
MOST_BROUGHT = 128
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class NotBrought(ValueError):
    """A tool cannot be used. The message says why, and what to do."""


class ClientTools(Tools):
    """The tools of the agent, and those that the client has brought."""

    def __init__(self, own: Tools, state: State) -> None:
        """`state`: of the run so far, which names what was brought to it before."""
        self._own = own
        self._brought = _registry(brought_in(state))

    @override
    def offered(self) -> tuple[Tool, ...]:
        return (*self._own.offered(), *self._brought.offered())

    def bring(self, tools: Sequence[Tool]) -> bool:
        """These and no others from now on; whether they differ from those before. Raises NotBrought."""
        own = {tool.name for tool in self._own.offered()}
        for tool in tools:
            if tool.name in own:
                raise NotBrought(f"the agent has a tool {tool.name} of its own; name yours otherwise")
        brought = _registry(tools)
        differs = brought.offered() != self._brought.offered()
        self._brought = brought
        return differs

    @override
    def check(self, command: CheckCall) -> Verdict:
        return self._part(command.tool).check(command)

    @override
    async def run(self, command: StartTool, context: RunContext) -> ToolOutput:
        return await self._part(command.tool).run(command, context)

    def _part(self, name: str) -> Tools:
        return self._brought if any(tool.name == name for tool in self._brought.offered()) else self._own


def client_tool(name: str, description: str, schema: JsonValue) -> Tool:
    """A tool as a client describes it. Raises NotBrought."""
    if not _NAME.fullmatch(name):
        raise NotBrought(f"a tool is named {name[:80]!r}; a name is 1 to 64 letters, digits, _ and -")
    schema = {"type": "object"} if schema is None else schema
    return Tool(name=name, description=description, input_schema=Json.of(schema), profile=PROFILE)


def brought_in(state: State) -> tuple[Tool, ...]:
    """The tools that clients have brought to the run."""
    offered = () if state.session is None else state.session.settings.tools
    return tuple(tool for tool in offered if tool.profile is not None and CLIENT in tool.profile.resources)


def for_client(call: WaitingCall, state: State) -> bool:
    """Whether the client is to run the call: the one that speaks with this run, not with a sub-agent of it."""
    return call.question == QUESTION and not call.within and call.tool in {tool.name for tool in brought_in(state)}


def _registry(tools: Sequence[Tool]) -> Registry:
    if len(tools) > MOST_BROUGHT:
        raise NotBrought(f"{len(tools)} tools are too many; at most {MOST_BROUGHT} can be brought along")
    try:
        return Registry([FunctionTool(tool=tool, function=_asked) for tool in tools])
    except (CodecError, ValueError) as error:
        raise NotBrought(f"a tool cannot be used: {error}") from error


async def _asked(given: object, context: RunContext) -> ToolOutput:
    """What the client says came of it."""
    answer = await context.ask(QUESTION)
    if answer is None:
        raise ToolError(GONE_ON)
    value = answer.value()
    if isinstance(value, str):
        return ToolOutput((TextBlock(value),))
    try:
        return output_of(value)
    except NotTaken as error:
        raise ToolError(f"the client gave a result that cannot be taken: {error}") from error
