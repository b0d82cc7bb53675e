"""A scorecard as lines of text, for a terminal."""

from collections.abc import Iterator

from loopkernel_adapters.conform.laws_outside import in_words
from loopkernel_adapters.conform.scorecard import Breach, LawVerdict, Outcome, Scorecard

_SHOWN_TRACE = 14  # lines of the trace of the first breach of a law


def lines_of(card: Scorecard) -> Iterator[str]:
    """The whole card."""
    yield f"{card.subject.name} {card.subject.version}, {card.subject.reached}, {card.when}"
    yield from (f"  {line}" for line in card.circumstances)
    yield ""
    group = None
    for verdict in card.verdicts:
        if verdict.outcome is Outcome.NOT_OBSERVABLE:
            continue
        if verdict.group != group:
            group = verdict.group
            yield group
        yield f"  {_mark(verdict):<16} {verdict.law.id:<13} {in_words(verdict.law)}"
    unseen = [verdict.law.id for verdict in card.having(Outcome.NOT_OBSERVABLE)]
    yield f"Not observable: {', '.join(unseen) or 'none'}"
    yield ""
    for verdict in card.having(Outcome.BROKEN):
        yield from _breaches(verdict)
    yield from _choices(card)
    skipped = [each for each in card.scenarios if each.skipped]
    yield f"{len(card.scenarios) - len(skipped)} scenarios played"
    yield from (f"  not played: {each.name}: {each.note}" for each in skipped)
    yield sentence_of(card)


def sentence_of(card: Scorecard) -> str:
    """The card in one sentence."""
    held, broken = len(card.having(Outcome.HELD)), card.having(Outcome.BROKEN)
    if not held and not broken:
        return "No law was judged."
    if not broken:
        return f"All {held} laws that were judged held."
    names = ", ".join(f"{verdict.law.id} ({verdict.weight})" for verdict in broken)
    return f"{len(broken)} of {held + len(broken)} laws that were judged are broken: {names}."


def _mark(verdict: LawVerdict) -> str:
    return "held" if verdict.weight is None else f"BROKEN ({verdict.weight})"


def _breaches(verdict: LawVerdict) -> Iterator[str]:
    rules = ", ".join(verdict.law.rules)
    yield f"{verdict.law.id} is broken ({verdict.weight}); it rests on {rules}"
    for number, breach in enumerate(verdict.breaches):
        yield f"  {breach.scenario} ({breach.weight}): {breach.detail}"
        if number == 0:
            yield from _trace(breach)
        if breach.again:
            yield f"    again: {breach.again}"
    yield ""


def _trace(breach: Breach) -> Iterator[str]:
    yield from (f"    | {line}" for line in breach.trace[:_SHOWN_TRACE])
    if len(breach.trace) > _SHOWN_TRACE:
        yield f"    | and {len(breach.trace) - _SHOWN_TRACE} lines more, which --html and --json show"


def _choices(card: Scorecard) -> Iterator[str]:
    if not card.choices:
        return
    yield "Choices, which are not judged"
    for choice in card.choices:
        same = [name for name, does in choice.presets.items() if does == choice.seen]
        as_in = f" (as {', '.join(same)})" if same else " (as no preset)" if choice.presets else ""
        yield f"  {choice.question} {choice.seen}{as_in}"
    alike = card.resemblance()
    if alike:
        name, common, asked = alike[0]
        parts = [c for c in card.choices if name in c.presets and c.presets[name] != c.seen]
        yield f"  It resembles the preset {name} most: {common} of {asked} choices."
        yield from (f"    it parts from it in: {c.question} {c.seen}, not {c.presets[name]}" for c in parts)
    yield ""
