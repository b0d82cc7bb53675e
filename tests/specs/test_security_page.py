"""The pages on security: the rules that they show mean what they say, and what they link to is there."""

import re
from pathlib import Path

import pytest
from loopkernel.codec import policy_from_text
from loopkernel.data.json_text import Json
from loopkernel.data.tools import AccessMode, Claim, Decision, EffectClass, FieldResource, Tool, ToolProfile
from loopkernel.loop.algorithms.approval import decide

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGE = (DOCS / "security.md").read_text(encoding="utf-8")
FILES, COMMANDS = [
    policy_from_text(block) for block in re.findall(r"^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
]

PATH = (FieldResource("path", AccessMode.WRITE),)
EDIT = Tool(name="edit_file", profile=ToolProfile(resources=PATH, approval=Decision.ASK))
SEARCH = Tool(name="grep", profile=ToolProfile(effect=EffectClass.READ_ONLY, resources=PATH))
SHELL = Tool(name="shell", profile=ToolProfile(approval=Decision.ASK, commands=("command",)))


@pytest.mark.rule("ASK-1")
@pytest.mark.parametrize(
    ("tool", "given", "claims", "decision"),
    [
        (EDIT, {"path": "docs/a"}, (Claim("docs/a", AccessMode.WRITE),), Decision.ALLOW),
        (EDIT, {"path": "docs/../a"}, (Claim("a", AccessMode.WRITE),), Decision.ASK),
        (EDIT, {"path": "secrets/a"}, (Claim("secrets/a", AccessMode.WRITE),), Decision.DENY),
        (SEARCH, {}, (Claim(".", AccessMode.READ, tree=True),), Decision.DENY),
        (SEARCH, {"path": "docs"}, (Claim("docs", AccessMode.READ, tree=True),), Decision.ALLOW),
        (SHELL, {"command": "git status"}, None, Decision.ASK),  # where something is denied, each command asks
    ],
)
def test_the_rules_of_the_page_mean_what_it_says(
    tool: Tool, given: dict[str, str], claims: tuple[Claim, ...] | None, decision: Decision
) -> None:
    assert decide(FILES, (), tool, Json.of(dict(given)), claims=claims, tools=(EDIT, SEARCH, SHELL)) is decision


@pytest.mark.rule("ASK-1")
@pytest.mark.parametrize(
    ("command", "decision"),
    [
        ("git status", Decision.ALLOW),
        ("git status; rm -rf ~", Decision.ASK),
        ("git log -3 --oneline", Decision.ALLOW),
        ("git log; rm -rf ~", Decision.ASK),
        ("git log $(rm -rf ~)", Decision.ASK),
        ("rm -rf ~", Decision.ASK),
    ],
)
def test_the_commands_of_the_page_are_allowed_and_no_others(command: str, decision: Decision) -> None:
    assert decide(COMMANDS, (), SHELL, Json.of({"command": command})) is decision


def test_what_the_pages_link_to_is_there() -> None:
    for page in DOCS.glob("*.md"):
        for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
            if not target.startswith("https://"):
                assert (page.parent / target).exists(), f"{page.name} links to {target}"
