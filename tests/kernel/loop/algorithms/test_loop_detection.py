"""Loop detection: what is similar, what is counted, the tiers step by step, and a slow second opinion on all of it."""

from collections.abc import Iterable

import pytest
from attrs import evolve
from hypothesis import example, given
from hypothesis import strategies as st
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.policy import LoopTiers
from loopkernel.data.watches import DisabledTool, Watch, WatchedCall
from loopkernel.laws.accounts.similar_calls import Made, SimilarCalls
from loopkernel.loop.algorithms.loop_detection import (
    PAGINATION_KEYS,
    Disabled,
    Finding,
    Noted,
    Stopped,
    assess,
    count,
    forget_calls,
    is_disabled,
    similar,
    watch_call,
)

TIERS = LoopTiers()
# As LIMIT-3 lists them.
PAGES = {"offset", "limit", "page", "cursor", "after", "before", "skip"}
PAGES |= {"start_line", "end_line", "next_page_token", "page_token"}
NAMES = {Noted: "note", Disabled: "disable", Stopped: "stop"}

scalars: st.SearchStrategy[JsonValue] = st.sampled_from((None, True, False, 0, 1, -1, 0.0, -0.0, 1.0, "", "1", "a"))
keys = st.sampled_from(("path", "query", "offset", "page", "line"))
values = scalars | st.lists(scalars, max_size=2) | st.dictionaries(keys, scalars, max_size=2)
inputs = (st.dictionaries(keys, values, max_size=4) | values).map(Json.of)
tools = st.sampled_from(("read", "grep", "wait"))
calls = st.builds(WatchedCall, tools, st.none() | inputs)
# Few inputs, so that many calls are alike.
few: list[JsonValue] = [
    {"path": "a", "line": 1},
    {"line": 1, "path": "a"},
    {"path": "a", "line": 2},
    {"path": "b", "line": 2},
    {"path": "a", "offset": 1},
    {"path": "a", "offset": 2},
]
repeated_inputs = st.sampled_from([None, *map(Json.of, few)])
repeated_calls = st.builds(WatchedCall, tools, repeated_inputs)
tier = st.none() | st.integers(2, 6)
tiers_of_all_kinds = st.builds(
    LoopTiers, note=tier, disable=tier, disable_turns=st.integers(1, 4), stop=tier, window=st.integers(2, 12)
)


def call(given: JsonValue, tool: str = "read") -> WatchedCall:
    """A call of a tool with that input."""
    return WatchedCall(tool, Json.of(given))


def watched(made: Iterable[WatchedCall], window: int = 24) -> Watch:
    """What is remembered of the calls."""
    watch = Watch()
    for one in made:
        watch = watch_call(watch, one, window)
    return watch


# --- similar ---------------------------------------------------------------------------------------------


def _made_of(call: WatchedCall) -> Made:
    return Made(call.tool, call.input, 0)


@pytest.mark.rule("LIMIT-3")
@given(calls, calls)
def test_similarity_is_mutual_and_a_second_opinion_agrees(one: WatchedCall, other: WatchedCall) -> None:
    assert similar(one, other) == similar(other, one)
    assert similar(one, other) == _made_of(one).is_like(_made_of(other))


@pytest.mark.rule("LIMIT-3")
@given(calls)
def test_a_call_is_similar_to_itself_if_it_parses(one: WatchedCall) -> None:
    assert similar(one, evolve(one)) == (one.input is not None)


@pytest.mark.rule("LIMIT-3")
@given(st.dictionaries(keys, values), st.dictionaries(keys, values))
def test_the_order_of_keys_changes_nothing(one: dict[str, JsonValue], other: dict[str, JsonValue]) -> None:
    turned: dict[str, JsonValue] = dict(reversed(one.items()))
    assert similar(call(turned), call(one))
    assert similar(call([{"a": turned}]), call([{"a": one}]))
    assert similar(call(turned), call(other)) == similar(call(one), call(other))


@pytest.mark.rule("LIMIT-3")
@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ({"path": "a", "line": 1}, {"path": "a", "line": 2}, True),  # half of the values
        ({"path": "a", "line": 1}, {"path": "b", "line": 2}, False),
        ({"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 2, "c": 4}, True),
        ({"a": 1, "b": 2, "c": 3}, {"a": 1, "b": 3, "c": 4}, False),
        ({"path": "a"}, {"path": "b"}, False),
        ({"path": "a"}, {"path": "a", "offset": 1}, False),  # other keys
        ({"path": "a"}, {"query": "a"}, False),
        ({"path": "a", "offset": 1}, {"path": "a", "offset": 2}, False),  # the next page
        ({"path": "a", "offset": 1}, {"path": "a", "offset": 1}, True),  # the same page again
        ({"path": "a", "offset": 1}, {"path": "b", "offset": 1}, True),
        ({"path": "a", "size": 9, "offset": 1, "x": 0}, {"path": "b", "size": 9, "offset": 2, "x": 0}, True),
        ({"a": True, "b": 0}, {"a": 1, "b": 1}, False),  # True is not 1
        ({"a": 1, "b": 0}, {"a": 1.0, "b": 1}, False),  # nor is 1.0, as it is written
        ({"a": [True]}, {"a": [1]}, False),
        ({}, {}, True),
        ([1], [1], True),
        ([1, 2, 3], [1, 2, 4], False),  # no objects: only identical
        ("a", "a", True),
        (1, True, False),
        (0.0, -0.0, False),
        (None, {}, False),
    ],
)
def test_similar_inputs_have_the_same_keys_and_half_of_the_values(
    one: JsonValue, other: JsonValue, expected: bool
) -> None:
    assert similar(call(one), call(other)) is expected
    assert not similar(call(one), call(other, "grep"))


@pytest.mark.rule("LIMIT-3")
@pytest.mark.parametrize("key", sorted(PAGES))
def test_each_pagination_key_tells_pages_apart(key: str) -> None:
    first, second = call({"path": "a", key: 1}), call({"path": "a", key: 2})
    assert not similar(first, second)
    assert similar(call({"path": "a", key + "_": 1}), call({"path": "a", key + "_": 2}))
    assert PAGES == PAGINATION_KEYS


# --- count -----------------------------------------------------------------------------------------------


@pytest.mark.rule("LIMIT-3")
@given(st.lists(repeated_calls), tools)
def test_a_count_is_of_the_most_calls_that_are_similar_to_one_of_them(made: list[WatchedCall], tool: str) -> None:
    of_tool = [one for one in made if one.tool == tool]
    similar_to = [
        sum(similar(one, other) for place, other in enumerate(of_tool) if place != own)
        for own, one in enumerate(of_tool)
    ]
    expected = 1 + max(similar_to) if of_tool else 0
    assert count(made, tool) == expected
    assert count(of_tool, tool) == expected  # other tools in between change nothing


@pytest.mark.rule("LIMIT-3")
def test_a_call_that_does_not_parse_counts_alone() -> None:
    broken = WatchedCall("read", None)
    assert count([broken, broken, broken], "read") == 1
    assert count([call(1), broken, call(1)], "read") == 2
    assert count([call(1), call(1)], "grep") == 0


@pytest.mark.rule("LIMIT-3")
@given(st.lists(repeated_calls), st.integers(2, 5))
def test_only_the_last_calls_are_kept_whatever_their_tools(made: list[WatchedCall], window: int) -> None:
    kept = made[-window:]
    watch = watched(made, window)
    assert [(one.tool, one.input) for one in watch.calls] == [(one.tool, one.input) for one in kept]
    for place, one in enumerate(watch.calls):
        others = (other for index, other in enumerate(kept) if index != place)
        assert one.alike == 1 + sum(similar(one, other) for other in others)


# --- tiers -----------------------------------------------------------------------------------------------


@pytest.mark.rule("LIMIT-3")
def test_the_default_tiers_note_disable_and_stop_step_by_step() -> None:
    """A model that makes the same call again and again, whatever it is told: a call, a request, a call, ..."""
    watch = Watch()
    found: list[tuple[Finding, ...]] = []
    missing: list[bool] = []
    for _ in range(8):
        watch = watch_call(watch, call({"path": "a"}), TIERS.window)
        watch, findings = assess(watch, TIERS, ())
        found.append(findings)
        missing.append(is_disabled(watch, "read"))
    assert found == [(), (), (Noted("read"),), (), (Disabled("read"),), (), (), (Stopped("read"),)]
    assert missing == [False] * 4 + [True] * 4
    assert not is_disabled(watch, "grep")


@pytest.mark.rule("LIMIT-3")
@pytest.mark.parametrize("turns", [1, 2, 3])
def test_a_disabled_tool_is_missing_from_so_many_requests_and_then_all_is_forgotten(turns: int) -> None:
    tiers = LoopTiers(disable_turns=turns)
    watch, _ = assess(watched([call(1)] * 3), tiers, ())
    watch = watch_call(watch_call(watch, call(1), 24), call(1), 24)
    missing = []
    for _ in range(4):
        watch, findings = assess(watch, tiers, ())
        missing.append(is_disabled(watch, "read"))
        assert findings == ((Disabled("read"),) if len(missing) == 1 else ())
        watch = watch_call(watch, call(len(missing), "grep"), 24)
    assert missing == [True] * turns + [False] * (4 - turns)
    assert watch == Watch(calls=tuple(call(number, "grep") for number in (1, 2, 3, 4)))
    again = watched([*watch.calls, *[call(1)] * 3])
    assert assess(again, tiers, ())[1] == (Noted("read"),)


@pytest.mark.rule("LIMIT-3")
def test_where_the_stop_tier_is_reached_as_a_disable_runs_out_the_turn_stops() -> None:
    watch = evolve(watched([call(1)] * 8), disabled=(DisabledTool("read", 1),))
    assert assess(watch, TIERS, ()) == (watch, (Stopped("read"),))
    assert assess(evolve(watched([call(1)] * 7), disabled=(DisabledTool("read", 1),)), TIERS, ()) == (Watch(), ())


@pytest.mark.rule("LIMIT-3")
def test_a_stop_is_all_that_is_found() -> None:
    made = [call(1, "grep")] * 5 + [call(1)] * 8 + [call(1, "list")] * 8
    assert assess(watched(made), TIERS, ())[1] == (Stopped("read"),)


@pytest.mark.rule("LIMIT-3")
def test_tools_are_told_of_in_the_order_of_their_first_call() -> None:
    made = [call(1, "b"), *[call(1, "a")] * 5, call(1, "b"), *[call(1, "c")] * 3, call(1, "b")]
    watch, findings = assess(watched(made), TIERS, ())
    assert findings == (Noted("b"), Disabled("a"), Noted("c"))
    assert watch.noted == ("b", "c")  # a disable does not also note
    assert watch.disabled == (DisabledTool("a", 3),)
    assert assess(watch, TIERS, ())[1] == ()


@pytest.mark.rule("LIMIT-3")
def test_a_note_is_given_once_though_the_count_falls_and_rises_again() -> None:
    watch, findings = assess(watched([call(1)] * 3), TIERS, ())
    assert findings == (Noted("read"),)
    watch, findings = assess(watch_call(watch, call(2), 3), TIERS, ())
    assert (count(watch.calls, "read"), findings) == (2, ())
    for _ in range(2):
        watch = watch_call(watch, call(2), 3)
    assert count(watch.calls, "read") == 3
    assert assess(watch, TIERS, ())[1] == ()


@pytest.mark.rule("LIMIT-3")
@pytest.mark.parametrize(
    ("tiers", "expected"),
    [
        (LoopTiers(note=None, disable=None, stop=None), ()),
        (LoopTiers(note=None), (Disabled("read"),)),
        (LoopTiers(disable=None), (Noted("read"),)),
        (LoopTiers(note=2, disable=2, stop=2), (Stopped("read"),)),
        (LoopTiers(note=7, disable=8, stop=9), ()),
        (LoopTiers(window=4), (Noted("read"),)),
        (None, ()),
    ],
)
def test_a_tier_that_policy_does_not_have_finds_nothing(tiers: LoopTiers | None, expected: tuple[Finding, ...]) -> None:
    assert assess(watched([call(1)] * 6), tiers, ())[1] == expected


@pytest.mark.rule("LIMIT-3")
def test_without_tiers_nothing_stays_disabled() -> None:
    watch = Watch(calls=(call(1), call(1, "grep")), noted=("read", "grep"), disabled=(DisabledTool("read", 3),))
    assert assess(watch, None, ()) == (Watch(calls=(call(1, "grep"),), noted=("grep",)), ())
    assert assess(Watch(calls=(call(1),)), None, ()) == (Watch(calls=(call(1),)), ())


@pytest.mark.rule("LIMIT-3")
def test_polling_tools_are_exempt() -> None:
    watch = watched([call(1)] * 8 + [call(1, "grep")] * 3)
    assert assess(watch, TIERS, {"read"})[1] == (Noted("grep"),)
    disabled = evolve(watch, disabled=(DisabledTool("read", 3),))
    assert not is_disabled(assess(disabled, TIERS, {"read"})[0], "read")


@pytest.mark.rule("LIMIT-3")
@example(
    LoopTiers(note=2, disable=3, disable_turns=2, stop=5, window=12),
    [[WatchedCall("read", Json.of(1))]] * 12,
    frozenset(),
)
@given(
    st.just(TIERS) | tiers_of_all_kinds | st.none(),
    st.lists(st.lists(repeated_calls, max_size=4), max_size=14),
    st.frozensets(st.just("wait")),
)
def test_a_slow_second_opinion_finds_the_same(
    tiers: LoopTiers | None, rounds: list[list[WatchedCall]], polling: frozenset[str]
) -> None:
    slow = SimilarCalls(tiers)
    watch = Watch()
    for made in rounds:
        for one in made:
            slow.call(one.tool, one.input)
            watch = watch_call(watch, one, tiers.window) if tiers else watch
        expected = slow.request(polling)
        watch, findings = assess(watch, tiers, polling)
        assert [(NAMES[type(finding)], finding.tool) for finding in findings] == expected
        assert {disabled.tool for disabled in watch.disabled} == set(slow.back_at)
        assert all(disabled.rounds == slow.back_at[disabled.tool] - slow.requests for disabled in watch.disabled)
        assert [(one.tool, one.input) for one in watch.calls] == [(one.tool, one.given) for one in slow.made]


@pytest.mark.rule("LIMIT-3")
def test_texts_from_anywhere_are_made_safe() -> None:
    assert WatchedCall("a\ud800", None).tool == DisabledTool("a\ud800", 1).tool == "a\ufffd"
    assert Watch(noted=("a\ud800",)).noted == ("a\ufffd",)


@pytest.mark.rule("LIMIT-3")
@given(st.lists(repeated_calls, max_size=12), st.integers(0, 12))
def test_forgotten_calls_count_no_more(made: list[WatchedCall], latest: int) -> None:
    assert forget_calls(watched(made), latest) == watched(made[: max(len(made) - latest, 0)])
