"""What a restart does with the work that was in flight: its reports never come (rule RESUME-3).

Nothing that may have had an effect runs again by itself (rule RESUME-4): only runs that may be repeated are
started once more, under the same idempotency key.
"""

from typing import assert_never

from loopkernel.data.blocks import RawInput, TextBlock, ToolResult
from loopkernel.data.choices import RestartDangerous, RestartSafe
from loopkernel.data.effects import Effect
from loopkernel.data.ids import OperationKind
from loopkernel.data.ledgers import Ledger, LedgerEntry
from loopkernel.data.operations import Operations
from loopkernel.data.sessions import Settings
from loopkernel.data.tools import EffectClass
from loopkernel.data.words import CallStatus, CancelReason
from loopkernel.planning.wording import cancelled_text
from loopkernel.regions.ledger import Ledgered, answer, offered, recheck, run_again


def restart_calls(ledger: Ledger, operations: Operations, settings: Settings) -> Ledgered:
    """Open checks are made again; open runs are repeated or answered, by the class of their tool."""
    effects: list[Effect] = []
    for place in range(ledger.first_open, ledger.entries.size):
        entry = ledger.entries[place]
        given = entry.call.input
        if entry.check is not None and not isinstance(given, RawInput):
            operations = operations.abandon(OperationKind.CHECK, entry.check)
            restarted = recheck(ledger, operations, place, given)
        elif entry.status is CallStatus.IN_PROGRESS and entry.operation is not None and not isinstance(given, RawInput):
            operations = operations.abandon(OperationKind.RUN, entry.operation)
            status = _status_after_crash(entry, settings)
            if status is None:
                restarted = run_again(ledger, operations, place, given, settings)
            else:
                ledger, ended = answer(ledger, place, _unsafe(entry, status))
                restarted = Ledgered(ledger, operations, (ended,))
        else:
            continue
        ledger, operations = restarted.ledger, restarted.operations
        effects.extend(restarted.effects)
    return Ledgered(ledger, operations, tuple(effects))


def _status_after_crash(entry: LedgerEntry, settings: Settings) -> CallStatus | None:
    """How the call of a run in flight is answered; None if the run is repeated. No profile counts as dangerous."""
    tool, policy = offered(settings, entry.call.tool), settings.policy.on_restart
    effect = EffectClass.DANGEROUS if tool is None or tool.profile is None else tool.profile.effect
    match effect:
        case EffectClass.READ_ONLY:
            return _when_repeatable(policy.read_only)
        case EffectClass.IDEMPOTENT:
            return _when_repeatable(policy.idempotent)
        case EffectClass.DANGEROUS:
            return CallStatus.UNKNOWN if policy.dangerous is RestartDangerous.UNKNOWN else CallStatus.CANCELLED
        case _:
            assert_never(effect)


def _when_repeatable(choice: RestartSafe) -> CallStatus | None:
    match choice:
        case RestartSafe.RERUN:
            return None
        case RestartSafe.CANCEL:
            return CallStatus.CANCELLED
        case RestartSafe.ERROR:
            return CallStatus.ERROR
        case _:
            assert_never(choice)


def _unsafe(entry: LedgerEntry, status: CallStatus) -> ToolResult:
    call, reason = entry.call, CancelReason.SAFETY
    return ToolResult(
        call=call.id,
        provider_id=call.provider_id,
        tool=call.tool,
        status=status,
        content=(TextBlock(cancelled_text(reason)),),
        reason=reason,
        ran=True,
    )
