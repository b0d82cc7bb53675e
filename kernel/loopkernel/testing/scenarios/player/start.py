"""The thread that a scenario begins from, as the kernel takes it: with what it calls the calls there."""

from collections.abc import Iterable
from typing import assert_never

from loopkernel.data.blocks import RawInput, TextBlock
from loopkernel.data.foreign import (
    ForeignBlock,
    ForeignCall,
    ForeignMessage,
    ForeignReply,
    ForeignResult,
    ForeignResults,
    ForeignUser,
)
from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.loop.algorithms.repair import repair
from loopkernel.testing.scenarios.data.world import Role, ScriptedCall, StartMessage
from loopkernel.testing.scenarios.player.call_names import CallNames


def foreign_messages(start: Iterable[StartMessage]) -> tuple[ForeignMessage, ...]:
    """The messages as they were found, however broken; results name calls by their provider's id."""
    messages = tuple(start)
    ids = {call.name: call.id for message in messages for call in message.calls}
    return tuple(_foreign(message, ids) for message in messages)


def _foreign(message: StartMessage, ids: dict[str, str]) -> ForeignMessage:
    if message.results:
        return ForeignResults(
            tuple(
                ForeignResult(
                    provider_id=ids.get(result.call, result.call),
                    status=result.status,
                    content=(TextBlock(result.text),) if result.text else (),
                )
                for result in message.results
            )
        )
    text = () if message.text is None else (TextBlock(message.text),)
    match message.role:
        case Role.USER:
            return ForeignUser(text)
        case Role.ASSISTANT:
            calls: tuple[ForeignBlock, ...] = tuple(_call(call) for call in message.calls)
            return ForeignReply(content=(*text, *calls))
        case _:
            assert_never(message.role)


def _call(call: ScriptedCall) -> ForeignCall:
    given = Json.of(call.input) if call.raw is None else RawInput(call.raw)
    return ForeignCall(provider_id=call.id, tool=call.tool, input=given)


def name_start_calls(start: Iterable[StartMessage], names: CallNames) -> None:
    """Make the names of the imported calls known: the kernel numbers imported replies up to 0."""
    messages = tuple(start)
    replies = sum(isinstance(message, ForeignReply) for message in repair(foreign_messages(messages)).messages)
    kept = (message for message in messages if message.role is Role.ASSISTANT and _says_something(message))
    for number, message in enumerate(kept, 1 - replies):
        names.expect_calls(ModelOperation(number), (call.name for call in message.calls))


def _says_something(message: StartMessage) -> bool:
    return bool(message.calls) or (message.text is not None and message.text.strip() != "")
