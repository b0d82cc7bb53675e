"""Of law AT-MOST-ONCE: what a restart makes of the runs that it finds in flight (rule RESUME-3)."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from loopkernel.data.choices import RestartChild, RestartDangerous, RestartSafe
from loopkernel.data.effects import StartChild
from loopkernel.data.events import ToolEnded
from loopkernel.data.ledgers import CrashWait, LedgerEntry
from loopkernel.data.policy import Policy
from loopkernel.data.records import StepRecord
from loopkernel.data.thread_deltas import Resumed
from loopkernel.data.tools import EffectClass
from loopkernel.data.words import CallStatus, CancelReason
from loopkernel.laws.ending_laws import entries_in
from loopkernel.laws.views import calls_kept, effect_of, entry_of_call, refuses

_REPEATABLE: Mapping[RestartSafe, CallStatus | None] = MappingProxyType(
    {RestartSafe.RERUN: None, RestartSafe.CANCEL: CallStatus.CANCELLED, RestartSafe.ERROR: CallStatus.ERROR}
)
_OTHERS: Mapping[RestartDangerous, CallStatus] = MappingProxyType(
    {
        RestartDangerous.CANCEL: CallStatus.CANCELLED,
        RestartDangerous.UNKNOWN: CallStatus.UNKNOWN,
        RestartDangerous.ASK: CallStatus.BLOCKED_ON_USER,
    }
)


def restarted_otherwise(record: StepRecord) -> Iterator[str]:
    """The calls in flight of which the restart makes something else than the policy says that holds now."""
    delta, session = record.context.delta, record.after.session
    if not isinstance(delta, Resumed) or refuses(record) or session is None:
        return
    ended = {
        effect.result.call: effect.result.status
        for effect in record.effects
        if isinstance(effect, ToolEnded) and effect.result.reason is CancelReason.SAFETY
    }
    policy = session.settings.policy
    for entry in entries_in(record.before):
        call = entry.call.id
        if entry.status is not CallStatus.IN_PROGRESS or entry.hooks.open is not None or entry.hooks.end is not None:
            continue
        if entry.child is not None:
            yield from _child_dropped(entry, delta, record, policy)
            continue
        due = _due(entry, effect_of(session.settings, entry.tool), policy)
        now = entry_of_call(calls_kept(record.after), call)
        asked = now is not None and isinstance(now.person.wait, CrashWait)
        found = CallStatus.BLOCKED_ON_USER if asked else ended.get(call)
        if found is not due:
            yield f"call {call} was in flight, and is {_told(found)} after a restart, not {_told(due)}"


def _due(entry: LedgerEntry, effect: EffectClass, policy: Policy) -> CallStatus | None:
    """How the call is answered, or that a person is asked; None: it is repeated. The worse of two classes counts."""
    classes = (effect, entry.effect)
    if EffectClass.DANGEROUS in classes:
        return _OTHERS[policy.on_restart.dangerous]
    if EffectClass.IDEMPOTENT in classes:
        return _REPEATABLE[policy.on_restart.idempotent]
    return _REPEATABLE[policy.on_restart.read_only]


def _child_dropped(entry: LedgerEntry, delta: Resumed, record: StepRecord, policy: Policy) -> Iterator[str]:
    """A sub-agent goes on, by policy, unless there are settings that may forbid it."""
    given = delta.doubted or delta.policy is not None or delta.tools is not None or delta.remembered is not None
    if policy.on_restart.child is not RestartChild.RESUME or given:
        return
    resumed = (effect.call for effect in record.effects if isinstance(effect, StartChild) and effect.resumed)
    if entry.call.id not in resumed:
        yield f"the sub-agent of call {entry.call.id} was under way, and does not go on after a restart"


def _told(status: CallStatus | None) -> str:
    return "repeated" if status is None else status.value
