"""What an agent asked for, the same for all wires: the texts, calls and answers of a request, and its tools."""

import re
from collections.abc import Iterator, Mapping

from attrs import frozen
from loopkernel.data.json_text import JsonValue

_LABEL = re.compile(r"echo (?:part|begin) (\w+) >>")


@frozen
class Text:
    """Words of a role: `user`, `assistant`, or `system`."""

    role: str
    text: str


@frozen
class Call:
    """A call of the model, as the agent tells it."""

    id: str
    name: str
    arguments: str

    @property
    def label(self) -> str:
        """Which call of the script it is: by its command, or else by its id, which an agent may change."""
        found = _LABEL.search(self.arguments)
        return found[1] if found else self.id.partition("|")[0].removeprefix("call_")


@frozen
class Given:
    """What the agent answers a call with."""

    id: str
    text: str
    failed: bool = False


Item = Text | Call | Given


@frozen(kw_only=True)
class Tool:
    """A tool that the agent offers."""

    name: str
    schema: Mapping[str, JsonValue]


@frozen(kw_only=True)
class Asked:
    """A request. `size` is that of its body, in characters."""

    items: tuple[Item, ...]
    tools: tuple[Tool, ...]
    streams: bool
    model: str
    size: int = 0

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls in it."""
        return tuple(item for item in self.items if isinstance(item, Call))

    def words(self, role: str) -> Iterator[str]:
        """The texts of a role."""
        return (item.text for item in self.items if isinstance(item, Text) and item.role == role)

    def answers(self) -> Iterator[tuple[Call, Given | None]]:
        """Each call with its answer. Answers of one id belong to its calls in order."""
        found: list[tuple[Call, Given | None]] = []
        for item in self.items:
            match item:
                case Call():
                    found.append((item, None))
                case Given(id=name):
                    waiting = (at for at, (call, given) in enumerate(found) if call.id == name and given is None)
                    place = next(waiting, None)
                    if place is not None:
                        found[place] = (found[place][0], item)
                case Text():
                    pass
        yield from found


# --- reading what a stranger has sent ---


def mapping(value: JsonValue) -> dict[str, JsonValue]:
    """The object, or an empty one in place of anything else."""
    return value if isinstance(value, dict) else {}


def listed(value: JsonValue) -> list[JsonValue]:
    """The list, or an empty one in place of anything else."""
    return value if isinstance(value, list) else []


def text_in(value: JsonValue) -> str:
    """The text of a content: a string, or blocks of which some have text."""
    if isinstance(value, str):
        return value
    texts = (mapping(block).get("text") for block in listed(value))
    return "\n".join(text for text in texts if isinstance(text, str))


def word(value: JsonValue) -> str:
    """The string, or an empty one in place of anything else."""
    return value if isinstance(value, str) else ""
