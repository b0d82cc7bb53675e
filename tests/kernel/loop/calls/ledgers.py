"""Ledgers with calls in them, and those of any play."""

from collections.abc import Iterator

from loopkernel.data.blocks import ToolCall
from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.ledgers import Ledger
from loopkernel.data.tools import Verdict
from loopkernel.loop.calls.ledger import add_call
from loopkernel.loop.draft import CallsDraft
from loopkernel.testing.run import Run

from tests.kernel.building import ALL_TOOLS, FREE, at_rest, call_id
from tests.kernel.drafts import drafted

EMPTY = Ledger(reply=ModelOperation(1), first_check=1, first_run=1, first_timer=1)
SESSION = at_rest(tools=ALL_TOOLS).session


def linked_call(position: int, name: str, call_input: JsonValue = None, after: tuple[str, ...] = ()) -> ToolCall:
    """A call under that id of its provider."""
    return ToolCall(id=call_id(position), provider_id=name, tool="read", input=Json.of(call_input), after=after)


def ledger_with(*calls: ToolCall, verdict: Verdict | None = FREE) -> CallsDraft:
    """A ledger to which these calls were added."""
    found = drafted(SESSION, ledger=EMPTY)
    for call in calls:
        found = add_call(found, call, verdict)
    return found


def ledgers_of(play: Run) -> Iterator[Ledger]:
    for step in play.steps:
        ledger = getattr(step.after, "ledger", None)
        if isinstance(ledger, Ledger):
            yield ledger
