"""A session that begins from a conversation recorded elsewhere: repaired once, then its own (rule RESUME-5)."""

from typing import assert_never

from loopkernel.data.blocks import AssistantBlock, ToolCall, ToolResult
from loopkernel.data.events import ThreadRepaired, ToolEnded
from loopkernel.data.foreign import ForeignCall, ForeignMessage, ForeignReply, ForeignResults, ForeignUser
from loopkernel.data.ids import CallId, ModelOperation
from loopkernel.data.sessions import OpenReply
from loopkernel.data.words import CallStatus, StopReason
from loopkernel.loop.algorithms.repair import repair
from loopkernel.loop.draft import Draft, L
from loopkernel.loop.history.thread import add_foreign_input, add_reply, add_results


def import_thread(draft: Draft[L], start: tuple[ForeignMessage, ...]) -> Draft[L]:
    """The repaired messages go into the thread.

    Recorded replies are numbered so that the last has number 0: requests of this session begin at 1. A call
    whose result was never recorded is answered as `lost`, and never runs (rule TOOL-16).
    """
    repaired = repair(start)
    number = 1 - sum(isinstance(message, ForeignReply) for message in repaired.messages)
    calls: tuple[ToolCall, ...] = ()
    for message in repaired.messages:
        match message:
            case ForeignUser():
                draft = add_foreign_input(draft, message.content)
            case ForeignReply():
                reply = OpenReply(ModelOperation(number), message.model)
                content = _content(message, reply.operation)
                calls = tuple(block for block in content if isinstance(block, ToolCall))
                draft = add_reply(draft, reply, content, _stop(calls))
                number += 1
            case ForeignResults():
                results = _results(message, calls)
                draft = draft.tell(*(ToolEnded(result) for result in results if result.status is CallStatus.LOST))
                draft = add_results(draft, calls[0].id.reply, results)
            case _:
                assert_never(message)
    return draft.tell(ThreadRepaired(repaired.repairs)) if repaired.repairs else draft


def _stop(calls: tuple[ToolCall, ...]) -> StopReason:
    return StopReason.TOOL_USE if calls else StopReason.END_TURN


def _content(message: ForeignReply, reply: ModelOperation) -> tuple[AssistantBlock, ...]:
    content: list[AssistantBlock] = []
    position = 0
    for block in message.content:
        if isinstance(block, ForeignCall):
            position += 1
            call = CallId(reply, position)
            content.append(ToolCall(id=call, provider_id=block.provider_id, tool=block.tool, input=block.input))
        else:
            content.append(block)
    return tuple(content)


def _results(message: ForeignResults, calls: tuple[ToolCall, ...]) -> tuple[ToolResult, ...]:
    """The results of the reply before them; the repair has put them in the order of its calls."""
    return tuple(
        ToolResult(
            call=call.id,
            provider_id=call.provider_id,
            tool=call.tool,
            status=result.status,
            content=result.content,
            ran=result.status is not CallStatus.LOST,
            status_from_text=result.status_from_text,
        )
        for call, result in zip(calls, message.results, strict=True)
    )
