"""Conversations as data: what is said, and what the service answers to each request, well or badly."""

import json
import random
from collections.abc import Iterator, Sequence
from typing import Literal, assert_never

from attrs import frozen

ALPHABET = "abcdefghij"
Ends = Literal["whole", "closed", "reset", "error"]  # how a stream ends: as it should, or cut in one of three ways
Stop = Literal["end_turn", "tool_use", "max_tokens", "stop_sequence", "pause_turn", "refusal"]


@frozen
class Said:
    """A block of text. An open one is one whose end has not come."""

    text: str
    open: bool = False


@frozen
class Called:
    """A block with a call, whose input is `written` as it comes on the wire. An open one has not come to its end."""

    id: str
    tool: str
    written: str
    open: bool = False


Part = Said | Called


@frozen
class Reply:
    """A reply on the stream."""

    parts: tuple[Part, ...] = ()
    stop: Stop = "end_turn"
    ends: Ends = "whole"

    @property
    def calls(self) -> tuple[Called, ...]:
        """Its calls, also those that are open."""
        return tuple(part for part in self.parts if isinstance(part, Called))


@frozen
class Problem:
    """An error in the place of a reply."""

    status: int
    kind: str
    message: str = "planted"
    retry_after: int | None = None


Answer = Reply | Problem


@frozen
class Conversation:
    """What is said, one after the other, and the answers to the requests of the loop itself, in order.

    Behind the last answer each request gets a plain reply. `blocks` is how often a hook keeps a turn from its end,
    `retries` the limit of retries that both are given, where the usual one would take minutes.
    """

    name: str
    answers: tuple[Answer, ...]
    prompts: tuple[str, ...] = ("say: go",)
    blocks: int = 0
    retries: int | None = None


def shell(call: str, does: str = "echo seen", *, open: bool = False) -> Called:
    """A call of the shell, which notes that it has run."""
    return Called(call, "Bash", json.dumps({"command": f"echo {call} >> runs; {does}"}), open)


def reply(*parts: Part, stop: Stop | None = None, ends: Ends = "whole") -> Reply:
    """A reply that stops as its parts suggest, unless another stop is given."""
    usual: Stop = "tool_use" if any(isinstance(part, Called) for part in parts) else "end_turn"
    return Reply(parts, usual if stop is None else stop, ends)


TOO_LONG = Problem(400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum")
BUSY = Problem(529, "overloaded_error")


def _said(number: int) -> Said:
    return Said(f"re: {number}")


def _replies() -> dict[str, Sequence[Answer]]:
    """What a whole reply may be."""
    text = _said(0)
    unread = Called("t9", "Bash", '{"command": "ec')
    cut = reply(text, stop="max_tokens")
    shells = (shell("t1"), shell("t2", "exit 3"), shell("t3"))
    return {
        "text": [reply(_said(9))],
        "call": [reply(text, shell("t1"))],
        "rounds": [reply(shell("t1")), reply(shell("t2")), reply(shell("t3"))],
        "failing-call": [reply(*shells)],
        "unknown-tool": [reply(Called("t1", "Nope", "{}"))],
        "unknown-tool-behind-a-call": [reply(shell("t1"), shell("t2", "sleep 1"), Called("t3", "Nope", "{}"))],
        "invalid-input": [reply(Called("t1", "Bash", "{}"))],
        "unreadable-input": [reply(unread, shell("t1"))],
        "missing-file": [reply(Called("t1", "Read", '{"file_path": "/nowhere/at/all"}'))],
        "calls-of-an-end": [reply(text, shell("t1"), stop="end_turn")],
        "calls-of-a-stop-sequence": [reply(text, shell("t1"), stop="stop_sequence")],
        "stop-sequence": [reply(text, stop="stop_sequence")],
        "empty": [reply()],
        "blank": [reply(Said(""))],
        "empty-twice": [reply(), reply()],
        "empty-after-a-call": [reply(shell("t1")), reply()],
        "empty-before-and-after-a-call": [reply(), reply(shell("t1")), reply()],
        "no-calls": [reply(text, stop="tool_use")],
        "no-calls-thrice": [reply(text, stop="tool_use")] * 3,
        "no-calls-around-a-call": [reply(text, stop="tool_use")] * 2
        + [reply(shell("t1"))]
        + [reply(text, stop="tool_use")] * 3,
        "cut": [cut],
        "cut-four-times": [cut, cut, cut, cut],
        "cut-around-a-call": [cut, cut, cut, reply(shell("t1")), cut, cut, cut],
        "cut-with-a-call": [reply(text, shell("t1"), stop="max_tokens")],
        "cut-with-calls-five-times": [reply(shell(f"t{n}"), stop="max_tokens") for n in range(5)],
        "cut-within-a-call": [reply(text, shell("t1"), unread, stop="max_tokens")],
        "cut-within-its-only-call": [reply(unread, stop="max_tokens")],
        "cut-empty": [reply(stop="max_tokens")],
        "pause": [reply(text, stop="pause_turn")],
        "pause-with-a-call": [reply(text, shell("t1"), stop="pause_turn")],
        "refusal": [reply(text, stop="refusal")],
        "refusal-of-nothing": [reply(stop="refusal")],
        "refusal-twice": [reply(text, stop="refusal"), reply(text, stop="refusal")],
        "empty-in-each-of-two-rounds": [reply(), reply(shell("t1")), reply(), reply()],
        "no-calls-and-nothing-else": [reply(stop="tool_use")],
    }


def _failures() -> dict[str, Sequence[Answer]]:
    """What a stream that breaks, an error in its place, and an odd id may be."""
    text = _said(0)
    return {
        "lost-at-its-start": [reply(ends="reset")],
        "lost-in-text": [reply(Said("re: 0", open=True), ends="reset")],
        "closed-in-text": [reply(Said("re: 0", open=True), ends="closed")],
        "error-in-text": [reply(Said("re: 0", open=True), ends="error")],
        "error-at-its-start": [reply(ends="error")],
        "lost-in-a-call": [reply(shell("t1", open=True), ends="reset")],
        "closed-in-a-call": [reply(shell("t1", open=True), ends="closed")],
        "lost-after-a-text": [reply(text, ends="reset")],
        "lost-after-texts-five-times": [reply(text, ends="reset")] * 5,
        "lost-after-a-text-in-another": [reply(text, Said("re: 1", open=True), ends="error")],
        "closed-after-a-text": [reply(text, ends="closed")],
        "lost-and-cut": [reply(text, stop="max_tokens"), reply(text, ends="reset")] * 2,
        "error-in-text-then-busy": [reply(Said("re: 0", open=True), ends="error"), BUSY],
        "error-in-each-of-two-rounds": [
            reply(Said("re: 0", open=True), ends="error"),
            reply(shell("t1")),
            reply(Said("re: 1", open=True), ends="error"),
        ],
        "lost-after-a-call": [reply(text, shell("t1"), ends="reset")],
        "closed-after-a-call": [reply(shell("t1"), ends="closed")],
        "error-after-a-call": [reply(shell("t1"), ends="error")],
        "lost-in-a-second-call": [reply(shell("t1"), shell("t2", open=True), ends="reset")],
        "lost-after-calls-five-times": [reply(shell(f"t{n}"), ends="reset") for n in range(5)],
        "busy": [BUSY],
        "busy-twice": [BUSY, BUSY],
        "rate-limit": [Problem(429, "rate_limit_error", retry_after=1)],
        "rate-limit-for-long": [Problem(429, "rate_limit_error", retry_after=400)],
        "server-error": [Problem(500, "api_error")],
        "bad-request": [Problem(400, "invalid_request_error")],
        "no-key": [Problem(401, "authentication_error")],
        "forbidden": [Problem(403, "permission_error")],
        "not-found": [Problem(404, "not_found_error")],
        "timeout": [Problem(408, "timeout_error")],
        "conflict": [Problem(409, "api_error")],
        "too-large": [Problem(413, "request_too_large")],
        "too-long-at-once": [TOO_LONG],
        "too-long": [reply(shell("t1")), reply(shell("t2")), reply(shell("t3")), TOO_LONG],
        "one-id-twice": [reply(shell("again"), shell("again", "echo twice"))],
        "an-id-again": [reply(shell("again")), reply(shell("again", "echo twice"))],
        "much-output": [reply(shell("t1", "seq 1 20000"))],
        "output-of-the-limit": [reply(shell("t1", "head -c 30000 /dev/zero | tr '\\0' x"))],
        "output-beyond-the-limit": [reply(shell("t1", "head -c 30001 /dev/zero | tr '\\0' x"))],
    }


def written_by_hand() -> tuple[Conversation, ...]:
    """A conversation for each class of behaviour."""
    text, whole = _said(0), reply(_said(9))
    cut = reply(text, stop="max_tokens")
    two = ("say: go", "say: and more")
    return (
        *(Conversation(name, (*answers, whole)) for name, answers in {**_replies(), **_failures()}.items()),
        Conversation("two-prompts", (reply(shell("t1")), reply(text), whole), two),
        Conversation("a-prompt-after-an-error", (Problem(403, "permission_error"), whole), two),
        Conversation("a-prompt-after-cuts", (cut, cut, cut, cut, whole), two),
        Conversation("a-prompt-after-an-empty-reply", (reply(), reply(), whole), two),
        Conversation("stop-hook", (), blocks=2),
        Conversation("stop-hook-that-never-lets-go", (), blocks=20),
        Conversation("stop-hook-after-a-call", (reply(shell("t1")),), blocks=1),
        Conversation("busy-for-good", (BUSY,) * 4, retries=1),
    )


def drawn(seed: int) -> Conversation:
    """The conversation of that seed."""
    dice = random.Random(seed)
    names = iter(f"t{number}" for number in range(1, 1000))
    answers = tuple(_drawn_answer(dice, names, number) for number in range(dice.randint(1, 6)))
    prompts = ("say: go", "say: and more")[: dice.choice((1, 1, 2))]
    return Conversation(f"seed-{seed}", (*answers, reply(_said(90))), prompts)


_KINDS = (
    *("calls",) * 8,
    *("text", "empty", "no-calls", "cut", "cut", "cut-calls", "cut-call", "pause-calls", "pause", "end-calls"),
    *("lost-in-text", "lost-in-call", "lost-after-calls", "busy", "server", "forbidden"),
)


def _drawn_answer(dice: random.Random, names: Iterator[str], number: int) -> Answer:
    text = _said(number)

    def calls() -> tuple[Part, ...]:
        made: list[Part] = [text] if dice.random() < 0.5 else []
        for _ in range(dice.randint(1, 3)):
            made.append(shell(next(names), dice.choice(("echo seen", "echo seen", "exit 3"))))
        return tuple(made)

    unread = Called("u" + str(number), "Bash", '{"command": "ec')
    lost: Ends = dice.choice(("reset", "closed", "error"))
    match dice.choice(_KINDS):
        case "calls":
            return reply(*calls())
        case "text":
            return reply(text)
        case "empty":
            return reply()
        case "no-calls":
            return reply(text, stop="tool_use")
        case "cut":
            return reply(text, stop="max_tokens")
        case "cut-calls":
            return reply(*calls(), stop="max_tokens")
        case "cut-call":
            return reply(*calls(), unread, stop="max_tokens")
        case "pause-calls":
            return reply(*calls(), stop="pause_turn")
        case "pause":
            return reply(text, stop="pause_turn")
        case "end-calls":
            return reply(*calls(), stop="end_turn")
        case "lost-in-text":
            return reply(Said(text.text, open=True), ends=lost)
        case "lost-in-call":
            return reply(shell(next(names), open=True), ends=lost)
        case "lost-after-calls":
            return reply(*calls(), ends=lost)
        case "busy":
            return BUSY
        case "server":
            return Problem(500, "api_error")
        case _:
            return Problem(403, "permission_error")


def told(answer: Answer) -> str:
    """An answer in a few words."""
    match answer:
        case Problem():
            return f"{answer.status} {answer.kind}"
        case Reply():
            parts = " ".join(_told_part(part) for part in answer.parts) or "nothing"
            return f"{parts} ({answer.stop if answer.ends == 'whole' else answer.ends})"
        case _:
            assert_never(answer)


def _told_part(part: Part) -> str:
    name = "text" if isinstance(part, Said) else f"call {part.id}"
    return f"open {name}" if part.open else name
