"""A call that could start before its reply is complete does not, once a budget of the turn is spent."""

import pytest
from attrs import evolve

from tests.kernel.building import ALL_TOOLS, ASKING_NOBODY, asked, call_id, made_call, starts, step


@pytest.mark.rule("LIMIT-2")
@pytest.mark.rule("TOOL-9")
def test_no_call_starts_early_once_the_time_of_the_turn_is_over() -> None:
    state = asked(evolve(ASKING_NOBODY, max_wall_ms=50), tools=ALL_TOOLS)
    assert starts(step(state, made_call("early_read"), now_ms=20).effects) == [call_id(1)]
    assert starts(step(state, made_call("early_read"), now_ms=1_000).effects) == []
