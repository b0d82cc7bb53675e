"""Patterns over texts, as rules of approval have them (rule ASK-1)."""


def glob_matches(pattern: str, text: str) -> bool:
    """Whether the pattern matches the whole text; `*` stands for any characters. Linear in the text."""
    first, *middle = pattern.split("*")
    if not middle:
        return pattern == text
    last = middle.pop()
    if not text.startswith(first) or not text.endswith(last) or len(text) < len(first) + len(last):
        return False
    place, end = len(first), len(text) - len(last)
    for part in middle:
        found = text.find(part, place, end)
        if found < 0:
            return False
        place = found + len(part)
    return True
