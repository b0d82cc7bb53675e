"""The page on editors: its settings are JSON, and its tables say of every event and every end what is done."""

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import get_args

import pytest
from loopkernel.data.events import Event
from loopkernel.data.ids import CallId, ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.words import TurnEndReason
from loopkernel.replaying import fold
from loopkernel_adapters.acp.agent import stop_reason
from loopkernel_adapters.acp.questions import choices_for
from loopkernel_adapters.acp.updates import Updates
from loopkernel_adapters.driver.asyncio_driver import is_event
from loopkernel_adapters.sessions.waiting_calls import WaitingCall

from tests.kernel.scenario_logs import FILES, logs_of

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "acp.md").read_text(encoding="utf-8")


def table(heading: str) -> list[tuple[list[str], list[str], str]]:
    """The rows of the table with that heading: the names in code of both cells, and the second cell."""
    _, _, rest = PAGE.partition(f"| {heading} |")
    rows = [row.split("|")[1:3] for row in rest.split("\n\n")[0].splitlines()[2:]]
    return [(re.findall(r"`(\w+)`", first), re.findall(r"`(\w+)`", second), second) for first, second in rows]


def test_the_settings_are_json() -> None:
    (block,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert json.loads(block)["agent_servers"]["loopkernel"]["args"][0] == "acp"


def test_each_event_is_told_as_the_page_says() -> None:
    told: defaultdict[str, set[str]] = defaultdict(set)
    for file in FILES:
        for log in logs_of(file).values():
            updates = Updates(Path("/workspace"))
            for step in fold(log):
                for effect in step.effects:
                    if is_event(effect):
                        told[type(effect).__name__] |= {
                            update.session_update for update in updates.of(effect, step.after)
                        }
    assert set(told) <= {event.__name__ for event in get_args(Event)}
    said: defaultdict[str, set[str]] = defaultdict(set)
    for events, kinds, _ in table("event | update"):
        for event in events:
            said[event] |= set(kinds)
    told_at_all = {event: kinds for event, kinds in told.items() if kinds}
    assert told_at_all.keys() == said.keys()
    assert all(kinds <= said[event] for event, kinds in told_at_all.items())


@pytest.mark.parametrize("reason", [reason for reason in TurnEndReason if reason is not TurnEndReason.ERROR])
def test_each_end_of_a_turn_is_told_as_the_page_says(reason: TurnEndReason) -> None:
    (row,) = [kinds for ends, kinds, _ in table("a turn ends as | stop reason") if reason.value in ends]
    assert row == [stop_reason(reason)]


def test_the_options_are_those_of_the_page() -> None:
    call = WaitingCall(path=(CallId(ModelOperation(1), 1),), tool="pay", input=Json.of({}))
    offered = [choice.name.replace(", in this session", "").replace("pay", "the tool") for choice in choices_for(call)]
    rows = re.findall(r"^\| ((?:Allow|Always|Reject|Never)[^|]*) \|", PAGE, re.MULTILINE)
    assert offered == rows
