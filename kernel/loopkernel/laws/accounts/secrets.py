"""What a screen may see of a message: an account of rule TOOL-12 by which the laws judge.

Keys are taken apart by words and what stands next to them, without a pattern. A separator is at most one character.
"""

from collections.abc import Iterator

from attrs import evolve

from loopkernel.data.blocks import AssistantBlock, RawInput, ServerCall, ToolCall
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.messages import AssistantMessage, Message
from loopkernel.laws.accounts.sentences import REDACTED

_SEPARATORS = ("", " ", "_", ".", "-")
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz")
_IN_WORDS = _LETTERS | frozenset("0123456789_.-")


def _joined(firsts: tuple[str, ...], seconds: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(first + between + second for first in firsts for between in _SEPARATORS for second in seconds)


_SURE = (
    *("passwd", "pwd", "credential", "authorization", "authorisation", "bearer", "cookie"),
    *_joined(("pass",), ("word", "wd", "phrase", "code")),
)
_BASIC = _joined(("basic",), ("auth",))
_KEYS = _joined(
    ("api", "access", "private", "auth", "signing", "encryption", "master", "ssh", "subscription"), ("key",)
)
_TOKENS = _joined(("access", "refresh", "auth", "api"), ("tokens",))
_SAID_OF_TOKENS = _joined(
    ("",), ("count", "limit", "budget", "usage", "length", "size", "type", "url", "uri", "endpoint")
)
_BEFORE_TOKENS = ("max", "min", "per", "first", "page")


def is_secret(key: str) -> bool:
    """Whether a secret is expected under the key, or the text mentions such a key."""
    text = key.translate({letter: letter + 32 for letter in range(ord("A"), ord("Z") + 1)})
    return (
        any(word in text for word in _SURE)
        or any(not text.startswith(("ary", "ari"), end) for end in _ends(text, "secret"))
        or any(_stands_alone(text, end - 4, end) for end in _ends(text, "auth"))
        or any(not text.startswith(("board", "word"), end) for end in _ends(text, *_KEYS))
        or any(text[end : end + 1] not in _LETTERS for end in _ends(text, *_BASIC, *_TOKENS))
        or any(not _is_counted(key, end) for end in _ends(_lower(key), "token"))
    )


def _ends(text: str, *words: str) -> Iterator[int]:
    """Where one of the words ends, each time that it stands in the text."""
    for word in words:
        place = text.find(word)
        while place >= 0:
            yield place + len(word)
            place = text.find(word, place + 1)


def _lower(text: str) -> str:
    """In small letters, each where it was."""
    return "".join(small if len(small := letter.lower()) == 1 else letter for letter in text)


def _stands_alone(text: str, start: int, end: int) -> bool:
    return text[start - 1 : start] not in _IN_WORDS and text[end : end + 1] not in _IN_WORDS


def _is_counted(key: str, end: int) -> bool:
    """Whether the `token` that ends there is counted, marks a page, or is what something is said about."""
    if not key[end - 5 : end].isascii():
        return False
    behind, ahead = key[end:], key[: end - 5]
    if behind[:1] in ("s", "S") and behind[1:2] not in _LETTERS:
        return True
    if _lower(behind[:2]) in ("is", "iz"):
        return True
    for rest in (behind[len(word) :] for word in _SAID_OF_TOKENS if _lower(behind[: len(word)]) == word):
        if rest[:1] not in _LETTERS or (rest[:1] in ("s", "S") and rest[1:2] not in _LETTERS):
            return True
    heads = (ahead[: len(ahead) - len(gap)] for gap in _SEPARATORS if ahead.endswith(gap))
    return any(_ends_in_count(head) for head in heads)


def _ends_in_count(head: str) -> bool:
    """Whether the text ends in a word like `max`, on its own or, with a capital letter, behind a small one."""
    for word in _BEFORE_TOKENS:
        last, letter = head[-len(word) :], head[-len(word) - 1 : -len(word)]
        if last.lower() == word and not (letter.isascii() and letter.isalpha()):
            return True
        if last == word.capitalize() and letter in _LETTERS:
            return True
    return False


# --- what is shown ----------------------------------------------------------------------------------------


def shown_input(given: Json | RawInput) -> Json | RawInput:
    """An input as a screen sees it: as a whole or not at all, if it does not parse."""
    if isinstance(given, RawInput):
        return RawInput(REDACTED) if is_secret(given.text) else given
    return shown_json(given)


def shown_json(given: Json) -> Json:
    """The value, with what stands under the key of a secret replaced."""
    if "{" not in given.text:
        return given
    value = given.value()
    shown = _hidden(value)
    return given if shown == value else Json.of(shown)


def _hidden(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {key: REDACTED if is_secret(key) else _hidden(part) for key, part in value.items()}
    return [_hidden(part) for part in value] if isinstance(value, list) else value


def as_shown(message: Message) -> Message:
    """The message as a screen sees it."""
    if not isinstance(message, AssistantMessage):
        return message
    return evolve(message, content=tuple(map(_block_as_shown, message.content)))


def _block_as_shown(block: AssistantBlock) -> AssistantBlock:
    if isinstance(block, ToolCall):
        return evolve(block, input=shown_input(block.input))
    if isinstance(block, ServerCall):
        return evolve(block, input=shown_json(block.input), result=block.result and shown_json(block.result))
    return block
