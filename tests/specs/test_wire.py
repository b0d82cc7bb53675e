"""specs/wire.md is what the types say, and what it says is how documents really look."""

import re
from pathlib import Path

from loopkernel.codec import effects_to_text, policy_to_text, record_to_text, state_to_text
from loopkernel.data.json_text import MAX_DOCUMENT_DEPTH, JsonValue, parse_json
from loopkernel.data.policy import Policy
from loopkernel.data.records import LogRecord
from loopkernel.loop.transition import transition
from loopkernel.testing.played.player import play

from scripts.wire_reference import wire_page
from tests.kernel.planted.runs import SCRIPTS

SPECS = Path(__file__).resolve().parents[2] / "specs"
PAGE = (SPECS / "wire.md").read_text(encoding="utf-8")
TAGS = dict(re.findall(r"^### (\w+)\n\n[^\n]*\n\nTag, [^\n]*: `([a-z-]+)`\.$", PAGE, re.MULTILINE))
OPTIONS = (SPECS.parent / "docs" / "reference" / "policy.md").read_text(encoding="utf-8")
KEYS = set(re.findall(r"^\| `(?:\w+\.)?(\w+)` \|", PAGE + OPTIONS, re.MULTILINE))


def test_the_page_is_printed_from_the_types() -> None:
    assert wire_page() == PAGE, "print it anew: python -m scripts.wire_reference > specs/wire.md"


def test_every_type_has_one_place_and_every_link_leads_to_it() -> None:
    headings = re.findall(r"^### (\w+)$", PAGE, re.MULTILINE)
    assert len({heading.lower() for heading in headings}) == len(headings)
    links = re.findall(r"\[(\w+)\]\(#(\w+)\)", PAGE)
    assert {name for name, _ in links} == set(headings)
    assert set(re.findall(r"wire\.md#(\w+)", OPTIONS)) <= {anchor for _, anchor in links}
    assert all(name.lower() == anchor for name, anchor in links)


def told(value: JsonValue) -> tuple[set[str], set[str]]:
    """The keys and the tags within a written value, but for those in JSON that is not the kernel's."""
    keys: set[str] = set()
    tags: set[str] = set()
    parts = value if isinstance(value, list) else []
    if isinstance(value, dict):
        tag = value.get("type")
        tags |= {tag} if isinstance(tag, str) else set()
        keys |= value.keys() - {"type"}
        raw_keys = {"json", "payload", "input_schema", "input"}
        parts = [part for key, part in value.items() if key not in raw_keys]
    for part in parts:
        more_keys, more_tags = told(part)
        keys |= more_keys
        tags |= more_tags
    return keys, tags


def test_what_is_written_has_the_tags_and_keys_of_the_page() -> None:
    texts = [policy_to_text(Policy(max_turns=5))]
    for script in SCRIPTS.values():
        for step in play(script, transition):
            record = LogRecord(step.context.delta, step.context.now_ms)
            texts += [record_to_text(record), effects_to_text(step.effects), state_to_text(step.after)]
    seen_keys: set[str] = set()
    seen_tags: set[str] = set()
    for text in texts:
        keys, tags = told(parse_json(text, MAX_DOCUMENT_DEPTH))
        seen_keys |= keys
        seen_tags |= tags
    around = {"loopkernel", "version", "value", "thread", "command", "generation", "length", "json"}
    assert seen_tags <= set(TAGS.values())
    assert seen_keys <= KEYS | around
    assert len(seen_tags) > 60
