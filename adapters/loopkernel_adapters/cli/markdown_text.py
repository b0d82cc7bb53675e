"""Markdown of a model, rendered so that nothing of it is hidden, obeyed or followed.

What would show less than was written is shown as it was written: links, images, HTML, entities, definitions of links.
Line breaks stay where the model has put them.
"""

from typing import ClassVar

from markdown_it import MarkdownIt
from rich.console import JustifyMethod
from rich.markdown import Heading, Markdown, MarkdownElement

# Each would hide an address or a text, or bring a character back that was made harmless.
_AS_WRITTEN = ("autolink", "entity", "html_block", "html_inline", "image", "link", "reference")


class _Heading(Heading):
    """A heading that begins where the text does."""

    LEVEL_ALIGN: ClassVar[dict[str, JustifyMethod]] = {}


class _Markdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {**Markdown.elements, "heading_open": _Heading}


def rendered(text: str) -> Markdown:
    """The text, which has to be harmless already, as what rich can show."""
    found = _Markdown("", hyperlinks=False, code_theme="ansi_dark")
    found.markup = text
    found.parsed = MarkdownIt("commonmark").enable(["strikethrough", "table"]).disable([*_AS_WRITTEN]).parse(text)
    for token in found.parsed:
        for part in token.children or ():
            if part.type == "softbreak":
                part.type = "hardbreak"
    return found
