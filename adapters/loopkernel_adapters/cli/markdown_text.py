"""Markdown of a model, rendered so that nothing of it is hidden, obeyed or followed.

What would show less than was written is shown as it was written: links, images, HTML, entities, definitions of links.
So is a whole text of which any letter or digit would be missing, as where a table has no room. Line breaks stay where
the model has put them.
"""

import io
from collections import Counter
from typing import ClassVar

from markdown_it import MarkdownIt
from rich.console import Console, JustifyMethod, RenderableType
from rich.markdown import Heading, Markdown, MarkdownElement
from rich.text import Text

# Each would hide an address or a text, or bring a character back that was made harmless.
_AS_WRITTEN = ("autolink", "entity", "html_block", "html_inline", "image", "link", "reference")


class _Heading(Heading):
    """A heading that begins where the text does."""

    LEVEL_ALIGN: ClassVar[dict[str, JustifyMethod]] = {}


class _Markdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {**Markdown.elements, "heading_open": _Heading}


def shown_whole(text: str, width: int) -> RenderableType:
    """The text, which has to be harmless already, as Markdown where all of it is shown in so many columns."""
    found = rendered(text)
    console = Console(file=io.StringIO(), width=width, color_system=None, force_terminal=False, legacy_windows=False)
    with console.capture() as capture:
        console.print(found)
    languages = "".join(token.info for token in found.parsed if token.type == "fence" and token.info.isalpha())
    if _letters(capture.get() + languages) == _letters(text):
        return found
    return Text(text.strip(), overflow="fold")


def _letters(text: str) -> Counter[str]:
    return Counter(character for character in text if character.isalnum())


def rendered(text: str) -> Markdown:
    """The text as what rich can show, whether all of it has room or not."""
    found = _Markdown("", hyperlinks=False, code_theme="ansi_dark")
    found.markup = text
    found.parsed = MarkdownIt("commonmark").enable(["strikethrough", "table"]).disable([*_AS_WRITTEN]).parse(text)
    for token in found.parsed:
        for part in token.children or ():
            if part.type == "softbreak":
                part.type = "hardbreak"
    return found
