"""The repair of a conversation from elsewhere (rule RESUME-5): plain data in, plain data out, usable alone.

After it, each reply that has calls is followed at once by one message with exactly one result for each, in
the order of the calls. Repairing twice changes nothing.
"""

from collections import deque
from collections.abc import Sequence
from typing import assert_never

from loopkernel.data.blocks import ReasoningBlock, TextBlock, UserBlock
from loopkernel.data.foreign import (
    ForeignBlock,
    ForeignMessage,
    ForeignReply,
    ForeignResult,
    ForeignResults,
    ForeignUser,
    Repair,
    RepairKind,
)
from loopkernel.data.value_classes import frozen
from loopkernel.data.words import CallStatus
from loopkernel.loop.algorithms.wording import LOST


@frozen
class Repaired:
    """The repaired messages, and each repair, in the order of the messages that were given."""

    messages: tuple[ForeignMessage, ...]
    repairs: tuple[Repair, ...]


@frozen
class _Call:
    """A call by the place of its reply and its position there, from 0."""

    reply: int
    position: int


class _Open:
    """The open calls with one id, reply by reply, in order."""

    def __init__(self) -> None:
        self._replies: deque[deque[_Call]] = deque()

    def add(self, call: _Call) -> None:
        """The call, which comes after all others, is open."""
        if not self._replies or self._replies[-1][0].reply != call.reply:
            self._replies.append(deque())
        self._replies[-1].append(call)

    def take_nearest(self) -> _Call | None:
        """The first open call of the latest reply that has one; it is open no more."""
        if not self._replies:
            return None
        nearest = self._replies[-1].popleft()
        if not self._replies[-1]:
            self._replies.pop()
        return nearest

    def take_first(self) -> _Call | None:
        """The first open call of all; it is open no more."""
        if not self._replies:
            return None
        first = self._replies[0].popleft()
        if not self._replies[0]:
            self._replies.popleft()
        return first


def repair(messages: Sequence[ForeignMessage]) -> Repaired:
    """The conversation made whole: nothing is invented but `lost` results, and nothing runs again."""
    answers, repairs = _match(messages)
    repaired: list[ForeignMessage] = []
    for place, message in enumerate(messages):
        if isinstance(message, ForeignResults):
            if not message.results:
                repairs.append(Repair(RepairKind.EMPTY, place))
        elif _is_empty(message):
            repairs.append(Repair(RepairKind.EMPTY, place))
        else:
            repaired.append(message)
            if isinstance(message, ForeignReply) and message.calls:
                results = []
                for position, call in enumerate(message.calls):
                    found = answers.get(_Call(place, position))
                    if found is None:
                        repairs.append(Repair(RepairKind.LOST, place, call.provider_id))
                        found = ForeignResult(
                            provider_id=call.provider_id, status=CallStatus.LOST, content=(TextBlock(LOST),)
                        )
                    results.append(found)
                repaired.append(ForeignResults(tuple(results)))
    return Repaired(tuple(repaired), tuple(sorted(repairs, key=lambda made: made.place)))


def repair_text(made: Repair) -> str:
    """The repair as a sentence; messages are counted from 1."""
    where = f"message {made.place + 1}"
    match made.kind:
        case RepairKind.LOST:
            return f"{where}: call {made.provider_id} had no result, and is answered as lost"
        case RepairKind.MOVED:
            return f"{where}: the result of call {made.provider_id} did not stand right behind it, and was moved there"
        case RepairKind.ORPHAN:
            return f"{where}: a result names call {made.provider_id}, which nobody made, and was dropped"
        case RepairKind.DUPLICATE:
            return f"{where}: call {made.provider_id} had a result already, and this one was dropped"
        case RepairKind.EMPTY:
            return f"{where}: it says nothing, and was dropped"
        case _:
            assert_never(made.kind)


def _is_empty(message: ForeignUser | ForeignReply) -> bool:
    """Whether the message says nothing: it holds blank text only, and no call."""
    return all(_is_blank(block) for block in message.content)


def _is_blank(block: UserBlock | ForeignBlock) -> bool:
    return isinstance(block, TextBlock | ReasoningBlock) and block.text.strip() == ""


def _match(messages: Sequence[ForeignMessage]) -> tuple[dict[_Call, ForeignResult], list[Repair]]:
    """Which result answers which call, and the results that were moved or dropped for it.

    A result answers the nearest open call before it; one whose id no call has had yet, the first open call
    after it; any other, which answers nothing, is dropped. Only results right behind their reply stay where
    they are.
    """
    open_calls: dict[str, _Open] = {}
    answers: dict[_Call, ForeignResult] = {}
    early: list[tuple[int, ForeignResult]] = []
    repairs: list[Repair] = []
    behind: int | None = None  # the reply that results would stand right behind
    for place, message in enumerate(messages):
        match message:
            case ForeignReply():
                behind = behind if _is_empty(message) else place
                for position, call in enumerate(message.calls):
                    open_calls.setdefault(call.provider_id, _Open()).add(_Call(place, position))
            case ForeignUser():
                behind = behind if _is_empty(message) else None
            case ForeignResults():
                for result in message.results:
                    if result.provider_id not in open_calls:
                        early.append((place, result))
                        continue
                    call_found = open_calls[result.provider_id].take_nearest()
                    if call_found is None:
                        repairs.append(Repair(RepairKind.DUPLICATE, place, result.provider_id))
                        continue
                    if call_found.reply != behind:
                        repairs.append(Repair(RepairKind.MOVED, place, result.provider_id))
                    answers[call_found] = result
            case _:
                assert_never(message)
    for place, result in early:
        waiting = open_calls.get(result.provider_id)
        call_found = None if waiting is None else waiting.take_first()
        if waiting is None:
            repairs.append(Repair(RepairKind.ORPHAN, place, result.provider_id))
        elif call_found is not None:
            answers[call_found] = result
            repairs.append(Repair(RepairKind.MOVED, place, result.provider_id))
        else:
            repairs.append(Repair(RepairKind.DUPLICATE, place, result.provider_id))
    return answers, repairs
