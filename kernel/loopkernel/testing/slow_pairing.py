"""Pairing, slow and obvious: a second opinion on the laws PAIR and ORDER, and on the repair of rule RESUME-5.

Each question is answered by going through all messages again. No code is shared with the laws or with the repair.
"""

from collections.abc import Iterator, Sequence

from loopkernel.data.blocks import ToolCall, ToolResult
from loopkernel.data.projected import ProjectedMessage, Role

# --- a request ------------------------------------------------------------------------------------------


def wrong_pairs(request: Sequence[ProjectedMessage]) -> Iterator[str]:
    """What breaks PAIR: each call is answered exactly once, in the message right after it; no result is without a call.

    Calls are the model's, and results are told by the user.
    """
    for index, message in enumerate(request):
        for call in _calls(message):
            if message.role is not Role.ASSISTANT:
                yield f"message {index} is the user's, and makes call {call.id}"
            twins = [other for other in _calls(message) if other.id == call.id]
            answers = [result for result in _results_after(request, index) if result.call == call.id]
            if len(twins) != 1 or len(answers) != 1:
                yield f"message {index} makes call {call.id} {len(twins)} times, and {len(answers)} results follow"
        for result in _results(message):
            if message.role is not Role.USER:
                yield f"message {index} is the model's, and answers call {result.call}"
            if not any(call.id == result.call for call in _calls_before(request, index)):
                yield f"message {index} answers call {result.call}, which the message before does not make"


def wrong_order(request: Sequence[ProjectedMessage]) -> Iterator[str]:
    """What breaks ORDER: the calls of a message stand in the model's order, and so do the results that answer them."""
    for index, message in enumerate(request):
        calls = _calls(message)
        for place, call in enumerate(calls):
            for later in calls[place + 1 :]:
                if later.id.position < call.id.position:
                    yield f"message {index} makes call {later.id} behind call {call.id}"
        asked = [call.id for call in _calls_before(request, index)]
        answered = [result.call for result in _results(message) if result.call in asked]
        for place, one in enumerate(answered):
            for behind in answered[place + 1 :]:
                if asked.index(behind) < asked.index(one):
                    yield f"message {index} answers call {behind} behind call {one}"


def _calls(message: ProjectedMessage) -> list[ToolCall]:
    return [block for block in message.content if isinstance(block, ToolCall)]


def _results(message: ProjectedMessage) -> list[ToolResult]:
    return [block for block in message.content if isinstance(block, ToolResult)]


def _calls_before(request: Sequence[ProjectedMessage], index: int) -> list[ToolCall]:
    return _calls(request[index - 1]) if index > 0 else []


def _results_after(request: Sequence[ProjectedMessage], index: int) -> list[ToolResult]:
    return _results(request[index + 1]) if index + 1 < len(request) else []
