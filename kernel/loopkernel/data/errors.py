"""The kernel's errors: bad data, a bad document, a bad policy, a log of other rules, and a broken law, our own bug.

What goes wrong in the world is never an error here: it comes in as a delta.
"""

import json
import re
from collections.abc import Iterable

from attrs import frozen

from loopkernel.later_typing import override

# Paths and problems are for people: longer pieces of a document are cut, so that a hostile one cannot make
# the message larger than itself.
LONGEST_SHOWN = 60
MAX_FAULTS = 1_000  # what is told of one document; reading stops there
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


@frozen
class Fault:
    """One thing that is wrong: where (`$` is the document, `$.a[3].b` lies inside it), and what."""

    path: str
    problem: str

    @override
    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


def quoted(text: str) -> str:
    """The text in quotes, in ASCII, cut when it is long."""
    if len(text) > LONGEST_SHOWN:
        return f"{json.dumps(text[:LONGEST_SHOWN])}... ({len(text)} characters)"
    return json.dumps(text)


def json_path(segments: Iterable[str | int]) -> str:
    """The path of a value: its keys and indexes, from the outside in, as `$.key[0]["other key"]`."""
    path = "$"
    for segment in segments:
        if isinstance(segment, int):
            path += f"[{segment}]"
        elif len(segment) <= LONGEST_SHOWN and _PLAIN_KEY.fullmatch(segment):
            path += f".{segment}"
        else:
            path += f"[{quoted(segment)}]"
    return path


def at_most_told(faults: list[Fault]) -> list[Fault]:
    """The faults, at most MAX_FAULTS of them, and a last one that says so when there were more."""
    if len(faults) <= MAX_FAULTS:
        return faults
    return [*faults[:MAX_FAULTS], Fault("$", f"has more than {MAX_FAULTS} faults; the others are not listed")]


class _Faulty(ValueError):
    """What the errors of bad input share: all faults, and a message that lists them."""

    subject = ""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__(self.faults)  # so that a copy or a pickle is built from the same faults

    @override
    def __str__(self) -> str:
        count = len(self.faults)
        head = f"this {self.subject} has {count} fault{'' if count == 1 else 's'}"
        lines = [f"  {fault}" for fault in self.faults]
        return "\n".join([f"{head}; correct what is named and try again:", *lines])


class CodecError(_Faulty):
    """A document that cannot be read, or a value that cannot be written. `faults` names all that is wrong."""

    subject = "document"


class DataError(_Faulty):
    """A value that a delta, a tool or another part of the public data cannot hold. `faults` says where and why."""

    subject = "value"


class PolicyError(_Faulty):
    """A policy that cannot hold. `faults` names all that is wrong."""

    subject = "policy"


class OtherRules(ValueError):
    """A log was written under another version of the rules: folded here it would tell another run (rule RESUME-1)."""

    def __init__(self, found: int, known: int) -> None:
        self.found = found
        self.known = known
        super().__init__(found, known)

    @override
    def __str__(self) -> str:
        return (
            f"this log was written under version {self.found} of the rules, and this loopkernel folds logs of version "
            f"{self.known}: use the loopkernel that wrote it, or go on from a snapshot of its state"
        )


def demand_kind(given: object, kinds: tuple[type, ...], what: str) -> None:
    """For functions that are given anything: raises TypeError, which says `what` is due, unless it is of the kinds."""
    if not isinstance(given, kinds):
        told = f"the class {given.__name__} itself" if isinstance(given, type) else f"of type {type(given).__name__}"
        raise TypeError(f"{what}; what was given is {told}")


class LawBroken(RuntimeError):
    """A law of the kernel does not hold: a bug of loopkernel, whatever the input was."""

    def __init__(self, law: str, detail: str) -> None:
        self.law = law
        self.detail = detail
        super().__init__(law, detail)

    @override
    def __str__(self) -> str:
        return (
            f"law {self.law} does not hold: {self.detail}. "
            "This is a fault of loopkernel itself: please report it with the log."
        )
