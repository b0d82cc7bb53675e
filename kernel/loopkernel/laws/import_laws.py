"""The pair law about conversations from elsewhere: REPAIR-FIX.

The repaired thread is told again as a conversation from elsewhere, and the session begun again from it: that must
give the thread that it came from. Whether the thread itself is sound is for PAIR to say.
"""

from collections.abc import Iterator, Sequence
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
    Repair,
    RepairKind,
)
from loopkernel.data.messages import AssistantMessage, Message, ResultMessage, UserMessage
from loopkernel.data.records import StepRecord
from loopkernel.data.states import State
from loopkernel.data.steps import Context
from loopkernel.data.thread_deltas import Created
from loopkernel.laws.reports import Breach, Judged
from loopkernel.laws.views import refuses, taken_again

LATER_MS = 86_400_000  # a day: a repair that reads the clock gives itself away


def repair_fix(records: Sequence[StepRecord], judged: Judged) -> Iterator[Breach]:
    """A thread from elsewhere is repaired alike at any time, only once, and not in silence."""
    for step, record in enumerate(records):
        delta = record.context.delta
        if isinstance(delta, Created) and delta.start and not refuses(record):
            for wrong in _unfixed(record, delta, judged):
                yield Breach("REPAIR-FIX", step, wrong)


def _unfixed(record: StepRecord, delta: Created, judged: Judged) -> Iterator[str]:
    repaired = messages_of(record.after)
    delayed = evolve(record.context, now_ms=record.context.now_ms + LATER_MS)
    later = taken_again(record.before, delayed, judged.transition)
    if later is not None and messages_of(later.next) != repaired:
        yield "the thread is repaired otherwise a day later"
    told = tuple(as_foreign(message) for message in repaired)
    twice = taken_again(record.before, Context(evolve(delta, start=told), record.context.now_ms), judged.transition)
    if twice is not None:
        if messages_of(twice.next) != repaired:
            yield "the thread is another when it is repaired a second time"
        if any(isinstance(effect, ThreadRepaired) for effect in twice.effects):
            yield "a second repair finds something to do"
    repairs = [one for effect in record.effects if isinstance(effect, ThreadRepaired) for one in effect.repairs]
    if _accounted(delta.start, repairs) != _spoken(told):
        yield "messages or results were added or dropped, and no event says so"


def messages_of(state: State) -> tuple[Message, ...]:
    """The thread of the state; none before there is a session."""
    return () if state.session is None else tuple(state.session.thread)


def _accounted(start: Sequence[ForeignMessage], repairs: Sequence[Repair]) -> tuple[int, int]:
    """How many messages that hold no results, and how many results, are left of these by the repairs that are told."""
    messages, results = _spoken(start)
    for made in repairs:
        if made.kind is RepairKind.LOST:
            results += 1
        elif made.kind in (RepairKind.ORPHAN, RepairKind.DUPLICATE):
            results -= 1
        elif made.kind is RepairKind.EMPTY:
            messages -= not isinstance(start[made.place], ForeignResults)
    return messages, results


def _spoken(messages: Sequence[ForeignMessage]) -> tuple[int, int]:
    """How many messages that hold no results there are, and how many results."""
    answers = [len(message.results) for message in messages if isinstance(message, ForeignResults)]
    return len(messages) - len(answers), sum(answers)


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
