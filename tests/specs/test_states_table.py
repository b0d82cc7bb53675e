"""The table of states: as it stands in specs/states.md, in the types of the handlers, and in runs."""

import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from attrs import evolve
from hypothesis import example, given
from hypothesis import strategies as st
from loopkernel.data.deltas import Delta
from loopkernel.data.endings import Ending, NextInput
from loopkernel.data.ids import ReceiptId
from loopkernel.data.sessions import Inbox, WaitingSteer
from loopkernel.data.states import Finishing, State, Thinking
from loopkernel.data.steps import Context, Step
from loopkernel.data.words import TurnEndReason
from loopkernel.loop import phases
from loopkernel.loop.transition import handle, rank, settle, transition
from loopkernel.testing.strategies.deltas import deltas
from loopkernel.testing.strategies.states import finishing_states, states, thinking_states, working_states
from loopkernel.testing.strategies.walks import next_deltas, reachable_states
from loopkernel.views.table import ENTRIES, HANDLERS, as_diagram, as_markdown, rows, targets

from tests.architecture.scripted_runs import FINISHING, SESSION, steps
from tests.architecture.scripted_words import HELLO

PAGE = Path(__file__).resolve().parents[2] / "specs" / "states.md"
BEGIN, END = "<!-- table: begin -->\n", "<!-- table: end -->\n"
PHASES = tuple(phase.__name__ for phase in get_args(State))

SHARED = ("after_stream", "moves")  # parts of several phases, beside their files

Edge = tuple[str, str]


def page() -> str:
    """The text of specs/states.md."""
    return PAGE.read_text(encoding="utf-8")


def section(title: str) -> str:
    """The part of the page under a heading."""
    _, found, rest = page().partition(f"## {title}\n")
    assert found, f"specs/states.md has no section {title!r}"
    return rest.partition("\n## ")[0]


def name_of(state: State) -> str:
    """The name of the state's phase."""
    return type(state).__name__


def passed(state: State) -> Iterator[tuple[State, State]]:
    """Each entry of `settle` from this state on: the state that is entered, and where that leads."""
    while name_of(state) in ENTRIES:
        entered: State = ENTRIES[name_of(state)](state).next
        yield state, entered
        if type(entered) is type(state):
            return
        state = entered


def without_gate(state: State) -> State:
    """The state with every gate passed, so that entering it leads on."""
    if isinstance(state, Thinking):
        return evolve(state, gate=None)
    if isinstance(state, Finishing):
        return evolve(state, gate=None)
    return state


# --- the page -------------------------------------------------------------------------------------------


def test_the_page_holds_the_table_as_it_is() -> None:
    before, begin, rest = page().partition(BEGIN)
    table, end, after = rest.partition(END)
    assert (begin, end) == (BEGIN, END)
    assert table == as_markdown()
    assert before and after


def test_the_page_holds_the_diagram_as_it_is() -> None:
    _, begin, rest = page().partition("<!-- diagram: begin -->\n```mermaid\n")
    diagram, end, _ = rest.partition("```\n<!-- diagram: end -->\n")
    assert begin and end
    assert diagram == as_diagram()


def test_the_page_says_of_each_phase_what_it_waits_for() -> None:
    told = re.findall(r"^\| `(\w+)` \| \S", section("What each phase waits for"), re.MULTILINE)
    assert told == list(HANDLERS)


def test_the_page_gives_the_ranks_as_they_are() -> None:
    rows_of_page = re.findall(r"^\| (\d) \| (.*) \|$", section("Why settling ends"), re.MULTILINE)
    told = {(int(number), phase) for number, phases in rows_of_page for phase in re.findall(r"`(\w+)`", phases)}
    met = {(rank(state), name_of(state)) for _, before, ctx, _ in steps() for state in _met(before, ctx)}
    assert met == told


def _met(state: State, ctx: Context) -> Iterator[State]:
    """The states that a step meets, those that it passes through too."""
    handled = handle(state, ctx).next
    yield from (state, handled)
    for _, entered in passed(handled):
        yield entered


# --- the handlers ---------------------------------------------------------------------------------------


def file_of(phase: str) -> str:
    """The file of a phase's handler: `Confirming` and `Dispatching` are `Executing` under other names."""
    if phase in ("Confirming", "Dispatching"):
        return "executing"
    if phase in ("Idle", "Cancelled", "Done"):
        return "at_rest"
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", phase).lower()


def test_a_handler_is_that_of_its_own_phase() -> None:
    for name, handler in (*HANDLERS.items(), *ENTRIES.items()):
        assert get_type_hints(handler)["state"].__name__ == name
        assert handler.__module__ == f"loopkernel.loop.phases.{file_of(name)}"


def test_every_file_of_the_handlers_is_in_the_table() -> None:
    files = {found.name for found in pkgutil.iter_modules(phases.__path__)}
    assert files == {*(file_of(name) for name in HANDLERS), *SHARED}
    assert set(HANDLERS) == set(PHASES)


@pytest.mark.rule("STATE-7")
def test_no_edge_leaves_done() -> None:
    (done,) = (row for row in rows() if row.state == "Done")
    assert (done.direct, done.entry, done.seen) == (("Done",), (), ("Done",))


@pytest.mark.rule("STATE-4")
def test_inference_can_start_again_after_a_cancel() -> None:
    (cancelled,) = (row for row in rows() if row.state == "Cancelled")
    assert "Thinking" in cancelled.direct
    assert "Streaming" in cancelled.seen


# --- the runs -------------------------------------------------------------------------------------------


def test_every_edge_is_taken_by_a_run() -> None:
    """The scripted runs take them all; what they take is what `transition` does."""
    direct: set[Edge] = set()
    entry: set[Edge] = set()
    for name, before, context, step in steps():
        if before.session is not None and before.session.error is not None:
            continue  # the shown error is taken away around the handler
        handled = handle(before, context)
        direct.add((name_of(before), name_of(handled.next)))
        last = handled.next
        for entered, last in passed(handled.next):
            entry.add((name_of(entered), name_of(last)))
        assert last == step.next, f"{name}: {context.delta} in {name_of(before)}"
    assert direct == {(row.state, target) for row in rows() for target in row.direct}
    assert entry == {(row.state, target) for row in rows() for target in row.entry}


@given(states | reachable_states(), st.data())
def test_no_step_takes_an_edge_that_is_not_in_the_table(state: State, data: st.DataObject) -> None:
    delta: Delta = data.draw(deltas | next_deltas(state))
    context = Context(delta, data.draw(st.integers(-5, 5)))
    directly, after = name_of(handle(state, context).next), name_of(transition(state, context).next)
    row = {row.state: row for row in rows()}[name_of(state)]
    assert directly in row.direct
    assert after in row.seen


# An ending that passes the gates though it is not natural: no handler makes one, and the type allows it.
STEERED = evolve(
    FINISHING,
    ending=Ending(reason=TurnEndReason.ERROR, gated=True),
    session=evolve(SESSION, inbox=Inbox(steers=(WaitingSteer(receipt=ReceiptId(1), content=HELLO),))),
)

INTERRUPTED = evolve(
    FINISHING, ending=Ending(reason=TurnEndReason.INTERRUPTED, then=NextInput(receipt=ReceiptId(1), content=HELLO))
)


@given(finishing_states() | thinking_states() | working_states() | reachable_states())
@example(STEERED)
@example(INTERRUPTED)
def test_settling_ends_in_a_state_that_waits(state: State) -> None:
    """Each entry leads to a lower rank, or waits; what waits, entered once more, goes nowhere and asks for nothing."""
    for entered, following in passed(without_gate(state)):
        assert name_of(following) in targets(ENTRIES[name_of(entered)])
        assert type(following) is type(entered) or rank(following) < rank(entered)
    settled = Step(settle(Step(without_gate(state), ())).next, ())
    assert settle(settled) == settled
