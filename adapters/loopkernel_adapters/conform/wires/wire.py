"""What a wire is: it reads requests, and writes replies and problems, as a stream or whole."""

from collections.abc import Iterator
from typing import Protocol

from attrs import frozen
from loopkernel.data.json_text import JsonValue

from loopkernel_adapters.conform.asked import Asked
from loopkernel_adapters.conform.script import Problem, Reply, Stop


@frozen(kw_only=True)
class WireCall:
    """A call as it goes out. `arguments` is what comes of them; `whole` says whether that is all."""

    id: str
    name: str
    arguments: str
    whole: bool


@frozen(kw_only=True)
class WireReply:
    """A reply as it goes out: texts and calls in order, and how it ends. One that is not `ended` is cut."""

    number: int
    model: str
    parts: tuple[str | WireCall, ...]
    stop: Stop
    ended: bool


class Wire(Protocol):
    """How one vendor's interface looks on the wire."""

    name: str
    path: str  # the end of the path that is asked

    def read(self, body: dict[str, JsonValue]) -> Asked:
        """The request in the common form."""

    def stream(self, reply: WireReply) -> Iterator[str]:
        """The reply as server-sent events, up to where it ends or is cut."""

    def whole(self, reply: WireReply) -> JsonValue:
        """The reply as one document."""

    def problem(self, problem: Problem) -> JsonValue:
        """The body of an error."""

    def status(self, problem: Problem) -> int:
        """The status of an error."""


def sent(event: JsonValue, name: str | None = None) -> str:
    """A server-sent event."""
    from loopkernel_adapters.conform.script import as_json

    return (f"event: {name}\n" if name else "") + f"data: {as_json(event)}\n\n"


def reply_of(reply: Reply, number: int, model: str, parts: tuple[str | WireCall, ...]) -> WireReply:
    """The scripted reply with its parts as they go out."""
    return WireReply(number=number, model=model, parts=parts, stop=reply.stop, ended=reply.ended)
