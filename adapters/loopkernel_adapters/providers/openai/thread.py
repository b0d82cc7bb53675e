"""The thread as OpenAI's APIs want it: names, ids and media that they take, and each reply with its calls answered."""

import base64
import binascii
import re
from collections.abc import Iterable, Iterator

from attrs import frozen
from loopkernel.data.blocks import MediaBlock, TextBlock, ToolCall, ToolResult
from loopkernel.data.effects import Request
from loopkernel.data.ids import CallId
from loopkernel.data.json_text import safe_text
from loopkernel.data.projected import ProjectedBlock, ProjectedMessage, Role
from loopkernel.data.tools import Tool
from loopkernel.data.words import CallStatus
from loopkernel.loop.algorithms.projection import project, safe_tool_name

from loopkernel_adapters.image_types import BEGINNING, image_type

_LONGEST_NAME = 64
_USABLE_ID = re.compile(r"[!-~]+")  # printable, without blanks; some servers want their own form back


class ToolNames:
    """What the offered tools are called on the wire: safe, and no two alike."""

    def __init__(self, tools: Iterable[Tool]) -> None:
        offered = {tool.name: tool for tool in reversed(tuple(tools))}  # of a name that stands twice, the first
        self._own: dict[str, str] = {name: name for name in offered if safe_tool_name(name) == name}
        for name in reversed(offered):
            if name not in self._own:
                self._own[_free_name(safe_tool_name(name), self._own)] = name
        wire = {own: name for name, own in self._own.items()}
        self.offered: tuple[tuple[str, Tool], ...] = tuple((wire[name], offered[name]) for name in reversed(offered))
        self._wire = wire

    def on_the_wire(self, name: str | None) -> str | None:
        """What an offered tool is called there; None for any other."""
        return None if name is None else self._wire.get(name)

    def own(self, wire_name: str) -> str:
        """The tool that the model means. What nobody offered stays as it is: the kernel tells the model so."""
        return self._own.get(wire_name, wire_name)


def _free_name(name: str, taken: Iterable[str]) -> str:
    free, attempt = name, 1
    while free in taken:
        attempt += 1
        suffix = f"_{attempt}"
        free = name[: _LONGEST_NAME - len(suffix)] + suffix
    return free


class CallIds:
    """Ids for the calls of one request, given out in the order of the thread.

    A provider's own id is kept where it can be: some servers use an id again, leave it out, or make it too long
    (rule TOOL-14). An id depends only on the calls before, so a thread that grows keeps those that it had.
    """

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._used: set[str] = set()

    def of(self, call: ToolCall) -> str:
        """The id of the next call."""
        wanted = call.provider_id
        if wanted in self._used or len(wanted) > self._longest or _USABLE_ID.fullmatch(wanted) is None:
            number = len(self._used) + 1
            while (wanted := f"call{number:05d}") in self._used:  # nine letters and digits, which all servers take
                number += 1
        self._used.add(wanted)
        return wanted


# --- Media as OpenAI's APIs take them: images and PDF files, as an address or as data. Texts become text

IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
PDF_TYPE = "application/pdf"
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_ADDRESS = re.compile(r"https?://[!-~]+")
_DATA_ADDRESS = re.compile(
    r"data:([!-+\--~]+);base64,([A-Za-z0-9+/]+={0,2})"
)  # its type, which has no comma, and its data


@frozen
class ShownImage:
    """An image: `url` is its address, or holds its data."""

    url: str


@frozen
class ShownFile:
    """A PDF file: `url` is its address, or holds its data."""

    url: str

    @property
    def is_data(self) -> bool:
        """Whether the file itself is in the URL."""
        return self.url.startswith("data:")


@frozen
class ShownText:
    """A text, or what is said in place of what cannot be shown; never blank."""

    text: str


Shown = ShownImage | ShownFile | ShownText


def shown(block: MediaBlock) -> Shown:
    """How the model is shown the media. What it cannot be shown is named."""
    media_type, data = block.media_type, block.data.strip()
    if held := _DATA_ADDRESS.fullmatch(data):
        media_type, data = held[1], held[2]  # an address with data in it says itself what that is
    media_type = media_type.partition(";")[0].strip().lower()
    if media_type.startswith("text/"):
        return _text(block, data)
    url = _url(media_type, data)
    if url is not None and media_type in IMAGE_TYPES:
        return ShownImage(url)
    if url is not None and media_type == PDF_TYPE:
        return ShownFile(url)
    return _placeholder(block)


def _url(media_type: str, data: str) -> str | None:
    if _ADDRESS.fullmatch(data):
        return data
    if len(data) % 4 == 0 and _BASE64.fullmatch(data):
        seen = image_type(base64.b64decode(data[: 2 * BEGINNING])) if media_type in IMAGE_TYPES else None
        return f"data:{seen or media_type};base64,{data}"
    return None


def _text(block: MediaBlock, data: str) -> ShownText:
    try:
        text = base64.b64decode(data, validate=True).decode()
    except (binascii.Error, ValueError):
        return _placeholder(block)
    return ShownText(safe_text(text)) if text.strip() else _placeholder(block)


def _placeholder(block: MediaBlock) -> ShownText:
    return ShownText(f"({block.media_type.strip() or 'a file'}, which this model cannot be shown)")


# --- The thread as OpenAI's APIs want it: what the user says, and replies whose calls are answered at once

NOTHING_SAID = "(nothing was said)"  # both APIs refuse a request without any message
NO_OUTPUT = "(no output)"
NO_RESULT = "(The result of this call is not known.)"


@frozen
class UserTurn:
    """What the user says; not empty."""

    content: tuple[TextBlock | MediaBlock, ...]


@frozen(kw_only=True)
class AnsweredCall:
    """A call, the id that it goes by in this request, and its answer; None where the thread has none."""

    id: str
    call: ToolCall
    result: ToolResult | None


@frozen(kw_only=True)
class ModelTurn:
    """A reply, and its calls in their order, each with its answer."""

    content: tuple[ProjectedBlock, ...]
    calls: tuple[AnsweredCall, ...]


def turns(request: Request, longest_id: int) -> Iterator[UserTurn | ModelTurn]:
    """The thread, oldest first. An answer without its call is left out: no API takes it, and the kernel makes none."""
    ids = CallIds(longest_id)
    messages = project(request.thread, request.model)
    for place, message in enumerate(messages):
        match message.role:
            case Role.ASSISTANT:
                results = _results_behind(messages, place)
                calls = tuple(
                    AnsweredCall(id=ids.of(block), call=block, result=results.get(block.id))
                    for block in message.content
                    if isinstance(block, ToolCall)
                )
                yield ModelTurn(content=message.content, calls=calls)
            case Role.USER:
                said = tuple(block for block in message.content if isinstance(block, TextBlock | MediaBlock))
                if said:
                    yield UserTurn(said)


def _results_behind(messages: tuple[ProjectedMessage, ...], place: int) -> dict[CallId, ToolResult]:
    """The results between this reply and the next one, the first of each call."""
    results: dict[CallId, ToolResult] = {}
    for behind in range(place + 1, len(messages)):
        if messages[behind].role is Role.ASSISTANT:
            break
        for block in messages[behind].content:
            if isinstance(block, ToolResult):
                results.setdefault(block.call, block)
    return results


def result_text(result: ToolResult | None) -> str:
    """The text of an answer, never blank. The APIs have no field for an error, so the text says that it is one."""
    if result is None:
        return NO_RESULT
    text = "\n".join(block.text for block in result.content if isinstance(block, TextBlock))
    if result.status is CallStatus.ERROR and not text.casefold().startswith("error"):
        return f"Error: {text or NO_OUTPUT}"
    return text or NO_OUTPUT


def result_media(result: ToolResult | None) -> tuple[MediaBlock, ...]:
    """The media of an answer."""
    content = () if result is None else result.content
    return tuple(block for block in content if isinstance(block, MediaBlock))
