"""What the model of a scenario answers, as data: replies and problems, in the order of the agent's requests."""

import enum
import json

from attrs import frozen
from loopkernel.data.json_text import JsonValue

HELD = ".held"  # behind the name of the file of effects: the file whose end lets commands go
SEEN = "42"  # what a command prints behind its label, and does not spell out


class Stop(enum.Enum):
    """Why a reply ends."""

    NATURAL = "natural"
    CALLS = "calls"
    OUTPUT_LIMIT = "output limit"


class Cut(enum.Enum):
    """How a stream breaks off before its reply has ended."""

    CLEAN = "clean"  # the connection is closed as if all had been said
    RESET = "reset"
    SILENCE = "silence"  # it stays open, and nothing comes


@frozen
class Said:
    """A text."""

    text: str


@frozen(kw_only=True)
class Called:
    """A call. Without a `tool` it is one of the agent's shell, whose command notes that it runs.

    `id` is for scenarios that give an id twice; `raw` takes the place of the arguments. A `half` call breaks off within
    its arguments: what has come is a command that notes a part. One that is `held` goes on until it is let go, which is
    after the end of the process that began it.
    """

    label: str
    id: str | None = None
    tool: str | None = None
    raw: str | None = None
    sleeps_s: int = 0
    held: bool = False
    status: int = 0
    prints: int = 0  # characters of noise
    half: bool = False

    @property
    def call_id(self) -> str:
        """The id on the wire."""
        return f"call_{self.label}" if self.id is None else self.id


Part = Said | Called


@frozen(kw_only=True)
class Reply:
    """A reply, which ends as `stop` says unless it is cut."""

    parts: tuple[Part, ...] = ()
    stop: Stop = Stop.NATURAL
    cut: Cut | None = None

    @property
    def calls(self) -> tuple[Called, ...]:
        """Its calls, also those that break off."""
        return tuple(part for part in self.parts if isinstance(part, Called))

    @property
    def ended(self) -> bool:
        """Whether its end was sent."""
        return self.cut is None


@frozen(kw_only=True)
class Problem:
    """An error in the place of a reply."""

    status: int
    kind: str  # in the words of Messages; the other wires have their own
    message: str = "planted"
    retry_after_s: int | None = None


Answer = Reply | Problem

BUSY = Problem(status=529, kind="overloaded_error", message="Overloaded")
TOO_LONG = Problem(
    status=400, kind="invalid_request_error", message="prompt is too long: 210000 tokens > 200000 maximum"
)


def limited(after_s: int) -> Problem:
    """Too many requests, with the time to wait."""
    return Problem(status=429, kind="rate_limit_error", message="Rate limit reached", retry_after_s=after_s)


def said(text: str, stop: Stop = Stop.NATURAL) -> Reply:
    """A reply of words alone."""
    return Reply(parts=(Said(text),), stop=stop)


def calling(*calls: Called, stop: Stop = Stop.CALLS, cut: Cut | None = None) -> Reply:
    """A reply with these calls."""
    return Reply(parts=calls, stop=stop, cut=cut)


def command_of(call: Called, effects: str) -> str:
    """The command of a call of the shell: it appends to the file of effects when it begins and when it ends.

    It prints its label with a number that the command does not hold, so that its output is told from its text.
    """
    steps = [
        f"echo part {call.label} >> {effects}",
        f"echo begin {call.label} >> {effects}",
        f"echo out-{call.label}-$((6*7))",
    ]
    if call.prints:
        steps.append(f"head -c {call.prints} /dev/zero | tr '\\0' x")
    if call.held:
        steps.append(f"while [ -e {effects}{HELD} ]; do sleep 0.2; done")
    if call.sleeps_s:
        steps.append(f"sleep {call.sleeps_s}")
    steps.append(f"echo end {call.label} >> {effects}")
    if call.status:
        steps.append(f"(exit {call.status})")  # not of the shell, which may be one for all commands
    return "; ".join(steps)


def output_of(label: str) -> str:
    """What the command of that label prints."""
    return f"out-{label}-{SEEN}"


def cut_arguments(call: Called, arguments: str) -> str:
    """The arguments as far as they came: of a half call, up to where its command would say that it begins."""
    if not call.half:
        return arguments
    return arguments[: arguments.index(f"echo begin {call.label}")]


def as_json(value: JsonValue) -> str:
    """As it stands on the wire."""
    return json.dumps(value, separators=(",", ":"))
