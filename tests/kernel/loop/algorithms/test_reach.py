"""What patterns of rules reach: by tables, and against a second opinion that shares no code."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from loopkernel.data.errors import PolicyError
from loopkernel.data.policy import ResourcePattern
from loopkernel.data.tools import AccessMode, Claim
from loopkernel.laws.accounts.reach import spelled, uses_only, uses_some
from loopkernel.loop.algorithms.reach import canonical, lies_within, reaches

pytestmark = pytest.mark.rule("ASK-1")
READ = AccessMode.READ


def read(key: str, *also: str, tree: bool = False, ignores_case: bool = False) -> Claim:
    return Claim(key, READ, tree=tree, also=also, ignores_case=ignores_case)


@pytest.mark.parametrize("pattern", ["secrets/*", "secrets", "secrets/", "./secrets/*", "secrets/**", "x/../secrets/*"])
@pytest.mark.parametrize(
    ("claim", "reached"),
    [
        (read("secrets/a"), True),
        (read("secrets/a/b"), True),
        (read("other/../secrets/a"), True),
        (read("./secrets//a"), True),
        (read("secrets"), True),
        (read("."), True),
        (read(".."), True),
        (read(".", tree=True), True),
        (read("other/a"), False),
        (read("other", tree=True), False),
        (read("secrets2/a"), False),
        (read("other/secrets/a"), False),
        (read("/elsewhere/secrets/a"), False),
        (read("../secrets/a"), False),
    ],
    ids=str,
)
def test_a_rule_reaches_what_lies_below_and_what_holds_it(pattern: str, claim: Claim, reached: bool) -> None:
    assert reaches(claim, pattern) is reached


@pytest.mark.parametrize(
    ("claim", "pattern", "reached"),
    [
        (read("a", "/ws/a"), "/ws/*", True),
        (read("a", "/ws/a"), "/ws/b", False),
        (read(".", "/ws"), "/ws/secrets/*", True),
        (read("src", "/ws/src"), "/ws/secrets/*", False),
        (read("/", tree=True), "/ws/secrets", True),
        (read("/ws/a/../secrets/x"), "/ws/secrets", True),
        (read("/../ws"), "/ws", True),
        (read("a.py"), "*.key", False),
        (read("a.key"), "*.key", True),
        (read("src", tree=True), "*.key", True),
        (read("src"), "*.key", False),
        (read("."), "*.key", True),
        (read("src", tree=True), "docs/*.key", False),
        (read("docs", tree=True), "docs/*.key", True),
        (read("docs/b", tree=True), "docs/*.key", True),
        (read("a/x/b"), "a/**/b", True),
        (read("a/b"), "a/**/b", True),
        (read("ab"), "a/**/b", False),
        (read("b"), "**/b", True),
        (read("x/b/c"), "**/**/b", True),
        (read("xb"), "**/b", False),
        (read("a"), "..", True),
        (read("../../a"), "..", False),
        (read("../a"), "../*", True),
        (read("secrets/a", ignores_case=True), "Secrets/*", True),
        (read("secrets/a"), "Secrets/*", False),
        (read("b"), "a*/../c", True),  # nobody can say what it names
        (read("b"), "/**/".join("abcdefgh"), True),
        (read("b"), "", False),
        (read("a"), "ab/c", False),  # `a` holds nothing of `ab`
        (read("."), "/elsewhere/a", False),  # whether the workspace lies there is told by `also`
    ],
    ids=str,
)
def test_other_patterns_reach(claim: Claim, pattern: str, reached: bool) -> None:
    assert reaches(claim, pattern) is reached


@pytest.mark.parametrize(
    ("claim", "pattern", "within"),
    [
        (read("src/a"), "src/*", True),
        (read("src/a"), "src", True),
        (read("src/a"), "./src/", True),
        (read("src/../etc/a"), "src/*", False),
        (read("src"), "src/*", False),
        (read("."), "src/*", False),
        (read("../a"), "*", True),
        (read("../a"), ".", False),
        (read("../../etc"), "../*", False),
        (read("../a"), "../*", True),
        (read("a", "/ws/a"), "/ws/*", True),
        (read("a", "/ws/a"), "/ws", True),
        (read("b"), "a*/../b", False),
        (read("b"), "", False),
        (read("SRC/a", ignores_case=True), "src/*", True),
    ],
    ids=str,
)
def test_only_what_surely_lies_within_does(claim: Claim, pattern: str, within: bool) -> None:
    assert lies_within(claim, pattern) is within


paths = st.text("ab./*", max_size=7) | st.lists(
    st.sampled_from(("a", "b", "..", ".", "", "A", "a*", "*", "**", "/")), max_size=5
).map("/".join)
claims = st.builds(
    Claim,
    paths.map(lambda path: path.replace("*", "b")),
    st.just(READ),
    tree=st.booleans(),
    also=st.lists(paths.map(lambda path: path.replace("*", "b")), max_size=1).map(tuple),
    ignores_case=st.booleans(),
)


@given(paths)
def test_a_path_has_one_spelling(path: str) -> None:
    assert canonical(path) == canonical(canonical(path)) == spelled(path)


@given(claims, paths)
@example(read("a/b"), "a/**/**/b")
@example(read("a", tree=True), "**/**/a/b")
def test_two_opinions_agree_on_what_is_reached(claim: Claim, pattern: str) -> None:
    assert reaches(claim, pattern) is uses_some(claim, pattern)
    assert lies_within(claim, pattern) is uses_only(claim, pattern)


@given(claims, paths)
def test_what_surely_lies_within_is_reached(claim: Claim, pattern: str) -> None:
    assert reaches(claim, pattern) or not lies_within(claim, pattern)


@pytest.mark.parametrize("pattern", ["", "a*/../b", "*/.."])
def test_a_pattern_that_names_nothing_that_can_be_told_is_refused(pattern: str) -> None:
    with pytest.raises(PolicyError, match=r"resources\.pattern: must"):
        ResourcePattern(pattern)
