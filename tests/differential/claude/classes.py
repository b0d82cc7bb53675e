"""The known classes of difference, as data: whose each is, why, and the smallest conversation that shows it."""

import enum
from fnmatch import fnmatchcase

from attrs import frozen

from tests.differential.claude.comparing import Difference, What
from tests.differential.claude.scripts import told


class Whose(enum.Enum):
    """Who does otherwise than one would."""

    DECISION = "ours, a decision"
    THEIRS = "theirs"


@frozen
class Class:
    """Differences of those kinds behind an answer that is told in one of those ways (patterns).

    `because` is the number of a decision, or the law that theirs breaks; `smallest` is a conversation written by hand.
    """

    name: str
    whose: Whose
    because: str
    what: frozenset[What]
    after: tuple[str, ...]
    smallest: str


_REQUESTS = frozenset({What.REQUEST, What.NO_REQUEST, What.ONE_MORE})


def _decision(name: str, number: int, smallest: str, *after: str, what: frozenset[What] = _REQUESTS) -> Class:
    return Class(name, Whose.DECISION, str(number), what, after, smallest)


def _theirs(name: str, law: str, smallest: str, *after: str) -> Class:
    return Class(name, Whose.THEIRS, law, _REQUESTS, after, smallest)


CLASSES = (
    _decision(
        "an error at the start of a stream is waited for, and the wait is told",
        328,
        "error-at-its-start",
        "nothing (error)",
        what=frozenset({What.WAITS}),
    ),
    _decision("a request that is wrong", 330, "bad-request", "400 *", "401 *", "404 *"),
    _decision("the order of results", 332, "unknown-tool-behind-a-call", "*", what=frozenset({What.ORDER})),
    _theirs("one id twice in a reply", "PAIR", "one-id-twice", "call again call again (tool_use)"),
    _theirs("an id again in a later reply", "PAIR", "an-id-again", "call again (tool_use)"),
)


def class_of(difference: Difference) -> Class | None:
    """The class that the difference is of; None: it is new, and is to be mended or decided."""
    after = "" if difference.after is None else told(difference.after)
    for each in CLASSES:
        if difference.what in each.what and any(fnmatchcase(after, pattern) for pattern in each.after):
            return each
    return None
