"""What judging a loop gives: for each law whether it held, each breach with its trace, and the choices that were seen.

A *law* is what nobody may break; a *choice* is what loops do in different ways. The card is plain data, whoever judged:
`scorecard_of` makes one of counts and breaches, and the modules beside this one show it.
"""

import enum
from collections.abc import Iterable, Mapping
from typing import final

from attrs import field, frozen
from loopkernel.laws import LAWS
from loopkernel.laws.reports import Law


class Weight(enum.StrEnum):
    """How bad a breach is."""

    MUST = "must"  # something ran that should not have, or was lost
    SHOULD = "should"  # a user is harmed in some worlds
    NOTED = "noted"  # providers live with it


class Outcome(enum.StrEnum):
    """What became of a law."""

    HELD = "held"
    BROKEN = "broken"
    NOT_OBSERVABLE = "not observable"


# The groups of a card, in order, with the laws of each; a law stands in one.
GROUPS: Mapping[str, tuple[str, ...]] = {
    "What the model is sent": ("PAIR", "ORDER", "SHOWN", "RESULT", "PREFIX", "TASK", "CUT-SAFE", "MIRROR"),
    "What runs": ("FINAL-ARGS", "AT-MOST-ONCE", "ONE-END", "NO-CONFLICT", "PARALLEL", "SIBLING", "ADDRESS", "ASKED"),
    "Failures and limits": ("RETRY-LAW", "PROGRESS", "BUDGET", "TIMER-DATA", "TOTAL"),
    "Cancels and restarts": ("CANCEL-STOP", "CONSERVE", "WRITE-AHEAD", "FORK-EQ", "REPAIR-FIX"),
    "The kernel from within": ("PURE", "WHY", "LINEAR"),
}
_WEIGHTS = tuple(Weight)  # the worst first


@final
@frozen(kw_only=True)
class Breach:
    """A law that did not hold in a scenario: what was wrong, what was seen on the way there, how to see it again."""

    law: str
    weight: Weight
    scenario: str
    detail: str
    trace: tuple[str, ...] = ()  # lines, the secrets in them hidden
    again: str = ""  # the command


@final
@frozen(kw_only=True)
class LawVerdict:
    """A law, how often it was judged, and its breaches, the worst and shortest first."""

    law: Law
    group: str
    checks: int
    breaches: tuple[Breach, ...] = ()

    @property
    def outcome(self) -> Outcome:
        """What became of it. One that nothing spoke of was not observable, which is not the same as held."""
        if self.breaches:
            return Outcome.BROKEN
        return Outcome.HELD if self.checks else Outcome.NOT_OBSERVABLE

    @property
    def weight(self) -> Weight | None:
        """The weight of its worst breach."""
        return self.breaches[0].weight if self.breaches else None


@final
@frozen(kw_only=True)
class Choice:
    """What the loop does where loops may differ, and what each preset does there."""

    name: str
    question: str
    seen: str
    presets: Mapping[str, str] = field(factory=dict)


@final
@frozen(kw_only=True)
class Subject:
    """Who was judged, and how it was reached."""

    name: str
    version: str
    reached: str  # as "over the Messages wire"


@final
@frozen(kw_only=True)
class Played:
    """A scenario that was played, or a note why it was not."""

    name: str
    about: str
    note: str = ""

    @property
    def skipped(self) -> bool:
        """Whether it was not played."""
        return bool(self.note)


@final
@frozen(kw_only=True)
class Scorecard:
    """All that judging a loop gave."""

    subject: Subject
    when: str  # the date, as the caller writes it
    circumstances: tuple[str, ...]  # of the box it ran in, as lines
    scenarios: tuple[Played, ...]
    verdicts: tuple[LawVerdict, ...]
    choices: tuple[Choice, ...] = ()

    @property
    def breaches(self) -> tuple[Breach, ...]:
        """Every breach, law by law."""
        return tuple(breach for verdict in self.verdicts for breach in verdict.breaches)

    @property
    def worst(self) -> Weight | None:
        """The weight of the worst breach; None where every law that was judged held."""
        return min((breach.weight for breach in self.breaches), key=_WEIGHTS.index, default=None)

    def having(self, outcome: Outcome) -> tuple[LawVerdict, ...]:
        """The verdicts with this outcome."""
        return tuple(verdict for verdict in self.verdicts if verdict.outcome is outcome)

    def resemblance(self) -> tuple[tuple[str, int, int], ...]:
        """Each preset with how many choices it has in common and of how many, the most alike first."""
        names = sorted({name for choice in self.choices for name in choice.presets})
        counted = [
            (
                name,
                sum(choice.presets[name] == choice.seen for choice in self.choices if name in choice.presets),
                sum(name in choice.presets for choice in self.choices),
            )
            for name in names
        ]
        return tuple(sorted(counted, key=lambda row: (-row[1], row[0])))


def verdicts_of(checks: Mapping[str, int], breaches: Iterable[Breach]) -> tuple[LawVerdict, ...]:
    """A verdict for every law, in the order of the groups. `checks` counts how often each was judged."""
    laws = {law.id: law for law in LAWS}
    found: dict[str, list[Breach]] = {}
    for breach in breaches:
        found.setdefault(breach.law, []).append(breach)
    unknown = (set(checks) | set(found)) - set(laws)
    if unknown:
        raise ValueError(f"these are not laws: {', '.join(sorted(unknown))}")
    return tuple(
        LawVerdict(
            law=laws[name],
            group=group,
            checks=checks.get(name, 0),
            breaches=tuple(sorted(found.get(name, ()), key=_worst_and_shortest)),
        )
        for group, names in GROUPS.items()
        for name in names
    )


def _worst_and_shortest(breach: Breach) -> tuple[int, int, str]:
    return _WEIGHTS.index(breach.weight), len(breach.trace), breach.scenario
