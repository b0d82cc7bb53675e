"""A scorecard as one HTML page that fetches nothing and runs nothing. Whatever an agent said is text in it."""

import html
import re
from collections.abc import Iterator

from loopkernel_adapters.conform.laws_outside import in_words
from loopkernel_adapters.conform.scorecard import Breach, LawVerdict, Outcome, Scorecard
from loopkernel_adapters.conform.scorecard_text import sentence_of

# Controls and marks of writing direction are shown by their numbers, so that no text hides another.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .25rem .7rem .25rem 0; border-bottom: 1px solid #8884; }
pre { overflow-x: auto; padding: .6rem; background: #8881; border-radius: .3rem; }
.must { color: #c62828; font-weight: 600; } .should { color: #b26a00; font-weight: 600; }
.noted, .held { color: #2e7d32; } .unseen { opacity: .65; }
"""


def page_of(card: Scorecard) -> str:
    """The page."""
    return "\n".join(_page(card)) + "\n"


def _page(card: Scorecard) -> Iterator[str]:
    title = _shown(f"{card.subject.name} {card.subject.version}")
    yield '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    yield '<meta name="viewport" content="width=device-width">'
    yield f"<title>{title}</title>\n<style>{_STYLE}</style>"
    yield f"<h1>{title}</h1>\n<p>{_shown(card.subject.reached)}, {_shown(card.when)}"
    yield from (f"<br>{_shown(line)}" for line in card.circumstances)
    yield f"<p><strong>{_shown(sentence_of(card))}</strong>"
    yield from _laws(card)
    yield from (part for verdict in card.having(Outcome.BROKEN) for part in _breaches(verdict))
    yield from _choices(card)
    yield "<h2>Scenarios</h2>\n<table>"
    for each in card.scenarios:
        yield f"<tr><td>{_shown(each.name)}<td>{_shown(each.about)}<td>{_shown(each.note or 'played')}"
    yield "</table>\n</html>"


def _laws(card: Scorecard) -> Iterator[str]:
    yield "<h2>Laws</h2>\n<table>"
    group = None
    for verdict in card.verdicts:
        if verdict.group != group:
            group = verdict.group
            yield f'<tr><th colspan="3">{_shown(group)}'
        kind = verdict.weight or ("held" if verdict.outcome is Outcome.HELD else "unseen")
        told = verdict.outcome if verdict.weight is None else f"{verdict.outcome} ({verdict.weight})"
        yield f'<tr class="{"unseen" if kind == "unseen" else ""}"><td class="{kind}">{told}'
        yield f"<td>{_shown(verdict.law.id)}<td>{_shown(in_words(verdict.law))}"
    yield "</table>"


def _breaches(verdict: LawVerdict) -> Iterator[str]:
    yield f"<h3>{_shown(verdict.law.id)} is broken</h3>\n<p>It rests on {_shown(', '.join(verdict.law.rules))}."
    yield from (part for breach in verdict.breaches for part in _breach(breach))


def _breach(breach: Breach) -> Iterator[str]:
    yield f'<details><summary><span class="{breach.weight}">{breach.weight}</span> in '
    yield f"{_shown(breach.scenario)}: {_shown(breach.detail)}</summary>"
    if breach.trace:
        yield f"<pre>{_shown(chr(10).join(breach.trace))}</pre>"
    if breach.again:
        yield f"<p>To see it again: <code>{_shown(breach.again)}</code>"
    yield "</details>"


def _choices(card: Scorecard) -> Iterator[str]:
    if not card.choices:
        return
    yield "<h2>Choices</h2>\n<p>Loops may differ in these; nothing is judged."
    alike = card.resemblance()
    if alike:
        name, common, asked = alike[0]
        yield f"<p>It resembles the preset {_shown(name)} most: {common} of {asked}."
    yield "<table><tr><th>Question<th>Seen<th>Presets that do the same<th>Others"
    for choice in card.choices:
        same = ", ".join(name for name, does in choice.presets.items() if does == choice.seen)
        others = "; ".join(f"{name}: {does}" for name, does in choice.presets.items() if does != choice.seen)
        yield f"<tr><td>{_shown(choice.question)}<td>{_shown(choice.seen)}<td>{_shown(same)}<td>{_shown(others)}"
    yield "</table>"


def _shown(text: str) -> str:
    return html.escape(_UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text))
