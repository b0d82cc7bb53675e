"""Commands for a shell, as far as they are surely one program and its words (rule ASK-1).

What a shell makes of a text is not for a pattern over characters to say: `git *` would allow `git status; rm -rf ~`.
So a command is taken apart strictly: anything but plain words is not understood, and what is not understood matches
nothing.
"""

import re

from loopkernel.loop.algorithms.patterns import glob_matches

_PLAIN = r"[A-Za-z0-9_./:,+@=-]"  # means nothing to a shell, wherever it stands in a word
_QUOTED = r"[A-Za-z0-9_./:,+@= -]*"
_WORD = re.compile(rf"(?:{_PLAIN}+|'{_QUOTED}'|\"{_QUOTED}\")+")
_QUOTES = re.compile(r"['\"]")
_BLANKS = re.compile(r"[ \t]+")


def words_of(command: str) -> tuple[str, ...] | None:
    """The words of one simple command; None for everything else.

    None: operators, redirections, expansions, patterns for files, escapes, comments, assignments, line ends, characters
    beyond ASCII, and quotes around any of these.
    """
    text = command.strip(" \t")
    found: list[str] = []
    place = 0
    while place < len(text):
        word = _WORD.match(text, place)
        if word is None:
            return None
        found.append(_QUOTES.sub("", word.group()))
        place = word.end()
        blanks = _BLANKS.match(text, place)
        if blanks is None and place < len(text):
            return None
        place = place if blanks is None else blanks.end()
    if not found or not found[0] or "=" in found[0] or any(word.startswith("=") for word in found):
        return None
    return tuple(found)


def command_matches(pattern: str, command: str) -> bool:
    """Whether the words of the command match those of the pattern, one by one.

    Without a `*` the command has to be the pattern, character by character. A last word `*` stands for any number of
    words, also for none. Any other `*` stands for characters of its word, but never in a word that holds `..`.
    """
    if "*" not in pattern:
        return pattern == command
    words = words_of(command)
    if words is None:
        return False
    wanted = [part for part in _BLANKS.split(pattern) if part]
    open_ended = wanted[-1] == "*"
    if open_ended:
        wanted.pop()
    if len(words) < len(wanted) or (len(words) > len(wanted) and not open_ended):
        return False
    return all(_word_matches(*pair) for pair in zip(wanted, words, strict=False))


def _word_matches(pattern: str, word: str) -> bool:
    if "*" in pattern and pattern != "*" and ".." in word:
        return False
    return glob_matches(pattern, word)
