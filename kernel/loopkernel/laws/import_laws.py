"""The pair law about conversations from elsewhere: REPAIR-FIX.

The repaired thread is told again as a conversation from elsewhere, and the session begun again from it: that must
give the thread that it came from. Whether the thread itself is sound is for PAIR to say.
"""

from collections.abc import Iterator
from typing import assert_never

from attrs import evolve

from loopkernel.data.blocks import AssistantBlock, ToolCall
from loopkernel.data.events import ThreadRepaired
from loopkernel.data.foreign import (
    ForeignBlock,
    ForeignCall,
    ForeignMessage,
    ForeignReply,
    ForeignResult,
    ForeignResults,
    ForeignUser,
)
from loopkernel.data.messages import AssistantMessage, Message, ResultMessage, UserMessage
from loopkernel.data.records import StepRecord
from loopkernel.data.states import State
from loopkernel.data.steps import Context
from loopkernel.data.thread_deltas import Created
from loopkernel.laws.accounts.repairs import repaired
from loopkernel.laws.reports import Judged
from loopkernel.laws.shadow.step import JudgedStep
from loopkernel.laws.views import taken_again

LATER_MS = 86_400_000  # a day: a repair that reads the clock gives itself away


def repair_fix(step: JudgedStep, judged: Judged) -> Iterator[str]:
    """A thread from elsewhere is repaired alike at any time, only once, and not in silence."""
    if isinstance(step.taken, Created) and step.taken.start:
        yield from _unfixed(step.record, step.taken, judged)


def _unfixed(record: StepRecord, delta: Created, judged: Judged) -> Iterator[str]:
    thread = messages_of(record.after)
    delayed = evolve(record.context, now_ms=record.context.now_ms + LATER_MS)
    later = taken_again(record.before, delayed, judged.transition)
    if later is not None and messages_of(later.next) != thread:
        yield "the thread is repaired otherwise a day later"
    told = tuple(as_foreign(message) for message in thread)
    twice = taken_again(record.before, Context(evolve(delta, start=told), record.context.now_ms), judged.transition)
    if twice is not None:
        if messages_of(twice.next) != thread:
            yield "the thread is another when it is repaired a second time"
        if any(isinstance(effect, ThreadRepaired) for effect in twice.effects):
            yield "a second repair finds something to do"
    repairs = [one for effect in record.effects if isinstance(effect, ThreadRepaired) for one in effect.repairs]
    expected, count = repaired(delta.start)
    if told != expected:
        yield f"the thread has {len(told)} messages, and is repaired otherwise than into {len(expected)}"
    if len(repairs) != count:
        yield f"{len(repairs)} repairs are told, and {count} were made"


def messages_of(state: State) -> tuple[Message, ...]:
    """The thread of the state; none before there is a session."""
    return () if state.session is None else tuple(state.session.thread)


def as_foreign(message: Message) -> ForeignMessage:
    """The message as a recording would hold it."""
    match message:
        case UserMessage():
            return ForeignUser(message.content)
        case AssistantMessage():
            return ForeignReply(content=tuple(_block(block) for block in message.content), model=message.model)
        case ResultMessage():
            return ForeignResults(
                tuple(
                    ForeignResult(
                        provider_id=result.provider_id,
                        status=result.status,
                        content=result.content,
                        status_from_text=result.status_from_text,
                    )
                    for result in message.results
                )
            )
        case _:
            assert_never(message)


def _block(block: AssistantBlock) -> ForeignBlock:
    if isinstance(block, ToolCall):
        return ForeignCall(provider_id=block.provider_id, tool=block.tool, input=block.input)
    return block
