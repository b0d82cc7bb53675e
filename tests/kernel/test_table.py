"""How the table of states is read from the types of handlers; what it says is held by tests/specs."""

from typing import get_args

import pytest
from loopkernel.data.states import Done, Idle, Initial, State, Streaming, Thinking
from loopkernel.data.steps import Context, Step
from loopkernel.views.table import ENTRIES, HANDLERS, as_markdown, rows, targets


def to_one(state: Done, ctx: Context) -> Step[Done]:
    raise NotImplementedError


def to_some(state: Idle) -> Step[Thinking | Done | Idle | Initial]:
    raise NotImplementedError


@pytest.mark.rule("STATE-1")
def test_the_targets_are_those_of_the_return_type_in_the_order_of_the_table() -> None:
    assert targets(to_one) == ("Done",)
    assert targets(to_some) == ("Initial", "Idle", "Thinking", "Done")


@pytest.mark.rule("STATE-1")
@pytest.mark.rule("STATE-2")
def test_what_can_be_seen_is_closed_under_the_entries() -> None:
    for row in rows():
        assert set(row.direct) <= set(row.seen)
        assert row.entry == (targets(ENTRIES[row.state]) if row.state in ENTRIES else ())
        for state in row.seen:
            if state in ENTRIES:
                assert set(targets(ENTRIES[state])) <= set(row.seen)
        assert row.seen == tuple(state for state in HANDLERS if state in row.seen)


@pytest.mark.rule("STATE-2")
def test_each_of_the_thirteen_phases_has_a_handler_of_its_own() -> None:
    assert [row.state for row in rows()] == list(HANDLERS)
    assert set(HANDLERS) == {phase.__name__ for phase in get_args(State)}
    assert len(HANDLERS) == len(set(HANDLERS.values())) == 13


def test_the_page_has_a_line_for_each_row() -> None:
    lines = as_markdown().splitlines()
    assert len(lines) == 2 + len(rows())
    assert lines[-1] == "| Done | Done | waits at once | Done |"
    assert all(line.count("|") == 5 for line in lines)
    assert Streaming.__name__ in lines[4]
