"""Secrets in what is shown are replaced (rule TOOL-12); what a tool receives is not. Usable alone.

What a key is called decides, in any case and with or without separators: `apiKey`, `X-API-Key`, `github_token`. Where
that leaves a doubt the value is replaced. Secrets within texts, and under keys that do not say so, are not found.
"""

import re
from typing import assert_never

from attrs import evolve

from loopkernel.data.blocks import (
    AssistantBlock,
    OpaqueBlock,
    RawInput,
    ReasoningBlock,
    ServerCall,
    TextBlock,
    ToolCall,
)
from loopkernel.data.json_text import Json
from loopkernel.data.messages import AssistantMessage, Message, ResultMessage, UserMessage

REDACTED = "[redacted]"

_SECRET = re.compile(
    r"""secret(?!ar[iy])                                                           # but a secretary is none
      | pass[ _.-]?(?:word|wd|phrase|code) | passwd | pwd
      | credential | authori[sz]ation | bearer | cookie
      | (?<![\w.-])auth(?![\w.-]) | basic[ _.-]?auth(?![a-z])
      | (?:api|access|private|auth|signing|encryption|master|ssh|subscription)[ _.-]?key(?!board|word)
      | (?:access|refresh|auth|api)[ _.-]?tokens(?![a-z])                          # several, where others are a count
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
# Tokens that are counted, that mark a page, or that something is said about: `max_tokens`, `tokenCount`, `page_token`.
_NO_SECRET_TOKEN = re.compile(
    r"""(?i:token)[sS](?![a-z])
      | (?i:tokeni[sz])
      | (?i:token[ _.-]?(?:count|limit|budget|usage|length|size|type|url|uri|endpoint)s?)(?![a-z])
      | (?:(?<![A-Za-z])(?i:max|min|per|first|page) | (?<=[a-z])(?:Max|Min|Per|First|Page))[ _.-]?(?i:token)
    """,
    re.VERBOSE | re.ASCII,
)
# Each key that names a secret holds one of these, so that most values are not even parsed.
_MAY_NAME = re.compile(r"secret|pass|pwd|credential|auth|bearer|cookie|key|token", re.IGNORECASE | re.ASCII)


def names_secret(key: str) -> bool:
    """Whether a secret is expected under the key. Of a longer text: whether it mentions such a key."""
    if _SECRET.search(key) is not None:
        return True
    return "token" in key.lower() and "token" in _NO_SECRET_TOKEN.sub(" ", key).lower()


def redacted(value: Json) -> Json:
    """The value with whatever stands under a key that names a secret replaced; the same object if nothing does."""
    text = value.text
    # A key that names a secret holds one of some words, or an escape, which may stand for any letter.
    if "{" not in text or ("\\u" not in text and _MAY_NAME.search(text) is None):
        return value
    parsed = value.value()
    changed = False
    waiting = [parsed]
    while waiting:
        part = waiting.pop()
        if isinstance(part, list):
            waiting.extend(part)
        elif isinstance(part, dict):
            for key, inner in part.items():
                if not names_secret(key):
                    waiting.append(inner)
                elif inner != REDACTED:
                    part[key] = REDACTED
                    changed = True
    return Json.of_parsed(parsed) if changed else value


def redacted_call_input(given: Json | RawInput) -> Json | RawInput:
    """As `redacted`. Arguments that do not parse are replaced as a whole if they mention a key that names a secret."""
    if isinstance(given, Json):
        return redacted(given)
    return RawInput(REDACTED) if names_secret(given.text) else given


def redacted_message(message: Message) -> Message:
    """The message with the secrets in its calls, and in the results of calls that the provider ran, replaced.

    The same object if there are none.
    """
    match message:
        case UserMessage() | ResultMessage():
            return message
        case AssistantMessage():
            content = tuple(map(_redacted_block, message.content))
            return message if content == message.content else evolve(message, content=content)
        case _:
            assert_never(message)


def _redacted_block(block: AssistantBlock) -> AssistantBlock:
    match block:
        case TextBlock() | ReasoningBlock() | OpaqueBlock():
            return block
        case ToolCall():
            given = redacted_call_input(block.input)
            return block if given is block.input else evolve(block, input=given)
        case ServerCall():
            asked = redacted(block.input)
            result = None if block.result is None else redacted(block.result)
            if asked is block.input and result is block.result:
                return block
            return evolve(block, input=asked, result=result)
        case _:
            assert_never(block)
