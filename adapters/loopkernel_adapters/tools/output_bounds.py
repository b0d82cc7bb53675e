"""How much one run may give back: a policy cuts what the model sees, and this keeps the log from being flooded."""

from attrs import evolve
from loopkernel.data.blocks import MediaBlock, TextBlock, UserBlock
from loopkernel.data.tools import ToolOutput

from loopkernel_adapters.bounded_text import both_ends

MOST_CHARACTERS = 1_000_000  # of all texts of a result together
MOST_MEDIA = 20_000_000  # characters of base64 of all its images together
_KEPT_AT_EACH_END = 20_000


def shortened(text: str) -> str:
    """The beginning and the end of a text that is too long."""
    return both_ends(text, _KEPT_AT_EACH_END, lambda left_out: f"\n({left_out} characters are left out here)\n")


def bounded(output: ToolOutput) -> ToolOutput:
    """The output itself, or what is kept of one that is too large, with notes that say how much is left out."""
    texts = media = 0
    for block in output.content:
        if isinstance(block, TextBlock):
            texts += len(block.text)
        else:
            media += len(block.data)
    if texts <= MOST_CHARACTERS and media <= MOST_MEDIA:
        return output
    content: list[UserBlock] = []
    room_for_texts, room_for_media = MOST_CHARACTERS, MOST_MEDIA
    left_out = 0
    for block in output.content:
        kept = _kept(block)
        size = len(kept.text) if isinstance(kept, TextBlock) else len(kept.data)
        if isinstance(kept, TextBlock) and size <= room_for_texts:
            room_for_texts -= size
            content.append(kept)
        elif isinstance(kept, MediaBlock) and size <= room_for_media:
            room_for_media -= size
            content.append(kept)
        else:
            left_out += 1
    if left_out:
        content.append(TextBlock(f"({left_out} more parts of the result are left out, which is too large)"))
    return evolve(output, content=tuple(content))


def _kept(block: UserBlock) -> UserBlock:
    return TextBlock(shortened(block.text)) if isinstance(block, TextBlock) else block
