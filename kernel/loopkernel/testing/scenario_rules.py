"""Which rules are built: a scenario that names another is not judged."""

from collections.abc import Iterable

from loopkernel.laws import LAWS, LawKind

# The rules whose status in specs/rules is `built` or `built in part`; a test compares the two.
_BUILT = {
    "STATE": range(1, 10),
    "DELTA": range(1, 9),
    "INFER": range(1, 16),
    "TOOL": range(1, 21),
    "ASK": range(1, 8),
    "CALL": range(1, 7),
    "INPUT": range(1, 7),
    "CANCEL": range(1, 6),
    "RETRY": range(1, 8),
    "LIMIT": range(1, 4),
    "COMPACT": range(1, 6),
    "HOOK": range(1, 5),
    "CHILD": range(1, 4),
    "HANDOFF": range(1, 2),
    "RESUME": range(1, 7),
}
BUILT_RULES = frozenset(f"{topic}-{number}" for topic, numbers in _BUILT.items() for number in numbers)


def first_unbuilt(rules: Iterable[str]) -> str | None:
    """The first of the rules and laws that is not built; None if all are. A law of cost is the benchmark's to judge."""
    laws = {law.id for law in LAWS if law.not_yet is None or law.kind is LawKind.COST}
    return next((rule for rule in rules if rule not in BUILT_RULES and rule not in laws), None)
