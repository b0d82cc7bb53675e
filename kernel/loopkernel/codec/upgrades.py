"""How documents of older formats become documents of the next: one step for each version of a kind."""

from collections.abc import Callable

from attrs import frozen

from loopkernel.data.json_text import JsonValue


@frozen
class Upgrade:
    """How the value of a `kind` gets from version `before` to the next.

    `apply` is pure. It may change the value that it is given, which nobody else holds, and may fail, with any
    LookupError, TypeError, ValueError or AttributeError, on what no document of that version holds.
    """

    kind: str
    before: int
    apply: Callable[[JsonValue], JsonValue]


def _state_with_plan(state: JsonValue) -> JsonValue:
    """Version 1 kept marks of the schedule in the ledger; version 2 counts open checks, and results with a body."""
    if not isinstance(state, dict):
        raise TypeError("a state is an object")
    ledger = state.get("ledger")
    if isinstance(ledger, dict):
        for mark in ("next_queued", "first_open", "calm_until", "allowed_until"):
            ledger.pop(mark, None)
        entries = ledger.get("entries", [])
        if isinstance(entries, list):
            ledger["checking"] = sum(isinstance(entry, dict) and "check" in entry for entry in entries)
    session = state.get("session")
    thread = session.get("thread") if isinstance(session, dict) else None
    messages = thread.get("messages") if isinstance(thread, dict) else None
    if isinstance(session, dict) and isinstance(messages, list):
        results = [message.get("results") for message in messages if isinstance(message, dict)]
        session["bodies"] = sum(len(each) for each in results if isinstance(each, list))
    return state


def _state_with_recovery(state: JsonValue) -> JsonValue:
    """Version 2 knew one kind of what follows the calls, one of what follows a turn, and no recovery."""
    if not isinstance(state, dict):
        raise TypeError("a state is an object")
    ending = state.get("ending")
    then = ending.get("then") if isinstance(ending, dict) else None
    if isinstance(then, dict):
        then["type"] = "next-input"
    if state.get("type") in ("executing", "confirming") and isinstance(ending, dict):
        state["settled"] = {"type": "ending", **ending}
        del state["ending"]
    turn = state.get("turn")
    demanding = isinstance(turn, dict) and turn.get("demanded") is True and turn.get("reason") == "nudge"
    if isinstance(turn, dict) and demanding and state.get("type") == "streaming":
        turn["forcing"] = True
    return state


def _as_it_stands(value: JsonValue) -> JsonValue:
    """The next version only has more fields, each of which may be left out."""
    return value


UPGRADES = (
    Upgrade("state", 1, _state_with_plan),
    Upgrade("state", 2, _state_with_recovery),
    Upgrade("policy", 1, _as_it_stands),
)
