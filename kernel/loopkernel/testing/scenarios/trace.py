"""Trace lines and the patterns that match them."""


def matches(pattern: str, line: str) -> bool:
    """Whether the pattern's words are the line's words, one by one; the word `*` stands for any one word."""
    wanted, seen = pattern.split(), line.split()
    if len(wanted) != len(seen):
        return False
    return all(word in ("*", found) for word, found in zip(wanted, seen, strict=True))
