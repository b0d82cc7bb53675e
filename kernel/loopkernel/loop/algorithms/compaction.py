"""How large a thread is, when it is too large, and where it is cut (section COMPACT); usable alone.

cut = plan_cut(thread.messages, policy.compaction)
if cut is not None:
    shorter = cut_messages(thread.messages, cut, note)
"""

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import assert_never

from attrs import evolve

from loopkernel.data.blocks import MediaBlock, OpaqueBlock, ReasoningBlock, ServerCall, TextBlock, ToolCall
from loopkernel.data.choices import CompactionStrategy
from loopkernel.data.compactions import ContextSize, Cut
from loopkernel.data.messages import (
    SENT_BY_USER,
    AssistantMessage,
    Message,
    ResultMessage,
    UserMessage,
    UserOrigin,
)
from loopkernel.data.policy import Compaction
from loopkernel.data.vector import Vector

CHARACTERS_A_TOKEN = 4  # rule COMPACT-1
OPENS_A_TURN = frozenset({UserOrigin.SAID, UserOrigin.QUEUED})
LEFT_BY_A_CUT = frozenset({UserOrigin.SUMMARY, UserOrigin.GAP_NOTE})


# --- how large ------------------------------------------------------------------------------------------


def characters_of(message: Message) -> int:
    """The characters of a message that count: texts, names and inputs of calls, results. Media count nothing."""
    characters = 0
    match message:
        case UserMessage() | AssistantMessage():
            for block in message.content:
                characters += _characters(block)
        case ResultMessage():
            for result in message.results:
                for block in result.content:
                    characters += _characters(block)
        case _:
            assert_never(message)
    return characters


def _characters(block: TextBlock | MediaBlock | ReasoningBlock | OpaqueBlock | ToolCall | ServerCall) -> int:
    match block:
        case TextBlock() | ReasoningBlock():
            return len(block.text)
        case ToolCall():
            given = block.input
            return len(block.tool) + len(given.text)
        case ServerCall():
            return len(block.tool) + len(block.input.text)
        case OpaqueBlock():
            return len(block.payload.text)
        case MediaBlock():
            return 0
        case _:
            assert_never(block)


def grown(size: ContextSize, message: Message) -> ContextSize:
    """The size of a thread with one more message; a reply that reports its usage tells the size of all before it."""
    characters = characters_of(message)
    total = size.total + characters
    if isinstance(message, AssistantMessage) and message.usage.total:
        return ContextSize(message.usage.total, 0, total)
    return ContextSize(size.tokens, size.characters + characters, total)


def rewritten(total: int) -> ContextSize:
    """The size of a thread of so many characters, of which no report is left that holds."""
    return ContextSize(0, total, total)


def is_too_large(size: ContextSize, compaction: Compaction) -> bool:
    """Whether the estimate has reached one of the triggers (rule COMPACT-1)."""
    characters = size.tokens * CHARACTERS_A_TOKEN + size.characters
    limit, ratio = compaction.trigger_tokens, compaction.trigger_ratio
    if limit is not None and characters >= limit * CHARACTERS_A_TOKEN:
        return True
    if ratio is None or characters < ratio * compaction.window_tokens:  # far below: no need to be exact
        return False
    return characters >= Fraction(repr(ratio)) * compaction.window_tokens * CHARACTERS_A_TOKEN


def is_too_long(messages: Vector[Message], compaction: Compaction, *, first: bool) -> bool:
    """Whether a window holds more than it keeps, whatever its size (rule COMPACT-2).

    The number of turns is looked at for the `first` request of a turn: it cannot have changed since.
    """
    if compaction.strategy is not CompactionStrategy.WINDOW:
        return False
    if compaction.keep_messages is not None:
        return messages.size > compaction.keep_messages
    if compaction.keep_turns is None or not first:
        return False
    return _last(messages, compaction.keep_turns + 1, opens_turn) is not None


def within_window(messages: Vector[Message], compaction: Compaction) -> Compaction | None:
    """How a window is cut of which something has to go, however short it is: two messages behind its front (INFER-8).

    Its front is what a cut would leave there again: the message that opened the last turn, and what earlier cuts left.
    None: nothing is left to go.
    """
    if compaction.strategy is not CompactionStrategy.WINDOW or compaction.keep_messages is None:
        return compaction
    task = place_of_task(messages)
    front = 0
    while front < messages.size and (front == task or _left_by_cut(messages[front])):
        front += 1
    left = messages.size - front - 2
    return None if left < 1 else evolve(compaction, keep_messages=min(compaction.keep_messages, left))


# --- where to cut ---------------------------------------------------------------------------------------


def plan_cut(messages: Vector[Message], compaction: Compaction) -> Cut | None:
    """What of the messages is kept (rule COMPACT-2); None where nothing, or only what a cut has left, would go.

    A call is never parted from its result, and neither an assistant message nor a result comes first: behind a summary
    or a gap note anything but a result may follow. Clearing keeps as a summary does.
    """
    cut = _wanted_cut(messages, compaction) or _cut_within_turn(messages, compaction)
    return cut if any(not _left_by_cut(message) for message in removed(messages, cut)) else None


def fitted(cut: Cut, size: int) -> Cut:
    """The cut within a thread of so many messages."""
    until = min(cut.until, size)
    return Cut(until, cut.opening if cut.opening is not None and 0 <= cut.opening < until else None)


def removed(messages: Vector[Message], cut: Cut) -> Iterator[Message]:
    """The messages that the cut leaves out, in order."""
    return (messages[index] for index in range(cut.until) if index != cut.opening)


def needs_note(messages: Vector[Message], cut: Cut) -> bool:
    """Whether a window that is cut so needs a note in front of what follows (rule COMPACT-2)."""
    return cut.opening is not None or cut.until >= messages.size or not _starts_window(messages[cut.until])


def cut_messages(messages: Vector[Message], cut: Cut, note: UserMessage | None) -> Vector[Message]:
    """The opening message, the note, and what is kept."""
    kept: Vector[Message] = Vector()
    if cut.opening is not None:
        kept = kept.append(messages[cut.opening])
    if note is not None:
        kept = kept.append(note)
    for message in messages.since(cut.until):
        kept = kept.append(message)
    return kept


def opens_turn(message: Message) -> bool:
    """Whether a turn of the user begins with the message."""
    return isinstance(message, UserMessage) and message.origin in OPENS_A_TURN


def _opening_before(messages: Vector[Message], until: int, compaction: Compaction) -> int | None:
    """The task, where a cut at `until` would take it out: it stays in front. A new summary stands for an old one."""
    window = compaction.strategy is CompactionStrategy.WINDOW
    task = place_of_task(messages) if window else _last(messages, 1, opens_turn)
    return task if task is not None and task < until else None


def place_of_task(messages: Vector[Message]) -> int | None:
    """Where the task stands: the message that has opened the last turn, or else the last summary; None: nowhere."""
    opening = _last(messages, 1, opens_turn)
    return _last(messages, 1, _is_summary) if opening is None else opening


def _is_summary(message: Message) -> bool:
    return isinstance(message, UserMessage) and message.origin is UserOrigin.SUMMARY


def _wanted_cut(messages: Vector[Message], compaction: Compaction) -> Cut | None:
    """The cut that keeps the last turns or messages, moved forward to where one may be; None if there is none."""
    size = messages.size
    if compaction.keep_turns is not None:
        start = _last(messages, compaction.keep_turns, opens_turn)
        return None if start is None or _last(messages, compaction.keep_turns + 1, opens_turn) is None else Cut(start)
    start = max(size - _kept_messages(size, compaction), 0)
    if compaction.strategy is CompactionStrategy.WINDOW:
        places = (index for index in range(start, size) if _starts_window(messages[index]))
        return next((Cut(place, _opening_before(messages, place, compaction)) for place in places), None)
    places = (index for index in range(start, size) if not isinstance(messages[index], ResultMessage))
    return next((Cut(place) for place in places), None)


def _cut_within_turn(messages: Vector[Message], compaction: Compaction) -> Cut:
    """The cut that keeps the last rounds or messages, and the message that has opened the last turn."""
    size = messages.size
    if compaction.keep_turns is not None:
        until = _last(messages, compaction.keep_turns, _is_reply) or 0
    else:
        until = max(size - _kept_messages(size, compaction), 0)
        later = (index for index in range(until, size) if not isinstance(messages[index], ResultMessage))
        until = next(later, max(until - 1, 0))  # only results are left: the reply that they answer stays too
    return Cut(until, _opening_before(messages, until, compaction))


def _kept_messages(size: int, compaction: Compaction) -> int:
    if compaction.keep_messages is not None:
        return compaction.keep_messages
    ratio = Fraction(repr(compaction.keep_ratio or 0))
    return max(int(size * ratio), 1)


def _last(messages: Vector[Message], count: int, wanted: Callable[[Message], bool]) -> int | None:
    """The index of the wanted message that has `count` - 1 of its kind after it; None if there are not so many."""
    found = zip(range(count), _backwards(messages, wanted), strict=False)
    places = [index for _, index in found]
    return places[-1] if len(places) == count else None


def _backwards(messages: Vector[Message], wanted: Callable[[Message], bool]) -> Iterator[int]:
    return (index for index in range(messages.size - 1, -1, -1) if wanted(messages[index]))


def _is_reply(message: Message) -> bool:
    return isinstance(message, AssistantMessage)


def _starts_window(message: Message) -> bool:
    return isinstance(message, UserMessage) and message.origin in SENT_BY_USER


def _left_by_cut(message: Message) -> bool:
    return isinstance(message, UserMessage) and message.origin in LEFT_BY_A_CUT
