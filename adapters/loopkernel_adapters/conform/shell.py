"""The tool of an agent that runs commands: found in the tools that it offers, and called as its schema wants."""

import re
from collections.abc import Iterable, Mapping

from attrs import field, frozen
from loopkernel.data.json_text import JsonValue

from loopkernel_adapters.conform.asked import Tool, listed, mapping
from loopkernel_adapters.conform.script import as_json

_NAMES = re.compile(r"^(bash|shell|shell_command|exec_command|run_shell_command|execute_command|run_command|terminal)$")
_LIKE = re.compile(r"bash|shell|terminal|exec|command|cmd", re.IGNORECASE)
_SEVERAL = "commands"
_COMMANDS = ("command", "cmd", _SEVERAL, "script")


@frozen(kw_only=True)
class ShellTool:
    """The name of the tool, the argument that is its command, and the rest.

    `before` are the words before the command, where the argument is a list; None where it is a text.
    """

    name: str
    argument: str
    before: tuple[str, ...] | None = None
    rest: Mapping[str, JsonValue] = field(factory=dict)

    def arguments(self, command: str) -> str:
        """The arguments that run the command, as JSON."""
        value: JsonValue = command if self.before is None else [*self.before, command]
        return as_json({self.argument: value, **self.rest})


@frozen(kw_only=True)
class ShellHint:
    """What an agent file says of the tool, where it is not to be guessed."""

    tool: str | None = None
    argument: str | None = None
    rest: Mapping[str, JsonValue] = field(factory=dict)


@frozen(kw_only=True)
class Finish:
    """The call that ends a turn of an agent which words alone do not end: of a tool, or a command of its shell."""

    tool: str | None = None
    arguments: Mapping[str, JsonValue] = field(factory=dict)
    command: str | None = None

    def called_in(self, shell: ShellTool) -> tuple[str, str]:
        """The tool that is called, and the arguments."""
        if self.command is not None:
            return shell.name, shell.arguments(self.command)
        return self.tool or shell.name, as_json(dict(self.arguments))


def shell_in(tools: Iterable[Tool], hint: ShellHint) -> ShellTool | None:
    """The tool that runs commands: the one that is named, or else the one with the likeliest name."""
    offered = list(tools)
    if hint.tool is not None:
        ranked = [tool for tool in offered if tool.name == hint.tool]
    else:
        exact = [tool for tool in offered if _NAMES.match(tool.name.lower())]
        ranked = [*exact, *(tool for tool in offered if _LIKE.search(tool.name) and tool not in exact)]
    for tool in ranked:
        found = _called(tool, hint)
        if found is not None:
            return found
    return None


def _called(tool: Tool, hint: ShellHint) -> ShellTool | None:
    """How the tool is called; None where it has no argument for a command."""
    properties = mapping(tool.schema.get("properties"))
    names = (hint.argument,) if hint.argument is not None else _COMMANDS
    argument = next((name for name in names if name in properties), None)
    if argument is None:
        return None
    needed = [name for name in listed(tool.schema.get("required")) if isinstance(name, str) and name != argument]
    rest = {name: hint.rest.get(name, _any_value(mapping(properties.get(name)))) for name in needed}
    before: tuple[str, ...] | None = None
    if _kind(mapping(properties[argument])) == "array":
        before = () if argument == _SEVERAL else ("bash", "-lc")  # a list of commands, or the words of one
    return ShellTool(name=tool.name, argument=argument, before=before, rest={**rest, **hint.rest})


def _kind(schema: dict[str, JsonValue]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        return next((each for each in kind if isinstance(each, str) and each != "null"), "string")
    return kind if isinstance(kind, str) else "string"


def _any_value(schema: dict[str, JsonValue]) -> JsonValue:
    """A value that fits the schema of an argument that is needed and says nothing here."""
    choices = listed(schema.get("enum"))
    if choices:
        return choices[0]
    match _kind(schema):
        case "boolean":
            return False
        case "integer" | "number":
            least = schema.get("minimum", 60)
            return least if isinstance(least, int | float) else 60
        case "array":
            return []
        case "object":
            return {}
        case _:
            return "run it"
