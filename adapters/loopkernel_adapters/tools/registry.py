"""The tools port over Python functions: each with its schema, its profile, and the names of what it touches."""

import inspect
from abc import ABC, abstractmethod
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
from loopkernel.later_typing import override
from loopkernel.loop.algorithms.references import has_references

from loopkernel_adapters.ports import RunContext, ToolError, Tools
from loopkernel_adapters.tools.input_schema import InputSchema, JsonObject, with_defaults
from loopkernel_adapters.tools.output_bounds import MOST_CHARACTERS, bounded, shortened
from loopkernel_adapters.tools.threads import run_in_thread

Returned = ToolOutput | str  # a text stands for an output of just this text
Function = Callable[[JsonObject, RunContext], Returned | Awaitable[Returned]]
Judge = Callable[[JsonObject], Iterable[Fault]]  # all that keeps an input from fitting

MOST_FAULTS = 5  # of an input that are told to the model


_NO_OBJECT = Fault("$", "must be an object")


class TextFunction(ABC):
    """A function of a tool that reads an input from its text where that fits as it is: no other parse is needed."""

    @abstractmethod
    async def __call__(self, given: JsonObject, context: RunContext) -> Returned:
        """What the tool returns for the input."""

    @abstractmethod
    def faults(self, given: JsonObject) -> list[Fault]:
        """All that keeps the input from fitting."""

    @abstractmethod
    def ready(self, text: str) -> Callable[[RunContext], Awaitable[Returned]] | None:
        """As a call with the input of that text; None where it does not fit as it is."""


def _as_given(name: str) -> str:
    return name


def _by_its_key(claim: Claim) -> Claim:
    return claim


@frozen(kw_only=True)
class FunctionTool:
    """A Python function as a tool.

    The function gets an input that fits the tool's schema, with its defaults filled in, and the context of the run. It
    returns text or a ToolOutput, or raises ToolError. An `async def` runs in the event loop; any other runs in a
    thread of its own, where it cannot await the context, and an abort then waits a little for its end (`threads.py`).
    `resource_key` gives the one canonical key of what a resource field names, or raises ValueError, whose text is told
    to the model; `named` adds what else the resource is called, for rules of approval. `judge` takes the place of the
    schema where inputs are judged, and knows more than it can say. Where the function gets another input than was
    given, `understood` gives that: it says what a call touches.
    """

    tool: Tool
    function: Function
    resource_key: Callable[[str], str] = _as_given
    named: Callable[[Claim], Claim] = _by_its_key
    judge: Judge | None = None
    understood: Callable[[JsonObject], JsonObject] | None = None


class Registry(Tools):
    """A fixed set of function tools.

    Raises CodecError when a tool's schema is not fully understood, ValueError when two tools share a name.
    """

    def __init__(self, tools: Iterable[FunctionTool]) -> None:
        self._tools: dict[str, FunctionTool] = {}
        self._defaults: dict[str, JsonObject] = {}  # the schemas that have them
        self._schemas: dict[str, InputSchema] = {}  # those that judge
        self._of_text: dict[str, TextFunction] = {}  # the tools whose inputs need nothing but to be read
        for entry in tools:
            name = entry.tool.name
            if name in self._tools:
                raise ValueError(f"two tools are named {name}; give one of them another name")
            self._tools[name] = entry
            schema = entry.tool.input_schema.value()
            self._defaults[name] = schema if isinstance(schema, dict) else {}
            if entry.judge is None:
                self._schemas[name] = InputSchema(schema)
            elif (
                isinstance(entry.function, TextFunction)
                and entry.judge == entry.function.faults
                and not with_defaults(self._defaults[name], {})
            ):
                self._of_text[name] = entry.function

    @override
    def offered(self) -> tuple[Tool, ...]:
        return tuple(entry.tool for entry in self._tools.values())

    @override
    def check(self, command: CheckCall) -> Verdict:
        entry = self._tools.get(command.tool)
        if entry is None:
            return UnknownTool()
        if has_references(command.input):
            return ValidCall(None)  # it is asked about again with the outputs that it refers to
        of_text = self._of_text.get(command.tool)
        if of_text is None or of_text.ready(command.input.text) is None:
            faults = self._faults(entry, command.input.value())
            if faults:
                return InvalidCall(_told(faults))
        profile = entry.tool.profile
        if profile is None or not profile.resources:
            return ValidCall(None if profile is None else ())
        try:
            complete = self._complete(command.tool, command.input)
            understood = complete if entry.understood is None else entry.understood(complete)
            return ValidCall(_claims(entry, profile.resources, understood))
        except ValueError as error:
            return InvalidCall(str(error))

    def _faults(self, entry: FunctionTool, given: JsonValue) -> list[Fault]:
        if entry.judge is not None:
            return list(entry.judge(given)) if isinstance(given, dict) else [_NO_OBJECT]
        faults = list(self._schemas[entry.tool.name].faults(given))
        return faults if faults or isinstance(given, dict) else [_NO_OBJECT]

    @override
    async def run(self, command: StartTool, context: RunContext) -> ToolOutput:
        entry = self._tools.get(command.tool)
        if entry is None:  # the offered tools are part of a log, which may go on with fewer of them
            raise ToolError(f"there is no tool {command.tool} here; use another one")
        if has_references(command.input):  # as a hook may give it, where nothing resolves it: so nothing has judged it
            raise ToolError("its input refers to the output of another call, which is not there; give the value itself")
        of_text = self._of_text.get(command.tool)
        ready = None if of_text is None else of_text.ready(command.input.text)
        try:
            if ready is not None:
                returned = await ready(context)
            else:
                given = self._complete(command.tool, command.input)
                returned = await _call(command.tool, entry.function, given, context)
        except ToolError as error:
            if len(str(error)) <= MOST_CHARACTERS:
                raise
            raise ToolError(shortened(str(error))) from error
        return bounded(ToolOutput(content=(TextBlock(returned),)) if isinstance(returned, str) else returned)

    def _complete(self, tool: str, given: Json) -> JsonObject:
        value = given.value()
        return with_defaults(self._defaults[tool], value if isinstance(value, dict) else {})


def _told(faults: list[Fault]) -> str:
    """The faults of an input in one line for the model."""
    shown = "; ".join(str(fault) for fault in faults[:MOST_FAULTS])
    rest = len(faults) - MOST_FAULTS
    return f"{shown}; and {rest} more" if rest > 0 else shown


def _claims(entry: FunctionTool, rules: Iterable[ResourceRule], given: JsonObject) -> tuple[Claim, ...] | None:
    """What the call touches; None when a part of it is not known. Raises ValueError as `resource_key` does."""
    claims: list[Claim] = []
    for rule in rules:
        used = _used(rule, entry, given)
        if used is None:
            return None
        claims += used
    return tuple(claims)


def _used(rule: ResourceRule, entry: FunctionTool, given: JsonObject) -> list[Claim] | None:
    match rule:
        case FixedResource():
            return [Claim(rule.key, rule.mode)]
        case FieldResource():
            value: JsonValue = given.get(rule.field)
            names = value if isinstance(value, list) else [value]
            texts = [name for name in names if isinstance(name, str)]
            if len(texts) < len(names):
                return None
            return [entry.named(Claim(entry.resource_key(name), rule.mode, tree=rule.tree)) for name in texts]


async def _call(name: str, function: Function, given: JsonObject, context: RunContext) -> Returned:
    """The outcome of the function; one that is not async has a thread of its own until it returns."""
    if isinstance(function, TextFunction) or inspect.iscoroutinefunction(function):
        outcome: Returned = await function(given, context)
        return outcome
    returned = await run_in_thread(lambda _: function(given, context), f"the tool {name}")
    return await returned if inspect.isawaitable(returned) else returned


# --- several ports as one --------------------------------------------------------------------------------


class CombinedTools(Tools):
    """All that the parts offer, in their order. Raises ValueError when two of them offer tools of the same name."""

    def __init__(self, parts: Iterable[Tools]) -> None:
        self._by_name: dict[str, Tools] = {}
        self._offered: list[Tool] = []
        for part in parts:
            for tool in part.offered():
                if tool.name in self._by_name:
                    raise ValueError(f"two tools are named {tool.name}; give one of them another name")
                self._by_name[tool.name] = part
                self._offered.append(tool)

    @override
    def offered(self) -> tuple[Tool, ...]:
        return tuple(self._offered)

    @override
    def check(self, command: CheckCall) -> Verdict:
        part = self._by_name.get(command.tool)
        return UnknownTool() if part is None else part.check(command)

    @override
    async def run(self, command: StartTool, context: RunContext) -> ToolOutput:
        part = self._by_name.get(command.tool)
        if part is None:  # the offered tools are part of a log, which may go on with fewer of them
            raise ToolError(f"there is no tool {command.tool} here; use another one")
        return await part.run(command, context)
