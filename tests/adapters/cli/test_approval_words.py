"""What an approval is about, in words that nothing in it can bend, and without the secrets in it."""

import pytest
from hypothesis import given
from loopkernel.data.json_text import Json
from loopkernel.data.policy import ApprovalRule, FieldPattern
from loopkernel.data.remembered import Remembered, RememberedCall, RememberedPattern, RememberedTool
from loopkernel.data.tools import Decision
from loopkernel.testing.strategies.policies import remembered as approvals
from loopkernel_adapters.cli.approval_words import LONGEST, approval_told, rule_told


@pytest.mark.rule("ASK-3")
@pytest.mark.parametrize(
    ("approval", "told"),
    [
        (RememberedTool("shell"), "each call of shell"),
        (RememberedCall("edit_file", Json.of({"path": "notes.txt"})), "edit_file with path=notes.txt exactly"),
        (
            RememberedCall("put", Json.of({"path": "a, mode=b", "times": 2, "deep": [True]})),
            'put with path="a, mode=b", times=2, deep=[true] exactly',
        ),
        (RememberedCall("now", Json.of({})), "now without any input"),
        (RememberedCall("odd", Json.of(["a"])), 'odd with ["a"] exactly'),
        (RememberedCall("login", Json.of({"password": "hunter2"})), "login with password=[redacted] exactly"),
        (RememberedPattern("shell", (FieldPattern("command", "git *"),)), 'shell with command like "git *"'),
        (
            RememberedPattern("put", (FieldPattern("path", "docs/*"), FieldPattern("token", "abc*"))),
            "put with path like docs/* and token like [redacted]",
        ),
        (RememberedPattern("put", ()), "each call of put"),
    ],
)
def test_an_approval_is_told_by_what_it_is_about(approval: Remembered, told: str) -> None:
    assert approval_told(approval) == told


def test_a_rule_is_told_by_its_patterns() -> None:
    rule = ApprovalRule(decision=Decision.ALLOW, tool="read_*", input=(FieldPattern("path", "docs/*"),))
    assert rule_told(rule) == "read_* with path like docs/*"
    assert rule_told(ApprovalRule(decision=Decision.ALLOW)) == "*"


@given(approvals)
def test_it_is_one_line_and_no_book(approval: Remembered) -> None:
    told = approval_told(approval)
    assert len(told.splitlines()) <= 1
    assert len(told) <= LONGEST + 100
