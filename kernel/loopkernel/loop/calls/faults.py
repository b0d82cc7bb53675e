"""Calls that may not run, whatever policy says: they are answered with an error (rule TOOL-5)."""

from typing import assert_never

from attrs import evolve

from loopkernel.data.effects import Effect
from loopkernel.data.ledgers import Ledger, LedgerEntry
from loopkernel.data.sessions import Session
from loopkernel.data.tools import InvalidCall, Tool, UnknownTool, ValidCall
from loopkernel.data.words import CallStatus
from loopkernel.loop.algorithms.children import starts_child
from loopkernel.loop.algorithms.loop_detection import is_disabled
from loopkernel.loop.algorithms.wording import (
    blocked_text,
    disabled_text,
    invalid_call_text,
    too_deep_text,
    unknown_tool_text,
)
from loopkernel.loop.calls.call_hooks import abort_call_hook
from loopkernel.loop.calls.claims import offered
from loopkernel.loop.calls.held_runs import Ledgered
from loopkernel.loop.calls.ledger import close, drop_check, error_result


def answer_faulty(ledger: Ledger, session: Session, place: int) -> Ledgered:
    """A checked call that may not run is answered with an error (rule TOOL-5); any other is left as it is."""
    entry = ledger.entries[place]
    if entry.status is not CallStatus.QUEUED or entry.verdict is None:
        return Ledgered(ledger, session)
    why = _why_faulty(entry, session)
    if why is None:
        return Ledgered(ledger, session)
    ledger, session = drop_check(ledger, session, place)
    ledger, session, aborted = abort_call_hook(ledger, session, place)
    closed = close(ledger, session, place, error_result(ledger.entries[place], why))
    return evolve(closed, effects=(*aborted, *closed.effects))


def answer_all_faulty(ledger: Ledger, session: Session) -> Ledgered:
    """The reply is complete: every checked call that may not run is answered."""
    effects: list[Effect] = []
    for place in range(ledger.entries.size):
        done = answer_faulty(ledger, session, place)
        ledger, session = done.ledger, done.session
        effects.extend(done.effects)
    return Ledgered(ledger, session, tuple(effects))


def _why_faulty(entry: LedgerEntry, session: Session) -> str | None:
    """Why a checked call is answered with an error whatever policy says; None if it is sound."""
    name = entry.tool
    if entry.hooks.blocked is not None:
        return blocked_text(name, entry.hooks.blocked)
    tool: Tool | None = offered(session.settings, name)
    match entry.verdict:
        case InvalidCall(why):
            return invalid_call_text(name, why)
        case UnknownTool() | None:
            return disabled_text(name) if is_disabled(session.watch, name) else unknown_tool_text(name)
        case ValidCall():
            if tool is None:
                return unknown_tool_text(name)
        case _:
            assert_never(entry.verdict)
    if starts_child(tool) and session.settings.policy.child.depth < 1:
        return too_deep_text(name)
    return None
