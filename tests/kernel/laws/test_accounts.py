"""What the laws work out on their own is what the loop works out: two codes that share nothing agree on any value."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from loopkernel.data.blocks import MediaBlock, TextBlock, UserBlock
from loopkernel.data.choices import CompactionStrategy
from loopkernel.data.compactions import ContextSize
from loopkernel.data.json_text import Json
from loopkernel.data.messages import Message
from loopkernel.data.policy import ApprovalRule, Compaction, FieldPattern, Policy, ResultLimit
from loopkernel.data.remembered import RememberedPattern
from loopkernel.data.tools import AccessMode, Claim, Decision, FieldResource, Tool, ToolProfile
from loopkernel.data.vector import Vector
from loopkernel.laws.accounts.approvals import decided
from loopkernel.laws.accounts.cutting import is_due, too_long, where_to_cut
from loopkernel.laws.accounts.reach import is_like_command, uses_only, uses_some
from loopkernel.laws.accounts.results import cut_down
from loopkernel.laws.accounts.secrets import is_secret
from loopkernel.loop.algorithms.approval import decide
from loopkernel.loop.algorithms.commands import command_matches
from loopkernel.loop.algorithms.compaction import is_too_large, is_too_long, plan_cut, within_window
from loopkernel.loop.algorithms.reach import lies_within, reaches
from loopkernel.loop.algorithms.redaction import names_secret
from loopkernel.loop.algorithms.shortening import shortened

from tests.kernel.loop.algorithms.threads import keeping, threads

# --- secrets (TOOL-12) ---

_PARTS = """
    secret ary board pass word pwd api access auth basic key token tokens count limit type uri max per page Max Page
    is iz ing bot a A s S _ - . 1
"""
PARTS = _PARTS.split()
parts = st.sampled_from([*PARTS, " ", "\u212a", *(part.upper() for part in PARTS), *map(str.capitalize, PARTS)])
keys = st.lists(parts, max_size=5).map("".join)


@pytest.mark.rule("TOOL-12")
@given(keys | st.text(max_size=12))
@example("tokenized")
@example("tokens")
@example("tokensize")
@example("token_counts")
@example("token_countsy")
@example("token_county")
@example("to\u212aen")
@example("MaxToken")
@example("aMaxToken")
@example("amaxToken")
@example("maxtoken")
def test_the_same_keys_name_secrets(key: str) -> None:
    assert is_secret(key) is names_secret(key)


# --- results (TOOL-11) ---

long_texts = st.builds(lambda piece, times: piece * times, st.text(max_size=4), st.integers(0, 60))
blocks = st.one_of(long_texts.map(TextBlock), st.builds(MediaBlock, st.sampled_from(("image/png", "a/b")), long_texts))


@st.composite
def limits(draw: st.DrawFn) -> ResultLimit:
    """Limits around the lengths of these blocks."""
    head, tail = draw(st.integers(0, 20)), draw(st.integers(0, 20))
    chars = head + tail + draw(st.integers(0, 60))
    return ResultLimit(chars=chars, head=head, tail=tail, media_chars=draw(st.integers(0, 60)))


@pytest.mark.rule("TOOL-11")
@given(st.lists(blocks, max_size=4).map(tuple), st.none() | limits())
@example((TextBlock("a" * 41), MediaBlock("a/b", "x" * 61)), ResultLimit(chars=40, head=20, tail=20, media_chars=60))
def test_results_are_cut_down_alike(content: tuple[UserBlock, ...], limit: ResultLimit | None) -> None:
    assert cut_down(content, limit) == shortened(content, limit)


# --- what commands and patterns reach (ASK-1) ---


@pytest.mark.rule("ASK-1")
@given(st.lists(st.sampled_from(("git", "*", "a*", "..", "a/..", "push")), min_size=1, max_size=4).map(" ".join))
@example("git * main")
def test_words_of_commands_are_alike(pattern: str) -> None:
    for command in ("git push main", "git .. main", "git a/.. main", "git", "git push", "a* push"):
        assert is_like_command(pattern, command) is command_matches(pattern, command)


@pytest.mark.rule("ASK-1")
@pytest.mark.parametrize("folders", [5, 6, 7, 8])
def test_patterns_with_many_folders_reach_the_same(folders: int) -> None:
    pattern = "/**/".join("abcdefghij"[: folders + 1])
    for key in ("b", "a", "/".join("abcdefghij"[: folders + 1]), "a/x/b"):
        claim = Claim(key, AccessMode.READ)
        assert uses_some(claim, pattern) is reaches(claim, pattern)
        assert uses_only(claim, pattern) is lies_within(claim, pattern)


EDIT = Tool(
    name="edit", profile=ToolProfile(resources=(FieldResource("path", AccessMode.WRITE),), approval=Decision.ASK)
)
paths = st.lists(st.sampled_from(("src", "a", "..", ".", "lib")), min_size=1, max_size=3).map("/".join)


@pytest.mark.rule("ASK-1", "ASK-3")
@given(paths, paths | paths.map(lambda path: f"{path}/"), st.sampled_from(Decision))
@example("src/a", "src/", Decision.ALLOW)
def test_paths_are_covered_alike(path: str, pattern: str, said: Decision) -> None:
    field = FieldPattern("path", pattern)
    rules, remembered = (ApprovalRule(decision=said, input=(field,)),), (RememberedPattern("edit", (field,)),)
    call_input, claims = Json.of({"path": path}), (Claim(path, AccessMode.WRITE),)
    for policy, kept in ((Policy(approval_rules=rules), ()), (Policy(), remembered)):
        expected = decide(policy, kept, EDIT, call_input, claims=claims, tools=(EDIT,))
        assert decided(policy, kept, EDIT, call_input, claims=claims, tools=(EDIT,)) is expected


# --- where and when a thread is cut (COMPACT-1 and 2, INFER-8) ---


@pytest.mark.rule("COMPACT-2")
@given(threads, keeping())
def test_threads_are_cut_at_the_same_place(messages: Vector[Message], compaction: Compaction) -> None:
    assert where_to_cut(list(messages), compaction) == plan_cut(messages, compaction)


@pytest.mark.rule("INFER-8")
@given(threads, keeping())
def test_what_is_too_long_is_cut_alike(messages: Vector[Message], compaction: Compaction) -> None:
    assert too_long(list(messages), compaction) == within_window(messages, compaction)


@pytest.mark.rule("COMPACT-1")
@given(threads, keeping(), st.integers(0, 250_000), st.integers(0, 800_000), st.booleans())
@example(Vector(), Compaction(), 140_000, 0, True)
def test_a_cut_is_due_alike(
    messages: Vector[Message], compaction: Compaction, tokens: int, characters: int, first: bool
) -> None:
    size = ContextSize(tokens, characters, 0)
    long, large = is_too_long(messages, compaction, first=first), is_too_large(size, compaction)
    assert is_due(list(messages), size, compaction, first=first) is (long or large)


@pytest.mark.rule("COMPACT-1")
@given(threads)
def test_a_window_of_turns_is_due_at_the_first_request_alone(messages: Vector[Message]) -> None:
    window = Compaction(strategy=CompactionStrategy.WINDOW, keep_turns=1)
    due = is_due(list(messages), ContextSize(), window, first=True)
    assert due is is_too_long(messages, window, first=True)
    assert not is_due(list(messages), ContextSize(), window, first=False)
