"""The tools port over Python functions: each with its schema, its profile, and the names of what it touches."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable

from attrs import frozen
from loopkernel.data.blocks import TextBlock
from loopkernel.data.effects import CheckCall, StartTool
from loopkernel.data.errors import Fault
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.tools import (
    Claim,
    FieldResource,
    FixedResource,
    InvalidCall,
    ResourceRule,
    Tool,
    ToolOutput,
    UnknownTool,
    ValidCall,
    Verdict,
)
from typing_extensions import override

from loopkernel_adapters.ports import RunContext, ToolError, Tools
from loopkernel_adapters.tools.input_schema import JsonObject, demand_schema, input_faults, with_defaults

Returned = ToolOutput | str  # a text stands for an output of just this text
Function = Callable[[JsonObject, RunContext], Returned | Awaitable[Returned]]

MOST_FAULTS = 5  # of an input that are told to the model


def _as_given(name: str) -> str:
    return name


@frozen(kw_only=True)
class FunctionTool:
    """A Python function as a tool.

    The function gets an input that fits the tool's schema, with its defaults filled in, and the context of the run. It
    returns text or a ToolOutput, or raises ToolError. An `async def` runs in the event loop; any other runs in a
    thread, where it cannot await the context, and an abort then waits for its end. `resource_key` gives the one
    canonical key of what a resource field names, or raises ValueError, whose text is told to the model.
    """

    tool: Tool
    function: Function
    resource_key: Callable[[str], str] = _as_given


class Registry(Tools):
    """A fixed set of function tools.

    Raises CodecError when a tool's schema is not fully understood, ValueError when two tools share a name.
    """

    def __init__(self, tools: Iterable[FunctionTool]) -> None:
        self._tools: dict[str, FunctionTool] = {}
        self._schemas: dict[str, JsonObject] = {}
        for entry in tools:
            name = entry.tool.name
            if name in self._tools:
                raise ValueError(f"two tools are named {name}; give one of them another name")
            self._tools[name] = entry
            self._schemas[name] = demand_schema(entry.tool.input_schema.value())

    @override
    def offered(self) -> tuple[Tool, ...]:
        return tuple(entry.tool for entry in self._tools.values())

    @override
    def check(self, command: CheckCall) -> Verdict:
        entry = self._tools.get(command.tool)
        if entry is None:
            return UnknownTool()
        given = command.input.value()
        faults = list(input_faults(self._schemas[command.tool], given))
        if not faults and not isinstance(given, dict):
            faults = [Fault("$", "must be an object")]
        if faults:
            return InvalidCall(_told(faults))
        try:
            return ValidCall(_claims(entry, self._complete(command.tool, command.input)))
        except ValueError as error:
            return InvalidCall(str(error))

    @override
    async def run(self, command: StartTool, context: RunContext) -> ToolOutput:
        entry = self._tools.get(command.tool)
        if entry is None:  # the offered tools are part of a log, which may go on with fewer of them
            raise ToolError(f"there is no tool {command.tool} here; use another one")
        returned = await _call(entry.function, self._complete(command.tool, command.input), context)
        return ToolOutput(content=(TextBlock(returned),)) if isinstance(returned, str) else returned

    def _complete(self, tool: str, given: Json) -> JsonObject:
        value = given.value()
        return with_defaults(self._schemas[tool], value if isinstance(value, dict) else {})


def _told(faults: list[Fault]) -> str:
    """The faults of an input in one line for the model."""
    shown = "; ".join(str(fault) for fault in faults[:MOST_FAULTS])
    rest = len(faults) - MOST_FAULTS
    return f"{shown}; and {rest} more" if rest > 0 else shown


def _claims(entry: FunctionTool, given: JsonObject) -> tuple[Claim, ...] | None:
    """What the call touches; None when a part of it is not known. Raises ValueError as `resource_key` does."""
    profile = entry.tool.profile
    if profile is None:
        return None
    claims: list[Claim] = []
    for rule in profile.resources:
        keys = _keys(rule, entry, given)
        if keys is None:
            return None
        claims += [Claim(key, rule.mode) for key in keys]
    return tuple(claims)


def _keys(rule: ResourceRule, entry: FunctionTool, given: JsonObject) -> list[str] | None:
    match rule:
        case FixedResource():
            return [rule.key]
        case FieldResource():
            named: JsonValue = given.get(rule.field)
            names = named if isinstance(named, list) else [named]
            texts = [name for name in names if isinstance(name, str)]
            return [entry.resource_key(name) for name in texts] if len(texts) == len(names) else None


async def _call(function: Function, given: JsonObject, context: RunContext) -> Returned:
    """The outcome of the function; one that is not async has a thread of its own until it returns."""
    if inspect.iscoroutinefunction(function):
        outcome: Returned = await function(given, context)
        return outcome
    running = asyncio.ensure_future(asyncio.to_thread(function, given, context))
    try:
        returned = await asyncio.shield(running)
    except asyncio.CancelledError:
        # A thread cannot be stopped: the run has ended when the function has returned.
        await asyncio.wait({running})
        if not running.cancelled():
            running.exception()  # looked at, so that nobody is told that it was not
        raise
    return await returned if inspect.isawaitable(returned) else returned
