"""How documents of older formats become documents of the next: one step for each version of a kind."""

from collections.abc import Callable

from attrs import frozen

from loopkernel.data.json_text import JsonValue, canonical_text


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


def _state_with_gates(state: JsonValue) -> JsonValue:
    """Version 3 did not count the size of a thread, nor whether hooks were asked before a turn: there were none.

    The characters are counted as they are written here, which may be some more than those of the messages.
    """
    if not isinstance(state, dict):
        raise TypeError("a state is an object")
    session = state.get("session")
    thread = session.get("thread") if isinstance(session, dict) else None
    total = _characters(thread.get("messages")) if isinstance(thread, dict) else 0
    if isinstance(session, dict) and total:
        session["size"] = {"characters": total, "total": total}
    turn = state.get("turn")
    if isinstance(turn, dict):
        turn["begun"] = turn["requested"] = True
    for gate in ("gate", "hook", "correction"):  # none was ever opened
        state.pop(gate, None)
    return state


def _characters(value: JsonValue) -> int:
    """The characters of texts, and of names and inputs of calls, in messages as they are written."""
    if isinstance(value, list):
        return sum(_characters(item) for item in value)
    if not isinstance(value, dict):
        return 0
    texts = (len(item) for key, item in value.items() if key in ("text", "tool") and isinstance(item, str))
    inputs = (len(canonical_text(item)) for key, item in value.items() if key in ("input", "payload"))
    deeper = (_characters(item) for key, item in value.items() if key in ("content", "results"))
    return sum(texts) + sum(inputs) + sum(deeper)


UPGRADES = (
    Upgrade("state", 1, _state_with_plan),
    Upgrade("state", 2, _state_with_recovery),
    Upgrade("state", 3, _state_with_gates),
    Upgrade("state", 4, _as_it_stands),
    Upgrade("state", 5, _as_it_stands),
    Upgrade("state", 6, _as_it_stands),
    Upgrade("state", 7, _as_it_stands),
    Upgrade("policy", 1, _as_it_stands),
    Upgrade("policy", 2, _as_it_stands),
    Upgrade("policy", 3, _as_it_stands),
    Upgrade("policy", 4, _as_it_stands),
    Upgrade("policy", 5, _as_it_stands),
    Upgrade("policy", 6, _as_it_stands),
)
