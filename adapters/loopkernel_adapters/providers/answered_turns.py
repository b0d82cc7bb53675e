"""The thread as APIs of chats want it: what the user says, and replies whose calls are answered at once."""

import re
from collections.abc import Iterator

from attrs import frozen
from loopkernel.data.blocks import MediaBlock, TextBlock, ToolCall, ToolResult
from loopkernel.data.effects import Request
from loopkernel.data.ids import CallId
from loopkernel.data.projected import ProjectedBlock, ProjectedMessage, Role
from loopkernel.data.words import CallStatus
from loopkernel.loop.algorithms.projection import project

_USABLE_ID = re.compile(r"[!-~]+")  # printable, without blanks; some servers want their own form back


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


# --- the turns of the thread ---------------------------------------------------------------------------

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
