"""Large results are cut down to their head and tail (rule TOOL-11); usable alone. Meant to be applied once."""

from attrs import evolve

from loopkernel.data.blocks import MediaBlock, TextBlock, UserBlock, text_of
from loopkernel.data.errors import quoted
from loopkernel.data.messages import ResultMessage
from loopkernel.data.policy import ResultLimit
from loopkernel.loop.algorithms.clearing import is_cleared

_ROOM_FOR_NOTE = 50  # a text that was cut is not cut again: it is longer than its ends by its note


def shortened(content: tuple[UserBlock, ...], limit: ResultLimit | None) -> tuple[UserBlock, ...]:
    """The content within the limit; the same object if nothing changes.

    If all its text together is too long, the head, a note and the tail of it stand in one block, before the media.
    A medium that is too large becomes a text that says so.
    """
    if limit is None or _is_one_short_text(content, limit):
        return content
    text = text_of(content)
    short = _cut(text, limit)
    if short == text:
        kept = tuple([_small(block, limit) for block in content])
    else:
        media = (block for block in content if isinstance(block, MediaBlock))
        kept = (TextBlock(short), *(_small(block, limit) for block in media))
    return content if kept == content else kept


def _is_one_short_text(content: tuple[UserBlock, ...], limit: ResultLimit) -> bool:
    """Whether it is within the limit at a glance, as most results are."""
    return len(content) == 1 and isinstance(content[0], TextBlock) and len(content[0].text) <= limit.chars


def with_short_results(message: ResultMessage, kept: int) -> ResultMessage:
    """The message with the head and the tail of each of its results; the same object if nothing changes (INFER-8).

    What stands for a result that was cleared stays: else it would count as a body, and be cleared again, without end.
    """
    limit = ResultLimit(chars=2 * kept + _ROOM_FOR_NOTE, head=kept, tail=kept, media_chars=0)
    results = tuple(
        each if is_cleared(each) else evolve(each, content=shortened(each.content, limit)) for each in message.results
    )
    return message if results == message.results else evolve(message, results=results)


def _cut(text: str, limit: ResultLimit) -> str:
    """The text within the limit; a text that is over it is cut, whatever the length of the note."""
    if len(text) <= limit.chars:
        return text
    note = f"\n[{len(text) - limit.head - limit.tail:,} characters left out]\n"
    return text[: limit.head] + note + text[len(text) - limit.tail :]


def _small(block: UserBlock, limit: ResultLimit) -> UserBlock:
    """The block, or what stands for a medium that is too large."""
    if isinstance(block, TextBlock) or len(block.data) <= limit.media_chars:
        return block
    note = f"[{quoted(block.media_type)} left out: {len(block.data):,} characters]"
    return block if len(note) >= len(block.data) else TextBlock(note)
