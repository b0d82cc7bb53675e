"""Cleared results: the body goes, everything else stays, and what is cleared stays as it is."""

import attrs
import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.blocks import ToolResult, text_of
from loopkernel.data.ids import CallId
from loopkernel.data.messages import ResultMessage
from loopkernel.loop.algorithms.clearing import CLEARED, cleared, cleared_message, is_cleared
from loopkernel.testing.strategies.conversation import result_messages, tool_results
from loopkernel.testing.strategies.values import call_ids

some_calls = st.frozensets(call_ids, max_size=3)


@pytest.mark.rule("TOOL-11")
@given(tool_results)
def test_the_body_is_replaced_and_all_else_is_kept(result: ToolResult) -> None:
    after = cleared(result)
    assert text_of(after.content) == CLEARED != ""
    assert len(after.content) == 1
    others = attrs.filters.exclude("content")
    assert attrs.asdict(after, filter=others) == attrs.asdict(result, filter=others)


@pytest.mark.rule("TOOL-11")
@given(tool_results)
def test_what_is_cleared_is_known_and_stays(result: ToolResult) -> None:
    assert not is_cleared(result)
    after = cleared(result)
    assert is_cleared(after)
    assert cleared(after) is after


@pytest.mark.rule("TOOL-11")
@given(result_messages, some_calls)
def test_the_results_of_the_named_calls_are_cleared_and_no_others(
    message: ResultMessage, calls: frozenset[CallId]
) -> None:
    after = cleared_message(message, calls)
    assert evolve(after, results=message.results) == message
    for before, result in zip(message.results, after.results, strict=True):
        assert result == cleared(before) if before.call in calls else result is before


@given(result_messages, some_calls)
def test_a_message_that_does_not_change_is_the_same_object(message: ResultMessage, calls: frozenset[CallId]) -> None:
    after = cleared_message(message, calls)
    assert (after is message) == all(result.call not in calls for result in message.results)
    assert cleared_message(after, calls) is after
    assert cleared_message(message, ()) is message
