"""What a pattern names and what a command is, slow and obvious, for law ASKED (rule ASK-1).

Paths are lists of their parts; patterns are regular expressions over whole paths.
"""

import re

from loopkernel.data.tools import Claim

_UP = ".."


def _walked(path: str) -> list[str]:
    """The parts of a path, with every step back taken; a first part `/` where it is absolute."""
    walked: list[str] = ["/"] if path[:1] == "/" else []
    for part in path.split("/"):
        if part in ("", "."):
            continue
        if part == _UP and walked == ["/"]:
            continue
        if part == _UP and walked and walked[-1] != _UP:
            walked.pop()
        else:
            walked.append(part)
    return walked


def _written(parts: list[str]) -> str:
    if parts[:1] == ["/"]:
        return "/" + "/".join(parts[1:])
    return "/".join(parts) or "."


def _names_of(claim: Claim) -> list[list[str]]:
    names = [claim.key, *claim.also]
    return [_walked(name.casefold() if claim.ignores_case else name) for name in names]


def _readings(parts: list[str]) -> list[list[str]]:
    """The pattern, where `**` between slashes stands for no folder, or for some; an end of two `*` is one of one."""
    readings: list[list[str]] = [[]]
    for place, part in enumerate(parts):
        if part != "**" or place == len(parts) - 1:
            readings = [[*reading, part] for reading in readings]
        elif parts[place + 1] != "**" or place + 2 == len(parts):  # of several in a row, one counts
            readings = [[*reading, *folder] for reading in readings for folder in ([], ["*"])]
    return readings


class Named:
    """What one reading of a pattern names."""

    def __init__(self, parts: list[str]) -> None:
        self.parts = parts
        self.text = _written(parts)
        self.matches = _compiled(self.text)
        self.absolute = parts[:1] == ["/"]

    def has(self, name: list[str]) -> bool:
        """Whether the name is named, or lies within what is."""
        relative = name[:1] != ["/"]
        if relative and not self.absolute and set(self.parts) <= {_UP}:
            return name.count(_UP) <= len(self.parts)  # the workspace, or a folder that holds it
        least = name.count(_UP) if relative else 1
        return any(self.matches.fullmatch(_written(name[:length])) for length in range(least, len(name) + 1))

    def surely_has(self, name: list[str]) -> bool:
        """The same, where a `*` does not stand for a step out of what the pattern begins with."""
        return self.has(name) and (self.text.startswith("*") or name.count(_UP) <= self.parts.count(_UP))

    def is_below(self, name: list[str], *, tree: bool) -> bool:
        """Whether what is named may lie within what has the name."""
        literal = self.text.split("*")[0]
        if set(name) <= {_UP}:
            return literal == "" or (not self.absolute and self.parts.count(_UP) <= len(name))
        folder = _written(name).rstrip("/") + "/"
        if literal[: len(folder)] == folder:
            return True
        return "*" in self.text and (tree or folder == "/") and folder[: len(literal)] == literal


def _named(pattern: str, claim: Claim) -> list[Named] | None:
    """All that the pattern names; None where nobody can say."""
    pattern = pattern.casefold() if claim.ignores_case else pattern
    given = pattern.split("/")
    stars = [place for place, part in enumerate(given) if "*" in part]
    if stars and _UP in given[stars[0] :]:
        return None
    parts = _walked(pattern)
    folders = [place for place, part in enumerate(parts[:-1]) if part == "**" and place and parts[place - 1] != "**"]
    if len(folders) > 6:
        return None
    return [Named(reading) for reading in _readings(parts)] if pattern else []


def uses_some(claim: Claim, pattern: str) -> bool:
    """Whether a call with this claim may use something of what the pattern names."""
    readings, names = _named(pattern, claim), _names_of(claim)
    if readings is None:
        return True
    return any(one.has(name) or one.is_below(name, tree=claim.tree) for name in names for one in readings)


def uses_only(claim: Claim, pattern: str) -> bool:
    """Whether all that the claim uses is surely named."""
    readings, names = _named(pattern, claim), _names_of(claim)
    return any(one.surely_has(name) for name in names for one in readings or [])


def spelled(path: str) -> str:
    """The one spelling of a path."""
    return _written(_walked(path))


_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:,+@=-")
_BLANKS = frozenset(" \t")
_QUOTES = frozenset("'\"")


def is_like_command(pattern: str, command: str) -> bool:
    """Whether a command is one program with words like those of the pattern."""
    if "*" not in pattern:
        return pattern == command
    words = _words(command)
    if not words or "=" in words[0] or "" in words[:1] or any(word[:1] == "=" for word in words):
        return False
    wanted = [word for word in pattern.replace("\t", " ").split(" ") if word]
    if wanted[-1] == "*":
        wanted, words = wanted[:-1], words[: len(wanted) - 1]
    return len(words) == len(wanted) and all(map(_is_like_word, wanted, words))


def _words(command: str) -> list[str]:
    """The words of a command that holds nothing but these, some in quotation marks; none of any other."""
    words: list[str] = []
    inside = ""  # the quotation mark that is open
    apart = True
    for character in command:
        if inside:
            if character == inside:
                inside = ""
                continue
            if character not in _PLAIN and character != " ":
                return []
        elif character in _BLANKS:
            apart = True
            continue
        elif character not in _PLAIN and character not in _QUOTES:
            return []
        if apart:
            words.append("")
            apart = False
        if not inside and character in _QUOTES:
            inside = character
        else:
            words[-1] += character
    return [] if inside else words


def _is_like_word(pattern: str, word: str) -> bool:
    if pattern == "*":
        return True
    return not ("*" in pattern and _UP in word) and like(pattern, word)


def like(pattern: str, text: str) -> bool:
    """Whether the whole text is like the pattern, where `*` is any characters."""
    return bool(_compiled(pattern).fullmatch(text))


def _compiled(pattern: str) -> re.Pattern[str]:
    """Each part between two stars is looked for once, from where the one before it was found: never back again."""
    first, *parts = map(re.escape, pattern.split("*"))
    if not parts:
        return re.compile(first, re.DOTALL)
    middle = "".join(f"(?>.*?{part})" for part in parts[:-1])
    return re.compile(f"{first}{middle}.*{parts[-1]}", re.DOTALL)
