"""An output as a model is to read it: an account of rule TOOL-11 by which law RESULT judges."""

from loopkernel.data.blocks import TextBlock, UserBlock, text_of
from loopkernel.data.errors import quoted
from loopkernel.data.policy import ResultLimit


def cut_down(content: tuple[UserBlock, ...], limit: ResultLimit | None) -> tuple[UserBlock, ...]:
    """The content as a model is to read it (rule TOOL-11): beginning and end of a long text, and no large medium."""
    if limit is None:
        return content
    media = tuple(_named(block, limit) for block in content)
    text = text_of(content)
    left_out = len(text) - limit.head - limit.tail
    if len(text) <= limit.chars:
        return media
    kept = f"{text[: limit.head]}\n[{left_out:,} characters left out]\n{text[len(text) - limit.tail :]}"
    others = (said for said, block in zip(media, content, strict=True) if not isinstance(block, TextBlock))
    return (TextBlock(kept), *others)


def _named(block: UserBlock, limit: ResultLimit) -> UserBlock:
    """The block; of a medium that is too large, what it was, if that is shorter."""
    if isinstance(block, TextBlock) or len(block.data) <= limit.media_chars:
        return block
    said = f"[{quoted(block.media_type)} left out: {len(block.data):,} characters]"
    return TextBlock(said) if len(said) < len(block.data) else block
