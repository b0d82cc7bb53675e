"""A scorecard as one JSON document, for programs."""

from loopkernel.data.json_text import JsonValue

from loopkernel_adapters.conform.laws_outside import in_words
from loopkernel_adapters.conform.scorecard import Breach, LawVerdict, Scorecard

FORMAT = 1  # of the document; it grows when a field changes its meaning


def document_of(card: Scorecard) -> dict[str, JsonValue]:
    """The card as plain data."""
    return {
        "format": FORMAT,
        "agent": card.subject.name,
        "version": card.subject.version,
        "reached": card.subject.reached,
        "when": card.when,
        "worst": card.worst,
        "circumstances": list(card.circumstances),
        "scenarios": [
            {"name": each.name, "about": each.about, "not_played": each.note or None} for each in card.scenarios
        ],
        "laws": [_verdict(verdict) for verdict in card.verdicts],
        "choices": [
            {
                "name": choice.name,
                "question": choice.question,
                "seen": choice.seen,
                "presets": dict(choice.presets),
            }
            for choice in card.choices
        ],
        "resemblance": [
            {"preset": name, "in_common": common, "of": asked} for name, common, asked in card.resemblance()
        ],
    }


def _verdict(verdict: LawVerdict) -> JsonValue:
    return {
        "law": verdict.law.id,
        "group": verdict.group,
        "statement": in_words(verdict.law),
        "rules": list(verdict.law.rules),
        "outcome": verdict.outcome,
        "weight": verdict.weight,
        "checks": verdict.checks,
        "breaches": [_breach(breach) for breach in verdict.breaches],
    }


def _breach(breach: Breach) -> JsonValue:
    return {
        "scenario": breach.scenario,
        "weight": breach.weight,
        "detail": breach.detail,
        "trace": list(breach.trace),
        "again": breach.again,
    }
