"""Texts made safe where a field may hold none, or several: see `safe_text`."""

from collections.abc import Iterable

from loopkernel.data.json_text import safe_text


def safe_optional_text(text: str | None) -> str | None:
    """The text without lone surrogates, or None."""
    return None if text is None else safe_text(text)


def safe_texts(texts: Iterable[str]) -> tuple[str, ...]:
    """The texts without lone surrogates."""
    return tuple([safe_text(text) for text in texts])
