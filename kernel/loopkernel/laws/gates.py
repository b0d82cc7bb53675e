"""What a state has asked of hooks, corrections, summaries and handoffs, and has no answer to yet."""

from collections.abc import Iterator

from loopkernel.data.hook_calls import OpenCorrection, OpenHook
from loopkernel.data.ids import HookOperation, OperationKind
from loopkernel.data.ledgers import LedgerEntry
from loopkernel.data.states import Compacting, Finishing, HandingOff, State, Streaming, Thinking
from loopkernel.laws.views import entry_that, ledger_in

Gate = OpenHook | OpenCorrection


def gate_of_turn(state: State) -> Gate | None:
    """The hook or correction that the turn waits for; None: it waits for none."""
    if isinstance(state, Thinking | Finishing):
        return state.gate
    if isinstance(state, Streaming) and state.after is not None:
        return state.after.gate
    return None


def gated_calls(state: State) -> Iterator[tuple[LedgerEntry, OpenHook]]:
    """The calls of which a hook is asked."""
    ledger = ledger_in(state)
    for entry in () if ledger is None else ledger.entries:
        if entry.is_open and entry.hooks.open is not None:
            yield entry, entry.hooks.open


def call_of_hook(state: State, operation: HookOperation) -> LedgerEntry | None:
    """The call that the hook is asked about; None where it is about none, or not asked."""
    ledger = ledger_in(state)
    if ledger is None:
        return None

    def is_asked_about(entry: LedgerEntry) -> bool:
        gate = entry.hooks.open
        return entry.is_open and gate is not None and gate.operation == operation

    return entry_that(ledger, is_asked_about, ledger.place_of_hook(operation))


def gates_in(state: State) -> Iterator[Gate]:
    """All hooks and corrections that are asked."""
    gate = gate_of_turn(state)
    if gate is not None:
        yield gate
    yield from (gate for _, gate in gated_calls(state))


def asked_outside(state: State) -> Iterator[tuple[OperationKind, int]]:
    """The operations that a cancel stops with `AbortOther`: hooks, a correction, a summary, a handoff."""
    for gate in gates_in(state):
        kind = OperationKind.HOOK if isinstance(gate, OpenHook) else OperationKind.CORRECTION
        yield kind, gate.operation
    if isinstance(state, Compacting):
        yield OperationKind.SUMMARY, state.operation
    if isinstance(state, HandingOff):
        yield OperationKind.HANDOFF, state.operation
