"""Which states the explorer counts as one: a view of each, as far as it matters."""

from collections.abc import Callable
from functools import cache

from attrs import evolve, fields

from loopkernel.data.blocks import text_of
from loopkernel.data.endings import Failure, Settled
from loopkernel.data.held_runs import HeldRun
from loopkernel.data.hook_calls import CallHooks, OpenCorrection, OpenHook
from loopkernel.data.ledgers import ApprovalWait, ChildWait, Ledger, LedgerEntry, Person, QuestionWait, Wait
from loopkernel.data.messages import UserMessage
from loopkernel.data.model_deltas import ModelCompleted
from loopkernel.data.sessions import Session, Settings, Turn
from loopkernel.data.states import (
    AtRest,
    Compacting,
    Confirming,
    Dispatching,
    Executing,
    Finishing,
    HandingOff,
    Initial,
    State,
    Streaming,
    Thinking,
)
from loopkernel.data.vector import Vector
from loopkernel.data.words import NATURAL_ENDS, CallStatus, CancelReason, TurnEndReason
from loopkernel.laws.step_laws import pending_timers
from loopkernel.laws.views import ledger_in, turn_of
from loopkernel.loop.draft import Draft
from loopkernel.loop.turn.editing import cut_refused_reply
from loopkernel.testing.explorer.keys import Key, key_of_settings
from loopkernel.testing.explorer.scope import RESTS

View = Callable[[State], object]  # hashable; states with one view count as one


def whole(state: State) -> object:
    """The state, however many deltas have led to it: its version does not count."""
    session = state.session
    parts: tuple[object, ...] = (type(state), state.stamp.now_ms, _parts(state, "stamp", "session"))
    if session is None:
        return Key(parts, type(state))
    counts = (session.operations.minted, len(session.thread), session.usage)
    parts = (*parts, key_of_settings(session.settings), _parts(session, "settings"))
    return Key(parts, (state.stamp.now_ms, outline(state), counts))


def _parts(value: State | Session, *left_out: str) -> tuple[object, ...]:
    kind: type = type(value)
    return tuple(getattr(value, name) for name in _names(kind) if name not in left_out)


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


def outline(state: State) -> object:
    """What later steps depend on, and nothing else: runs of any length meet in finitely many outlines.

    Ids are left out, since the kernel only ever compares them; so is what is closed (messages, operations,
    receipts), which is only ever named in refusals, and when timers end, but where policy compares times. What is spent
    counts as far as policy limits it. The laws are judged on whole states all the same, at every edge. That an outline
    hides nothing else is itself a test: states of one outline lead to the same outlines.
    """
    session = state.session
    if session is None:
        return Initial
    inbox = session.inbox
    ledger = state.ledger if isinstance(state, Initial) else ledger_in(state)
    return (
        type(state),
        _outline_of_settings(session.settings),
        len(session.thread) > 0,
        len(inbox.queue),
        len(inbox.steers),
        len(inbox.background) > 0,
        len(inbox.keys) > 0,
        session.error is not None,
        _comes_to_rest(state) and (session.last_end is None or session.last_end in NATURAL_ENDS),
        _comes_to_rest(state) and session.last_end is TurnEndReason.REFUSAL,
        _outline_of_turn(turn_of(state)),
        _outline_of_what_is_spent(state, session),
        None if ledger is None else _outline_of_calls(ledger, session, isinstance(state, Streaming)),
        _outline_of_held_runs(session, ledger),
        _outline_of_stream(state) if isinstance(state, Streaming) else None,
        _outline_of_settled(state.settled) if isinstance(state, Executing | Confirming | Dispatching) else None,
        _outline_of_gates(state),
        _outline_of_care(state, session),
    )


def _comes_to_rest(state: State) -> bool:
    """Whether no turn is open, so that how the last one ended matters."""
    between = isinstance(state, Compacting) and isinstance(state.within, AtRest)
    return between or isinstance(state, (*RESTS, HandingOff))


def _outline_of_settings(settings: Settings) -> object:
    """Approvals may be remembered any number of times; once is enough."""
    if not settings.remembered:
        return key_of_settings(settings), frozenset[object]()
    return key_of_settings(settings, remembered=False), frozenset(settings.remembered)


def _outline_of_turn(turn: Turn | None) -> object:
    if turn is None:
        return None
    asked = turn.begun, turn.blocks, turn.hook_retries
    return turn.reason, turn.replies, turn.nudges, turn.pauses, turn.demanded, turn.forcing, turn.recovery, asked


def _outline_of_what_is_spent(state: State, session: Session) -> object:
    """Of budgets, of results that can be cleared, and of what is watched for repetition."""
    policy, turn = session.settings.policy, turn_of(state)
    tokens = calls = bodies = times = None
    if policy.max_total_tokens is not None:
        open_reply = state.reply.usage.total if isinstance(state, Streaming) else 0
        tokens = min(session.usage.total, policy.max_total_tokens), min(open_reply, policy.max_total_tokens)
    if policy.max_tool_calls is not None:
        calls = min(session.started, policy.max_tool_calls)
    if policy.clear_results is not None:
        after_retry = cut_refused_reply(Draft(session, state.stamp, None)).session
        bodies = tuple(min(one.bodies, policy.clear_results.keep + 1) for one in (session, after_retry))
    if policy.max_wall_ms is not None or policy.silence_ms is not None:
        now_ms, most_ms = state.stamp.now_ms, max(policy.max_wall_ms or 0, policy.silence_ms or 0)
        to_come = (timer.deadline_ms - now_ms for timer in pending_timers(state))
        taken_ms = 0 if turn is None or policy.max_wall_ms is None else min(now_ms - turn.opened_ms, policy.max_wall_ms)
        times = taken_ms, tuple(max(-2, min(left_ms, most_ms + 2)) for left_ms in to_come)
    return tokens, calls, bodies, times, session.watch if policy.loop is not None else None


def _outline_of_stream(state: Streaming) -> object:
    """What has come, and by how much the look at its silence is too early, or would be if more came now."""
    early_ms = None
    if state.silence is not None:
        late_ms = (state.session.settings.policy.silence_ms or 0) - state.silence.deadline_ms
        early_ms = tuple(min(heard_ms + late_ms, 2) for heard_ms in (state.heard_ms, state.stamp.now_ms))
    return tuple(type(piece) for piece in state.pieces), early_ms


def _outline_of_gates(state: State) -> object:
    """Which hook or correction is asked, and what was passed before."""
    if isinstance(state, Thinking):
        return _outline_of_gate(state.gate), state.passed
    if isinstance(state, Streaming) and state.after is not None:
        end = state.after.end
        stop = end.stop if isinstance(end, ModelCompleted) else (end.error, end.retry_after_ms)
        return _outline_of_gate(state.after.gate), stop
    if isinstance(state, Finishing):
        ending = evolve(state.ending, then=None, waiting=None)
        return _outline_of_gate(state.gate), state.passed, ending, type(state.ending.then)
    return None


def _outline_of_gate(gate: OpenHook | OpenCorrection | None) -> object:
    return (gate.hook, gate.left) if isinstance(gate, OpenHook) else type(gate)


def _outline_of_care(state: State, session: Session) -> object:
    """Compactions: that one is under way, where it is cut, what is remembered; the course; that the work is handed off.

    What a compaction would cut depends on who said what, and on how long it was.
    """
    policy = session.settings.policy
    under_way: object = None
    if isinstance(state, Compacting):
        within = state.within
        kept = _outline_of_rest(within, session) if isinstance(within, AtRest) else None
        under_way = kept, state.cut, state.failure is not None
    if isinstance(state, HandingOff):
        under_way = _outline_of_rest(state.within, session)
    remembered: object = None
    if policy.compaction is not None:
        kinds = tuple(
            (type(message), message.origin if isinstance(message, UserMessage) else None) for message in session.thread
        )
        now_ms, again_ms = state.stamp.now_ms, session.compactions.again_ms
        cooling = None if again_ms is None else max(again_ms - now_ms, 0)
        failures = min(session.compactions.failures, policy.compaction.failures)
        sizes = evolve(session.compactions, removals=Vector(), again_ms=None, failures=failures)
        ledger = ledger_in(state)
        results = [entry.result for entry in (() if ledger is None else ledger.entries) if entry.result is not None]
        to_come = sum(len(text_of(result.content)) for result in results)
        remembered = kinds, session.size, sizes, cooling, to_come
    return under_way, remembered, session.course if policy.course_correction is not None else None


def _outline_of_rest(rest: AtRest, session: Session) -> object:
    """How much has been queued since, and where the session comes back to."""
    return sum(waiting.number > rest.queued for waiting in session.inbox.queue), rest.cancel


def _outline_of_settled(settled: Settled | None) -> object:
    return (settled.error, settled.retry_after_ms) if isinstance(settled, Failure) else settled


def _outline_of_calls(ledger: Ledger, session: Session, streaming: bool) -> object:
    held = {run.call for run in session.held}
    wanted = streaming or any(entry.is_open and entry.links is not None for entry in ledger.entries)
    return tuple(
        _outline_of_open(entry) if entry.is_open else _outline_of_closed(entry, wanted, entry.call.id in held)
        for entry in ledger.entries
    )


def _outline_of_open(entry: LedgerEntry) -> object:
    return (
        entry.call.tool,
        entry.call.input,
        entry.status,
        entry.check is not None,
        entry.verdict,
        entry.links,
        _outline_of_person(entry.person),
        entry.runs > 0,
        entry.effect,
        entry.timer is not None,
        len(entry.progress) > 0,
        entry.batch,
        _outline_of_hooks(entry.hooks),
        None if entry.child is None else entry.child.text,
    )


def _outline_of_hooks(hooks: CallHooks) -> object:
    end = None if hooks.end is None else (hooks.end.status, hooks.end.output)
    return _outline_of_gate(hooks.open), hooks.left, hooks.input, end, hooks.retries


def _outline_of_closed(entry: LedgerEntry, wanted: bool, held: bool) -> object:
    """What its answer means for the other calls and for the end of the turn, and what its run still holds."""
    result = entry.result
    if result is None:
        return None
    output = None
    if wanted and entry.status is CallStatus.DONE:  # others depend on it, and may refer to what it returned
        output = text_of(result.content if entry.output is None else entry.output)
    given = entry.status is CallStatus.DONE and not result.ran  # the output of the run, perhaps
    cancelled = result.reason is CancelReason.USER_CANCELLED
    rejected = entry.status is CallStatus.REJECTED_BY_USER
    holds = (entry.verdict, entry.tool) if held else None
    ends = (given, cancelled, rejected, result.final, result.stops_loop)
    return entry.call.tool, entry.runs > 0, entry.effect, ends, output, holds, entry.batch


def _outline_of_person(person: Person) -> object:
    return _outline_of_wait(person.wait), person.asked, person.answered, person.approved, person.edit


def _outline_of_wait(wait: Wait | None) -> object:
    if isinstance(wait, ApprovalWait):
        return ApprovalWait, wait.edit
    return (type(wait), isinstance(wait, QuestionWait | ChildWait) and wait.left_ms is not None)


def _outline_of_held_runs(session: Session, ledger: Ledger | None) -> object:
    """Which runs outlast their calls, whatever their order."""
    return tuple(sorted(repr(_outline_of_held_run(run, ledger)) for run in session.held))


def _outline_of_held_run(run: HeldRun, ledger: Ledger | None) -> object:
    here = ledger is not None and run.call.reply == ledger.reply
    return run.call.position if here else None, run.tool, run.input, run.claims, run.background, run.effect, run.handle
