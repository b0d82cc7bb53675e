"""Tools that are repeated beside each other: what one of them has reached hides nothing of another."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.json_text import Json
from loopkernel.data.policy import LoopTiers
from loopkernel.data.watches import DisabledTool, Watch, WatchedCall
from loopkernel.loop.algorithms.loop_detection import Disabled, Noted, Stopped, assess, watch_call

TIERS = LoopTiers(note=2, disable=3, disable_turns=2, stop=5, window=40)


def watched(times: dict[str, int]) -> tuple[WatchedCall, ...]:
    """So many calls alike of each tool, one tool after the other."""
    watch = Watch()
    for tool, count in times.items():
        for _ in range(count):
            watch = watch_call(watch, WatchedCall(tool, Json.of({"path": tool})), TIERS.window)
    return watch.calls


@pytest.mark.rule("LIMIT-3")
@pytest.mark.parametrize(("times", "finding"), [(2, Noted("grep")), (3, Disabled("grep"))])
def test_a_tool_that_is_disabled_hides_none_that_is_repeated_after_it(times: int, finding: Noted | Disabled) -> None:
    watch = Watch(calls=watched({"read": 4, "grep": times}), disabled=(DisabledTool("read", 2),))
    after, findings = assess(watch, TIERS, exempt=())
    assert findings == (finding,)
    assert after.disabled[0] == DisabledTool("read", 1)


@pytest.mark.rule("LIMIT-3")
@given(st.permutations(["read", "grep", "wait"]), st.lists(st.integers(0, 4), min_size=3, max_size=3))
def test_each_tool_is_found_for_its_own_count_in_the_order_of_the_first_calls(
    tools: list[str], counts: list[int]
) -> None:
    times = dict(zip(tools, counts, strict=True))
    expected = [Disabled(tool) if count >= 3 else Noted(tool) for tool, count in times.items() if count >= 2]
    after, findings = assess(Watch(calls=watched(times)), TIERS, exempt=())
    assert findings == tuple(expected)
    assert after.noted == tuple(found.tool for found in expected if isinstance(found, Noted))
    assert after.disabled == tuple(DisabledTool(found.tool, 2) for found in expected if isinstance(found, Disabled))


@pytest.mark.rule("LIMIT-3")
def test_the_stop_of_one_tool_comes_before_all_else() -> None:
    watch = Watch(calls=watched({"read": 3, "grep": 5}))
    assert assess(watch, TIERS, exempt=()) == (watch, (Stopped("grep"),))
    assert assess(watch, TIERS, exempt=("grep",))[1] == (Disabled("read"),)
