"""Calls that may not run whatever policy says: which are answered, when, and with what."""

import pytest
from attrs import evolve
from loopkernel.data.blocks import text_of
from loopkernel.data.events import ToolEnded
from loopkernel.data.json_text import Json
from loopkernel.data.sessions import Session
from loopkernel.data.states import Confirming
from loopkernel.data.tools import InvalidCall, Tool, UnknownTool, Verdict
from loopkernel.data.words import CallStatus
from loopkernel.loop.algorithms.wording import invalid_call_text, unknown_tool_text
from loopkernel.loop.calls.approvals import reconsider
from loopkernel.loop.calls.stopping import answer_all_faulty, answer_faulty

from tests.kernel.building import ALL_TOOLS, FREE, READ, asking, made_call, of_kind
from tests.kernel.drafts import drafted
from tests.kernel.loop.calls.ledgers import SESSION, ledger_with, linked_call


def offering(*tools: Tool) -> Session:
    """The session with these tools and no others."""
    return evolve(SESSION, settings=evolve(SESSION.settings, tools=tools))


@pytest.mark.rule("TOOL-5")
@pytest.mark.parametrize(
    ("verdict", "tools", "why"),
    [
        (FREE, (READ,), None),
        (FREE, (), unknown_tool_text("read")),
        (UnknownTool(), (READ,), unknown_tool_text("read")),
        (InvalidCall("no path"), (READ,), invalid_call_text("read", "no path")),
        (None, (), None),
    ],
    ids=["sound", "no longer offered", "unknown", "invalid", "not checked yet"],
)
def test_a_checked_call_that_may_not_run_is_answered_at_once(
    verdict: Verdict | None, tools: tuple[Tool, ...], why: str | None
) -> None:
    calls = ledger_with(linked_call(1, "p1"), linked_call(2, "p2"), verdict=verdict)
    session = evolve(calls.session, settings=offering(*tools).settings)
    first = answer_faulty(drafted(session, ledger=calls.ledger), 0)
    whole = answer_all_faulty(drafted(session, ledger=calls.ledger))
    told = [ended.result for ended in of_kind(ToolEnded, whole.effects)]
    if why is None:
        assert (first.ledger, first.effects, whole.ledger, whole.effects) == (calls.ledger, (), calls.ledger, ())
        return
    assert [(result.status, text_of(result.content)) for result in told] == [(CallStatus.ERROR, why)] * 2
    assert of_kind(ToolEnded, first.effects) == of_kind(ToolEnded, whole.effects)[:1]


@pytest.mark.rule("ASK-5")
@pytest.mark.rule("TOOL-5")
def test_a_call_that_waits_for_a_person_is_answered_when_its_tool_is_withdrawn() -> None:
    """It is not released to the schedule first, which would find it unknown only where nothing else is due before."""
    state: Confirming = asking(made_call("asks", call_input=Json.of({"path": "a"})))
    tools = tuple(tool for tool in ALL_TOOLS if tool.name != "asks")
    session = evolve(state.session, settings=evolve(state.session.settings, tools=tools))
    again = reconsider(drafted(session, ledger=state.ledger))
    (ended,) = of_kind(ToolEnded, again.effects)
    assert (ended.result.status, text_of(ended.result.content)) == (CallStatus.ERROR, unknown_tool_text("asks"))
    assert again.ledger.waiting == 0
