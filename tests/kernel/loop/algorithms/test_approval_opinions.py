"""Decisions about resources and commands: by tables, and against a second opinion."""

from collections.abc import Callable

import pytest
from attrs import evolve, frozen
from hypothesis import given, settings
from hypothesis import strategies as st
from loopkernel.data.choices import ApprovalMode
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.policy import ApprovalRule, FieldPattern, Policy, ResourcePattern
from loopkernel.data.remembered import Remembered, RememberedCall, RememberedPattern, RememberedTool
from loopkernel.data.tools import (
    AccessMode,
    Claim,
    Decision,
    EffectClass,
    FieldResource,
    FixedResource,
    Tool,
    ToolProfile,
)
from loopkernel.data.user_deltas import RememberCall, RememberPattern, RememberTool, Remembrance
from loopkernel.loop.algorithms.approval import decide, resource_in_the_way
from loopkernel.testing.slow_approval import SlowApprovals

pytestmark = pytest.mark.rule("ASK-1")
ALLOW, ASK, DENY = Decision.ALLOW, Decision.ASK, Decision.DENY
READ, WRITE = AccessMode.READ, AccessMode.WRITE
Claims = tuple[Claim, ...] | None

EDIT = Tool(name="edit", profile=ToolProfile(resources=(FieldResource("path", WRITE),), approval=ASK))
COPY = Tool(
    name="copy",
    profile=ToolProfile(
        effect=EffectClass.IDEMPOTENT,
        resources=(FieldResource("path", READ), FieldResource("to", WRITE), FixedResource("log", WRITE)),
        approval=ASK,
    ),
)
GREP = Tool(
    name="grep", profile=ToolProfile(effect=EffectClass.READ_ONLY, resources=(FieldResource("path", READ, tree=True),))
)
SHELL = Tool(name="shell", profile=ToolProfile(commands=("command",), serial=True))
SERVER = Tool(name="server", profile=ToolProfile(effect=EffectClass.IDEMPOTENT, unbounded=True))
PLAIN = Tool(name="plain", profile=ToolProfile())
BARE = Tool(name="bare")
TOOLS = (EDIT, COPY, GREP, SHELL, SERVER, PLAIN, BARE)


def rule(decision: Decision, *resources: ResourcePattern, tool: str = "*", **fields: str) -> ApprovalRule:
    patterns = tuple(FieldPattern(field, pattern) for field, pattern in fields.items())
    return ApprovalRule(decision=decision, tool=tool, input=patterns, resources=resources)


def decided(
    tool: Tool,
    claims: Claims,
    *rules: ApprovalRule,
    given: dict[str, JsonValue] | None = None,
    mode: ApprovalMode = ApprovalMode.DEFAULT,
    remembered: tuple[Remembered, ...] = (),
    approved: bool = False,
) -> Decision:
    policy = Policy(approval_rules=rules, approval_mode=mode)
    call_input = Json.of(given or {})
    return decide(policy, remembered, tool, call_input, approved=approved, claims=claims, tools=TOOLS)


NO_SECRETS = rule(DENY, path="secrets/*")
ROOT = (Claim(".", READ, tree=True),)
SECRET = (Claim("secrets/a", WRITE),)
OTHER = (Claim("other/a", WRITE),)


@pytest.mark.parametrize("denial", [NO_SECRETS, rule(DENY, ResourcePattern("secrets/*"))], ids=["field", "resources"])
def test_a_denial_holds_for_whatever_reaches_the_resource(denial: ApprovalRule) -> None:
    assert decided(GREP, ROOT, denial) is DENY
    assert decided(GREP, (Claim("secrets", READ, tree=True),), denial, given={"path": "secrets"}) is DENY
    assert decided(GREP, (Claim("other", READ, tree=True),), denial, given={"path": "other"}) is ALLOW
    assert decided(EDIT, SECRET, denial, given={"path": "x/../secrets/a"}) is DENY
    assert decided(EDIT, OTHER, denial, given={"path": "other/a"}) is ASK
    assert decided(COPY, (*OTHER, *SECRET), denial, given={"path": "other/a", "to": "secrets/a"}) is DENY
    assert decided(PLAIN, (), denial) is ALLOW  # it says that it uses nothing


def test_a_rule_about_a_field_that_is_no_resource_goes_by_the_text_alone() -> None:
    assert decided(PLAIN, SECRET, rule(DENY, command="secrets/*")) is ALLOW
    assert decided(PLAIN, (), rule(DENY, command="rm *"), given={"command": "rm a"}) is DENY
    assert decided(EDIT, SECRET, rule(DENY, tool="copy", path="secrets/*"), given={"path": "secrets/a"}) is ASK
    words = rule(ALLOW, tool="edit", text="./a")  # a text that looks like a path is none
    assert decided(EDIT, OTHER, words, given={"path": "other/a", "text": "./a"}) is ALLOW
    assert decided(EDIT, OTHER, words, given={"path": "other/a", "text": "a"}) is ASK


def test_a_field_that_is_left_out_and_unknown_is_taken_for_what_is_denied() -> None:
    assert decided(GREP, None, NO_SECRETS) is DENY
    assert decided(GREP, None, rule(ASK, path="secrets/*")) is ASK
    assert decided(GREP, None, NO_SECRETS, given={"path": "other"}) is ASK  # nobody knows what it uses besides


@pytest.mark.parametrize("tool", [SHELL, SERVER, BARE], ids=lambda tool: str(tool.name))
@pytest.mark.parametrize("mode", ApprovalMode)
def test_what_may_reach_anything_never_passes_a_denial_unseen(tool: Tool, mode: ApprovalMode) -> None:
    expected = {ApprovalMode.HEADLESS: DENY, ApprovalMode.PLAN: DENY}.get(mode, ASK)
    allowed = rule(ALLOW, tool=tool.name)
    elsewhere = rule(DENY, tool="edit", path="secrets/*")
    given: dict[str, JsonValue] = {"command": "cat secrets/a"}
    kept = RememberedTool(tool.name), RememberedPattern(tool.name, (FieldPattern("command", "cat *"),))
    exactly = RememberedCall(tool.name, Json.of(given))
    assert decided(tool, (), NO_SECRETS, allowed, given=given, mode=mode, remembered=kept) is expected
    if mode is not ApprovalMode.PLAN:
        assert decided(tool, (), NO_SECRETS, given=given, mode=mode, approved=True) is ALLOW
        assert decided(tool, (), NO_SECRETS, given=given, mode=mode, remembered=(exactly,)) is ALLOW
        assert decided(tool, (), elsewhere, allowed, given=given, mode=mode) is ALLOW


def test_an_allowance_holds_only_for_what_surely_stays_within() -> None:
    ours = rule(ALLOW, path="src/*")
    within = (Claim("src/a", WRITE),)
    assert decided(EDIT, within, ours, given={"path": "src/a"}) is ALLOW
    assert decided(EDIT, within, rule(ALLOW, path="./src/"), given={"path": "src/a"}) is ALLOW
    assert decided(EDIT, (Claim("etc/a", WRITE),), ours, given={"path": "src/../etc/a"}) is ASK
    assert decided(EDIT, (Claim("etc/a", WRITE),), ours, given={"path": "src/a"}) is ASK  # a link, say
    assert decided(EDIT, None, ours, given={"path": "src/a"}) is ASK
    assert decided(EDIT, (), ours, given={"path": "src/a"}) is ASK
    kept = (RememberedPattern("edit", (FieldPattern("path", "src/*"),)),)
    assert decided(EDIT, within, given={"path": "src/a"}, remembered=kept) is ALLOW
    assert decided(EDIT, OTHER, given={"path": "src/a"}, remembered=kept) is ASK
    log, both = Claim("log", WRITE), {"path": "src/a", "to": "src/b"}
    assert decided(COPY, (Claim("src/a", READ), Claim("src/b", WRITE), log), ours, given={**both}) is ALLOW
    assert decided(COPY, (Claim("src/a", READ), Claim("b", WRITE), log), ours, given={**both, "to": "b"}) is ASK
    two = rule(ALLOW, path="src/*", to="b")
    assert decided(COPY, (Claim("src/a", READ), Claim("b", WRITE), log), two, given={**both, "to": "b"}) is ALLOW


def test_an_allowance_about_resources_goes_by_the_claims_alone() -> None:
    ours = rule(ALLOW, ResourcePattern("src", READ), ResourcePattern("out/*"))
    reads, writes = Claim("src/a", READ), Claim("out/a", WRITE)
    assert decided(COPY, (reads, writes), ours) is ALLOW
    assert decided(COPY, (reads, writes, Claim("src/b", WRITE)), ours) is ASK
    assert decided(COPY, (), ours) is ASK
    assert decided(BARE, (reads,), ours) is ASK


def test_a_rule_about_reading_holds_for_writes_too_where_it_denies() -> None:
    for mode, denied in ((READ, DENY), (WRITE, ALLOW), (None, DENY)):
        assert decided(GREP, ROOT, rule(DENY, ResourcePattern("secrets/*", mode))) is denied
        assert decided(EDIT, SECRET, rule(DENY, ResourcePattern("secrets/*", mode))) is DENY


def test_a_pattern_for_a_command_allows_one_command_only() -> None:
    git = rule(ALLOW, tool="shell", command="git *")
    asks = evolve(SHELL, profile=ToolProfile(commands=("command",), approval=ASK))
    for command, decision in (("git status", ALLOW), ("git status; rm -rf ~", ASK), ("git $(rm a)", ASK)):
        assert decided(asks, (), git, given={"command": command}) is decision
        kept = (RememberedPattern("shell", (FieldPattern("command", "git *"),)),)
        assert decided(asks, (), given={"command": command}, remembered=kept) is decision
    assert decided(asks, (), git, given={"command": ["git"]}) is ASK
    assert decided(asks, (), rule(ALLOW, command="a; b"), given={"command": "a; b"}) is ALLOW
    assert decided(SHELL, (), rule(DENY, command="*rm -rf*"), given={"command": "a; rm -rf b"}) is DENY


def in_the_way(tool: Tool, claims: Claims, *rules: ApprovalRule, path: str | None = None) -> str | None:
    given = Json.of({} if path is None else {"path": path})
    return resource_in_the_way(Policy(approval_rules=rules), tool, given, claims=claims, tools=TOOLS)


def test_who_reaches_too_far_is_told_what_is_in_the_way() -> None:
    assert in_the_way(GREP, ROOT, NO_SECRETS) == "secrets/*"
    assert in_the_way(GREP, ROOT, rule(DENY, ResourcePattern("secrets"))) == "secrets"
    assert in_the_way(GREP, None, NO_SECRETS) == "secrets/*"
    assert in_the_way(EDIT, SECRET, NO_SECRETS, path="secrets/a") is None
    assert in_the_way(EDIT, SECRET, rule(DENY, ResourcePattern("secrets"))) is None
    assert in_the_way(GREP, ROOT, NO_SECRETS, rule(DENY, tool="grep")) is None
    assert in_the_way(GREP, ROOT, NO_SECRETS, rule(DENY, tool="edit")) == "secrets/*"
    assert in_the_way(GREP, ROOT) is None


# --- two opinions ---------------------------------------------------------------------------------------


@frozen
class Case:
    """A call, and what is decided by."""

    policy: Policy
    remembered: tuple[tuple[Remembrance, str, Json], ...]
    tool: Tool
    given: Json
    claims: Claims
    approved: bool


paths = st.sampled_from(("a", "a/b", "a/../b", ".", "b", "./a", "a/c/d", "/w/a", "..", "../a", "log"))
path_patterns = st.sampled_from(("a/*", "a", "a/", "*", "./a/*", "/w/*", "**/c/*", "b", "", "..", "*b", "a/*/../b"))
modes = st.sampled_from(AccessMode)
field_patterns = st.builds(FieldPattern, st.sampled_from(("path", "to")), path_patterns) | st.builds(
    FieldPattern, st.just("command"), st.sampled_from(("git *", "git status", "*", "rm*"))
)
resource_patterns = st.builds(
    ResourcePattern, path_patterns.filter(lambda pattern: pattern not in ("", "a/*/../b")), st.none() | modes
)
rules = st.builds(
    ApprovalRule,
    decision=st.sampled_from(Decision),
    tool=st.sampled_from(("*", "*", "grep", "shell")),
    input=st.lists(field_patterns, max_size=2).map(tuple),
    resources=st.lists(resource_patterns, max_size=2).map(tuple),
)
inputs: st.SearchStrategy[dict[str, JsonValue]] = st.fixed_dictionaries(
    {},
    optional={
        "path": paths | st.just(1) | st.just(["a/b"]),
        "to": paths,
        "command": st.sampled_from(("git status", "git status; rm a", "rm a", "git")),
    },
)
claims = st.builds(
    Claim,
    paths,
    modes,
    tree=st.booleans(),
    also=st.just(()) | paths.map(lambda path: (f"/w/{path}",)),
)
remembrances = st.one_of(
    st.just(RememberTool()),
    st.just(RememberCall()),
    st.lists(field_patterns, max_size=2).map(tuple).map(RememberPattern),
)
cases = st.builds(
    Case,
    st.builds(
        Policy, approval_mode=st.sampled_from(ApprovalMode), approval_rules=st.lists(rules, max_size=3).map(tuple)
    ),
    st.lists(
        st.tuples(remembrances, st.sampled_from(TOOLS).map(lambda tool: tool.name), inputs.map(Json.of)), max_size=1
    ).map(tuple),
    st.sampled_from(TOOLS),
    inputs.map(Json.of),
    st.none() | st.lists(claims, max_size=2).map(tuple),
    st.booleans(),
)


def as_kept(how: Remembrance, tool: str, given: Json) -> Remembered:
    if isinstance(how, RememberTool):
        return RememberedTool(tool)
    return RememberedCall(tool, given) if isinstance(how, RememberCall) else RememberedPattern(tool, how.fields)


Decide = Callable[[Case], Decision]


def by_the_kernel(case: Case) -> Decision:
    kept = tuple(as_kept(*one) for one in case.remembered)
    return decide(case.policy, kept, case.tool, case.given, approved=case.approved, claims=case.claims, tools=TOOLS)


def by_the_slow_one(case: Case) -> Decision:
    slow = SlowApprovals(case.policy, TOOLS, [as_kept(*one) for one in case.remembered])
    return slow.decision(case.tool.name, case.given, case.claims, approved=case.approved)


@settings(max_examples=300)
@given(cases)
def test_two_opinions_agree_on_every_decision(case: Case) -> None:
    assert by_the_kernel(case) is by_the_slow_one(case)


def case_of(tool: Tool, claims: Claims, *rules: ApprovalRule, approved: bool = False, **given: str) -> Case:
    return Case(Policy(approval_rules=rules), (), tool, Json.of({**given}), claims, approved)


DENIES_WRITES = rule(DENY, ResourcePattern("secrets", WRITE))
TELLING = {  # each by the mistake that it would tell
    "claims-forgotten": case_of(EDIT, SECRET, NO_SECRETS, path="x"),
    "unknown-is-nothing": case_of(GREP, None, NO_SECRETS),
    "first-claim-alone": case_of(COPY, (*OTHER, *SECRET), NO_SECRETS, path="other/a", to="secrets/a"),
    "parents-hold-nothing": case_of(GREP, ROOT, NO_SECRETS),
    "other-names-forgotten": case_of(EDIT, (Claim("a", WRITE, also=("/w/a",)),), rule(DENY, path="/w/*"), path="a"),
    "a-search-is-one-file": case_of(GREP, (Claim("src", READ, tree=True),), rule(DENY, path="*.key"), path="src"),
    "writes-only-read": case_of(EDIT, SECRET, DENIES_WRITES, path="secrets/a"),
    "resources-forgotten": case_of(EDIT, OTHER, DENIES_WRITES, path="other/a"),
    "commands-are-texts": case_of(
        evolve(SHELL, profile=ToolProfile(commands=("command",), approval=ASK)),
        (),
        rule(ALLOW, command="git *"),
        command="git a; rm b",
    ),
    "a-server-is-bounded": case_of(SERVER, (), NO_SECRETS),
    "exact-approval-is-none": case_of(EDIT, OTHER, approved=True, path="other/a"),
}


@pytest.mark.parametrize("name", TELLING)
def test_two_opinions_agree_where_it_is_easy_to_err(name: str) -> None:
    case = TELLING[name]
    slow = SlowApprovals(case.policy, (case.tool, *TOOLS))
    expected = slow.decision(case.tool.name, case.given, case.claims, approved=case.approved)
    assert by_the_kernel(case) is expected
