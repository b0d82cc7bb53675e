"""What a docstring says of a function and of each parameter, in the two forms that are usual."""

import inspect
import re

_SECTION = re.compile(r"(args|arguments|parameters|params)\s*:\s*", re.IGNORECASE)
_OTHER_SECTION = re.compile(r"(returns?|yields?|raises|examples?|notes?|warnings?|see also)\s*:?\s*", re.IGNORECASE)
_ENTRY = re.compile(r"\*{0,2}(?P<name>\w+)\s*(?:\([^)]*\))?\s*:\s*(?P<text>.*)")
_FIELD = re.compile(r":(?:param|parameter|arg|argument)\s+(?:[^:]*\s)?(?P<name>\w+)\s*:\s*(?P<text>.*)")


def described(docstring: str) -> tuple[str, dict[str, str]]:
    """The first paragraph, in one line, and the description of each parameter that has one.

    Parameters are described in a section `Args:`, an entry `name: text` or `name (type): text` each, or by
    `:param name: text`. What is indented deeper, or follows a field without a new one, goes on with the entry.
    """
    lines = inspect.cleandoc(docstring).splitlines()
    return _first_paragraph(lines), {**_of_fields(lines), **_of_section(lines)}


def _first_paragraph(lines: list[str]) -> str:
    words: list[str] = []
    for line in map(str.strip, lines):
        if not line or _SECTION.fullmatch(line) or _FIELD.match(line):
            break
        words.append(line)
    return " ".join(words)


def _of_section(lines: list[str]) -> dict[str, str]:
    start = next((place for place, line in enumerate(lines) if _SECTION.fullmatch(line.strip())), None)
    found: dict[str, str] = {}
    if start is None:
        return found
    outside = _indent(lines[start])
    inside: int | None = None  # the indent of an entry
    name: str | None = None
    for line in lines[start + 1 :]:
        if not line.strip():
            continue
        indent = _indent(line)
        if indent <= outside or (indent == inside and _OTHER_SECTION.fullmatch(line.strip())):
            break
        inside = indent if inside is None else inside
        entry = _ENTRY.fullmatch(line.strip()) if indent <= inside else None
        if entry is not None:
            name = entry["name"]
            found[name] = entry["text"].strip()
        elif name is not None:
            found[name] = f"{found[name]} {line.strip()}".strip()
    return {name: text for name, text in found.items() if text}


def _of_fields(lines: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    name: str | None = None
    for line in map(str.strip, lines):
        entry = _FIELD.fullmatch(line)
        if entry is not None:
            name = entry["name"]
            found[name] = entry["text"].strip()
        elif not line or line.startswith(":"):
            name = None
        elif name is not None:
            found[name] = f"{found[name]} {line}".strip()
    return {name: text for name, text in found.items() if text}


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
