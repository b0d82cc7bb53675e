"""Pairing, slow and obvious: a second opinion on the laws PAIR and ORDER, and on the repair of rule RESUME-5.

Each question is answered by going through all messages again. No code is shared with the laws or with the repair.
"""

from collections.abc import Iterator, Sequence

from attrs import define

from loopkernel.data.blocks import ReasoningBlock, TextBlock, ToolCall, ToolResult
from loopkernel.data.foreign import (
    ForeignCall,
    ForeignMessage,
    ForeignReply,
    ForeignResult,
    ForeignResults,
)
from loopkernel.data.projected import ProjectedMessage, Role
from loopkernel.data.words import CallStatus
from loopkernel.loop.algorithms.wording import LOST

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


# --- the repair of a conversation -----------------------------------------------------------------------


@define(kw_only=True)
class _Call:
    """A call, the index of its message, and the result that answers it."""

    message: int
    call: ForeignCall
    answer: ForeignResult | None = None


@define(kw_only=True)
class _Result:
    """A result, and the index of the message that it was found in."""

    message: int
    result: ForeignResult


def slow_repair(conversation: Sequence[ForeignMessage]) -> tuple[tuple[ForeignMessage, ...], int]:
    """The conversation made whole, and the number of repairs: results added, dropped or moved, messages dropped.

    1. A result that stands behind a call of its id answers one: of the latest reply that has such a call without an
       answer, the first. Where there is none it is dropped.
    2. Then each result that stands behind no call of its id answers the first call of its id without an answer, and is
       moved there. Where there is none it is dropped.
    3. A call without an answer is answered as lost.
    4. Messages that say nothing are dropped. The answers to a reply stand right behind it, in the order of its calls;
       if they stood right behind it before, in whatever order and number of messages, none of them was moved.
    """
    calls = [
        _Call(message=index, call=call)
        for index, message in enumerate(conversation)
        if isinstance(message, ForeignReply)
        for call in message.calls
    ]
    results = [
        _Result(message=index, result=result)
        for index, message in enumerate(conversation)
        if isinstance(message, ForeignResults)
        for result in message.results
    ]
    behind = [found for found in results if _calls_ahead_of(found, calls)]
    early = [found for found in results if not _calls_ahead_of(found, calls)]
    repairs = 0
    for found in behind:
        waiting = [call for call in _calls_ahead_of(found, calls) if call.answer is None]
        nearest = [call for call in waiting if call.message == max(other.message for other in waiting)]
        if nearest:
            nearest[0].answer = found.result
        if not nearest or not _right_behind(found, nearest[0], conversation):
            repairs += 1  # dropped, or moved
    for found in early:
        waiting = [call for call in calls if _same_id(found, call) and call.answer is None]
        if waiting:
            waiting[0].answer = found.result
        repairs += 1  # dropped, or moved
    repairs += len([call for call in calls if call.answer is None])
    repairs += len([message for message in conversation if _says_nothing(message)])
    return _written(conversation, calls), repairs


def _same_id(found: _Result, call: _Call) -> bool:
    return found.result.provider_id == call.call.provider_id


def _calls_ahead_of(found: _Result, calls: list[_Call]) -> list[_Call]:
    """The calls of the result's id that stand before it."""
    return [call for call in calls if _same_id(found, call) and call.message < found.message]


def _right_behind(found: _Result, call: _Call, conversation: Sequence[ForeignMessage]) -> bool:
    """Whether nothing that is said stands between the call's reply and the result but other results."""
    between = conversation[call.message + 1 : found.message]
    return all(isinstance(message, ForeignResults) or _says_nothing(message) for message in between)


def _says_nothing(message: ForeignMessage) -> bool:
    if isinstance(message, ForeignResults):
        return len(message.results) == 0
    return all(isinstance(block, TextBlock | ReasoningBlock) and not block.text.strip() for block in message.content)


def _written(conversation: Sequence[ForeignMessage], calls: list[_Call]) -> tuple[ForeignMessage, ...]:
    """What is said, in its order; behind each reply the answers to its calls."""
    written: list[ForeignMessage] = []
    for index, message in enumerate(conversation):
        if isinstance(message, ForeignResults) or _says_nothing(message):
            continue
        written.append(message)
        answers = [call.answer or _lost(call.call) for call in calls if call.message == index]
        if answers:
            written.append(ForeignResults(tuple(answers)))
    return tuple(written)


def _lost(call: ForeignCall) -> ForeignResult:
    return ForeignResult(provider_id=call.provider_id, status=CallStatus.LOST, content=(TextBlock(LOST),))
