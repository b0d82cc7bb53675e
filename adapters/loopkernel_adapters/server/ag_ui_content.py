"""Parts of messages, between AG-UI and the blocks of a thread: texts, pictures and files, and results of tools."""

from collections.abc import Iterable, Sequence
from typing import assert_never

from ag_ui.core.types import (
    AudioPart,
    ContentPart,
    DataSource,
    DocumentPart,
    ImagePart,
    PartSource,
    TextPart,
    ToolMessage,
    UrlSource,
    VideoPart,
)
from loopkernel.data.blocks import MediaBlock, TextBlock, UserBlock
from loopkernel.data.json_text import JsonValue, checked
from loopkernel.data.tools import ToolOutput
from pydantic import ValidationError

from loopkernel_adapters.ports import ToolError
from loopkernel_adapters.tools.sent_media import NotTaken, sent_file, sent_image

__all__ = ["NotTaken", "blocks_of", "output_of", "parts_of", "result_as_json"]

Content = str | Sequence[ContentPart]
_ADDRESS = ("https://", "http://")


def blocks_of(content: Content) -> tuple[UserBlock, ...]:
    """What was sent, as blocks. Raises NotTaken."""
    if isinstance(content, str):
        return (TextBlock(content),)
    return tuple(_block(part) for part in content)


def _block(part: ContentPart) -> UserBlock:
    match part:
        case TextPart():
            return TextBlock(part.text)
        case ImagePart():
            return sent_image(_data(part.source))
        case DocumentPart():
            return sent_file(part.source.mime_type, _data(part.source))
        case AudioPart() | VideoPart():
            raise NotTaken("sounds and films cannot be sent to this agent; write what is in them")
        case _:
            assert_never(part)


def _data(source: PartSource) -> str:
    """Only what is sent along is taken: nothing is fetched for a client, and no handle of a provider is known here."""
    if not isinstance(source, DataSource):
        raise NotTaken(f"a file is named by a {source.type}, which is not fetched; send its data, in base64")
    return source.value


def parts_of(blocks: Iterable[UserBlock]) -> str | list[ContentPart]:
    """The blocks as a client shows them: a text, where there is nothing else."""
    blocks = tuple(blocks)
    if all(isinstance(block, TextBlock) for block in blocks):
        return "\n".join(block.text for block in blocks if isinstance(block, TextBlock))
    return [_part(block) for block in blocks]


def _part(block: UserBlock) -> ContentPart:
    match block:
        case TextBlock():
            return TextPart(text=block.text)
        case MediaBlock(media_type=media_type, data=data):
            source: PartSource = DataSource(value=data, mime_type=media_type)
            if data.startswith(_ADDRESS):
                source = UrlSource(value=data, mime_type=media_type)
            return ImagePart(source=source) if media_type.startswith("image/") else DocumentPart(source=source)
        case _:
            assert_never(block)


def result_as_json(message: ToolMessage) -> JsonValue:
    """What a client says came of a call, to be kept until `output_of` takes it."""
    return checked(message.model_dump(mode="json", by_alias=True, exclude_none=True))


def output_of(result: JsonValue) -> ToolOutput:
    """What the model is to see of it. Raises NotTaken, and ToolError where the client says that it has failed."""
    try:
        message = ToolMessage.model_validate(result)
    except ValidationError as error:
        raise NotTaken("it is no tool message of AG-UI") from error
    if message.error is not None:
        raise ToolError(message.error)
    return ToolOutput(blocks_of(message.content))
