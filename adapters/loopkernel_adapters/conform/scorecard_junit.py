"""A scorecard as JUnit XML, which continuous integration shows: a case for each law, in the suite of its group."""

import re
from xml.etree import ElementTree

from loopkernel_adapters.conform.scorecard import LawVerdict, Outcome, Scorecard, Weight

# What XML 1.0 has no way to write, escaped or not.
_UNWRITABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_of(card: Scorecard) -> str:
    """The document. A breach that is only noted fails nothing, and stands in the output of its case."""
    root = ElementTree.Element("testsuites", name=_safe(f"{card.subject.name} {card.subject.version}"))
    groups: dict[str, list[LawVerdict]] = {}
    for verdict in card.verdicts:
        groups.setdefault(verdict.group, []).append(verdict)
    for group, verdicts in groups.items():
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=group,
            tests=str(len(verdicts)),
            failures=str(sum(map(_fails, verdicts))),
            skipped=str(sum(verdict.outcome is Outcome.NOT_OBSERVABLE for verdict in verdicts)),
        )
        for verdict in verdicts:
            _add_case(suite, verdict)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _fails(verdict: LawVerdict) -> bool:
    return verdict.weight in (Weight.MUST, Weight.SHOULD)


def _add_case(suite: ElementTree.Element, verdict: LawVerdict) -> None:
    case = ElementTree.SubElement(suite, "testcase", classname=verdict.group, name=verdict.law.id)
    told = _safe(
        "\n".join(line for breach in verdict.breaches for line in (breach.detail, *breach.trace, breach.again))
    )
    if verdict.outcome is Outcome.NOT_OBSERVABLE:
        ElementTree.SubElement(case, "skipped", message="not observable")
    elif _fails(verdict):
        first = verdict.breaches[0]
        failure = ElementTree.SubElement(
            case, "failure", type=first.weight, message=_safe(f"{first.scenario}: {first.detail}")
        )
        failure.text = told
    elif told:
        ElementTree.SubElement(case, "system-out").text = told


def _safe(text: str) -> str:
    return _UNWRITABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
