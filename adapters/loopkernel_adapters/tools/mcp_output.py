"""What a tool of the Model Context Protocol answers, as an output of ours: texts and media, up to a size."""

import base64
import binascii
from collections.abc import Iterator
from typing import assert_never

from loopkernel.data.blocks import MediaBlock, TextBlock, UserBlock
from loopkernel.data.json_text import Json
from loopkernel.data.tools import ToolOutput
from mcp import types as protocol

from loopkernel_adapters.bounded_text import beginning, hidden


def as_output(result: protocol.CallToolResult, most_chars: int) -> ToolOutput:
    """The blocks of the result, up to so many characters in all; what is structured stands for no text at all."""
    blocks: list[UserBlock] = []
    left = most_chars
    for found in _blocks(result):
        block = TextBlock(hidden(found.text)) if isinstance(found, TextBlock) else found
        size = len(block.text) if isinstance(block, TextBlock) else len(block.data)
        if size <= left:
            blocks.append(block)
            left -= size
            continue
        if isinstance(block, TextBlock):
            blocks.append(TextBlock(beginning(block.text, left)))
        blocks.append(TextBlock(f"(the rest of the answer was left out: it has more than {most_chars} characters)"))
        break
    return ToolOutput(content=tuple(blocks))


def text_of_result(result: protocol.CallToolResult, most_chars: int) -> str:
    """The texts of the result, for an error."""
    blocks = as_output(result, most_chars).content
    return "\n".join(block.text for block in blocks if isinstance(block, TextBlock)).strip()


def _blocks(result: protocol.CallToolResult) -> Iterator[UserBlock]:
    found = False
    for block in result.content:
        found = True
        yield _block(block)
    if not found and result.structured_content is not None:
        yield TextBlock(Json.of(result.structured_content).text)


def _block(block: protocol.ContentBlock) -> UserBlock:
    match block:
        case protocol.TextContent():
            return TextBlock(block.text)
        case protocol.ImageContent() | protocol.AudioContent():
            return _media(block.mime_type, block.data)
        case protocol.ResourceLink():
            return TextBlock(f"(a resource: {block.name}, {block.uri})")
        case protocol.EmbeddedResource():
            resource = block.resource
            if isinstance(resource, protocol.TextResourceContents):
                return TextBlock(resource.text)
            return _media(resource.mime_type or "application/octet-stream", resource.blob)
        case _:
            assert_never(block)


def _media(mime_type: str, data: str) -> UserBlock:
    """A medium, if it is what it says: base64."""
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return TextBlock(f"(a medium of type {mime_type} that cannot be decoded)")
    return MediaBlock(mime_type, data)
