"""Reads the rules out of specs/rules/*.md: what the form tests and the traceability test share.

The form of a rule: a heading `### TOOL-8 — Order of results`; as the next line that is not blank,
`Status: ...`; then its text, up to the next heading. specs/README.md describes it for readers.
"""

import re
from collections.abc import Iterator
from enum import StrEnum
from itertools import pairwise
from pathlib import Path

from attrs import frozen

RULES_FOLDER = Path(__file__).resolve().parents[2] / "specs" / "rules"

_HEADING = re.compile(r"### (?P<id>[A-Z]+-[1-9][0-9]*) — (?P<title>\S(?:.*\S)?)")
_STATUS = re.compile(r"Status: (?P<status>not built|built)")


class RuleStatus(StrEnum):
    """Whether a rule holds today, or is only written down."""

    BUILT = "built"
    NOT_BUILT = "not built"


class RuleDocumentError(Exception):
    """A page of specs/rules does not have the form that its readers rely on; the text names file and line."""


@frozen(kw_only=True)
class Rule:
    """One rule."""

    id: str
    title: str
    status: RuleStatus
    text: str
    file: str

    @property
    def topic(self) -> str:
        """The part of the id before the number: `TOOL` of `TOOL-8`."""
        return self.id.rpartition("-")[0]

    @property
    def number(self) -> int:
        """The number within the topic: 8 of `TOOL-8`."""
        return int(self.id.rpartition("-")[2])


def parse(page: str, file: str) -> tuple[Rule, ...]:
    """The rules of one page, in order. Raises RuleDocumentError at the first line that breaks the form."""
    lines = page.splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("###")]
    stray = [number for number, line in enumerate(lines) if line.startswith("Status:")]
    found = tuple(_parse_one(lines, start, end, file) for start, end in pairwise([*starts, len(lines)]))
    if len(stray) != len(found):
        raise RuleDocumentError(f"{file}: {len(stray)} status lines for {len(found)} rules; each has one")
    return found


def _parse_one(lines: list[str], start: int, end: int, file: str) -> Rule:
    heading = _HEADING.fullmatch(lines[start])
    if heading is None:
        raise RuleDocumentError(f"{file}:{start + 1}: not of the form '### TOOL-8 — title': {lines[start]!r}")
    body = [number for number in range(start + 1, end) if lines[number].strip()]
    where = body[0] if body else start
    status = _STATUS.fullmatch(lines[where])
    if status is None:
        raise RuleDocumentError(
            f"{file}:{where + 1}: after its heading, {heading['id']} needs a line 'Status: ' "
            f"with one of: built; not built"
        )
    return Rule(
        id=heading["id"],
        title=heading["title"],
        status=RuleStatus(status["status"]),
        text="\n".join(lines[where + 1 : end]).strip(),
        file=file,
    )


def rules_in_order(folder: Path = RULES_FOLDER) -> Iterator[Rule]:
    """Every rule of the folder, page by page; an id that occurs twice is given twice."""
    for path in sorted(folder.glob("*.md")):
        yield from parse(path.read_text(encoding="utf-8"), path.name)


def rules(folder: Path = RULES_FOLDER) -> dict[str, Rule]:
    """Every rule by its id. Raises RuleDocumentError if a page breaks the form or an id occurs twice."""
    by_id: dict[str, Rule] = {}
    for rule in rules_in_order(folder):
        if rule.id in by_id:
            raise RuleDocumentError(f"{rule.id} stands in {by_id[rule.id].file} and again in {rule.file}")
        by_id[rule.id] = rule
    return by_id
