"""What the pictures share: their frame, and texts that are safe in them."""

from collections.abc import Iterable
from html import escape

INK, SOFT, RULE, PAPER = "#1f2430", "#667085", "#d0d5dd", "#ffffff"
SANS = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"
MONOSPACE = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"


def framed(width: int, height: int, title: str, parts: Iterable[str], *, paper: str = PAPER, font: str = SANS) -> str:
    """A whole picture, on paper of its own, so that it can be read in light and in dark."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img" '
            f'font-family="{escape(font)}" font-size="13">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{width}" height="{height}" rx="8" fill="{paper}"/>',
            *parts,
            "</svg>",
            "",
        ]
    )


def text(x: float, y: float, words: str, *, fill: str = INK, anchor: str = "start", size: int = 13) -> str:
    """A line of text."""
    return f'<text x="{x:g}" y="{y:g}" fill="{fill}" text-anchor="{anchor}" font-size="{size}">{escape(words)}</text>'
