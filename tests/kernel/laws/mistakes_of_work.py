"""Mistakes in how work goes on: the schedule, results, retries, budgets, cuts, repetition, shares, hooks, restart."""

from collections.abc import Callable
from typing import Any

from attrs import evolve
from loopkernel.data.blocks import TextBlock, UserBlock
from loopkernel.data.children import Reservation, Taken
from loopkernel.data.choices import NudgesCount, OnBrokenStream, OnPause, Redacts, RunCalls, StillEmpty
from loopkernel.data.compactions import Cut
from loopkernel.data.messages import Message, ResultMessage
from loopkernel.data.outside_deltas import HookContinue
from loopkernel.data.plans import Plan
from loopkernel.data.policy import Compaction, Policy, ResultLimit
from loopkernel.data.sessions import Settings, Turn
from loopkernel.data.tools import EffectClass
from loopkernel.data.vector import Vector
from loopkernel.data.words import CallStatus, CancelReason, LimitName, StopReason
from loopkernel.loop.algorithms.loop_detection import Stopped
from loopkernel.loop.algorithms.repair import Repaired
from loopkernel.loop.algorithms.replies import Outcome
from loopkernel.loop.algorithms.retry import GiveUp, NextModel, WaitForRetry
from loopkernel.loop.calls.stopping import cancel_unstarted
from loopkernel.loop.draft import CallsDraft, Draft

from tests.kernel.laws import mistake_runs as runs
from tests.kernel.laws.mistakes import Function, Mistake, mistakes
from tests.kernel.laws.mistakes_of_authority import always, as_it_is, given, second, without_first, without_last
from tests.kernel.planted.runs import SCRIPTS


def _each_its_own_batch(right: Function) -> Function:
    def draw(plan: Plan, place: int) -> object:
        return evolve(right(plan, place), batch=place, batches=plan.batches.replace(place, place))

    return draw


def _one_batch(right: Function) -> Function:
    def draw(plan: Plan, place: int) -> object:
        return evolve(right(plan, place), batch=plan.batch, batches=plan.batches.replace(place, plan.batch))

    return draw


def _behind_all(right: Function) -> Function:
    return lambda plan, place: right(plan, place) | plan.open & ((1 << place) - 1)


def _all_held(right: Function) -> Function:
    return lambda plan, place, **_: right(plan, place, stopped=False)


def _none_held(right: Function) -> Function:
    return lambda plan, place, **_: right(plan, place)


SCHEDULE = mistakes(
    "schedule",
    "algorithms.scheduling",
    ("nothing conflicts", "conflicting_calls", always(0), SCRIPTS["conflicts"], "NO-CONFLICT"),
    ("a folder does not hold its files", "containers", always(()), runs.in_folders, "NO-CONFLICT"),
    ("no call waits", "blockers", always(0), SCRIPTS["in_order"], "NO-CONFLICT"),
    ("each call waits for all before it", "blockers", _behind_all, SCRIPTS["reads"], "PARALLEL"),
    ("what has ended is held", "end", _all_held, SCRIPTS["conflicts"], "PARALLEL"),
    ("what has not stopped is free", "end", _none_held, SCRIPTS["leases"], "NO-CONFLICT"),
    ("what has stopped is held", "stop", as_it_is, SCRIPTS["leases"], "PARALLEL"),
    ("each call is a batch", "draw", _each_its_own_batch, SCRIPTS["in_batches"], "PARALLEL"),
    ("all calls are a batch", "draw", _one_batch, SCRIPTS["in_batches"], "NO-CONFLICT"),
    ("a call that waits is forgotten", "look_again", as_it_is, SCRIPTS["conflicts"], "PARALLEL"),
)

PAIRING = mistakes(
    "pairing",
    "calls.ledger",
    (
        "results stand in reverse",
        "results",
        lambda right: lambda ledger: right(ledger)[::-1],
        SCRIPTS["reads"],
        "ORDER",
    ),
    ("the last result is left out", "results", without_last, SCRIPTS["reads"], "PAIR"),
    ("the first result is left out", "results", without_first, SCRIPTS["reads"], "PAIR"),
)


def _uncounted(right: Function) -> Function:
    def recover(*given: object, **named: object) -> object:
        found = right(*given, **named)
        return evolve(found, attempt=1) if isinstance(found, WaitForRetry) else found

    return recover


def _next_model_at_once(right: Function) -> Function:
    def recover(policy: object, *given: object, **named: int) -> object:
        return NextModel(named["model"] + 1) if named["model"] < 1 else right(policy, *given, **named)

    return recover


RETRY = mistakes(
    "retry",
    "algorithms.retry",
    ("no failure is tried again", "recover", always(GiveUp()), SCRIPTS["retried"], "RETRY-LAW"),
    ("it is tried again at once", "delay_ms", always(0), SCRIPTS["retried"], "RETRY-LAW"),
    ("delays do not grow", "delay_ms", lambda _: lambda retry, _: retry.base_ms, SCRIPTS["retried"], "RETRY-LAW"),
    ("retries are not counted", "recover", _uncounted, SCRIPTS["retried"], "RETRY-LAW"),
    ("a server is not heard", "recover", given(retry_after_ms=None), SCRIPTS["retried"], "RETRY-LAW"),
    ("jitter passes its limit", "jitter_ms", lambda _: lambda *of: 2 * of[-1] + 1, SCRIPTS["retried"], "RETRY-LAW"),
    ("the next model comes at once", "recover", _next_model_at_once, SCRIPTS["retried"], "RETRY-LAW"),
)

BUDGET = mistakes(
    "budget",
    "algorithms.budget",
    ("nothing is ever spent", "budget_reached", always(None), SCRIPTS["budgeted"], "BUDGET"),
    ("all is spent", "budget_reached", always(LimitName.TOKENS), SCRIPTS["budgeted"], "BUDGET"),
    ("rounds are not limited", "turn_limit_reached", always(False), SCRIPTS["limited"], "BUDGET"),
    (
        "a round too few",
        "turn_limit_reached",
        lambda right: lambda policy, replies: right(policy, replies + 1),
        SCRIPTS["limited"],
        "BUDGET",
    ),
    ("calls are not limited", "may_call", always(True), SCRIPTS["counted_calls"], "BUDGET"),
    ("tokens cost nothing", "cost_usd", always(0), SCRIPTS["timed_turn"], "BUDGET"),
    ("tokens cost twice", "cost_usd", lambda right: lambda *of: 2 * right(*of), SCRIPTS["timed_turn"], "BUDGET"),
    ("replies are not limited", "reply_too_long", always(False), SCRIPTS["long_reply"], "BUDGET"),
)


def _cut(change: Callable[[Cut, int], Cut]) -> Callable[[Function], Function]:
    def mistaken(right: Function) -> Function:
        def plan_cut(messages: Vector[Message], compaction: Compaction) -> Cut | None:
            found = right(messages, compaction)
            return None if found is None else change(found, messages.size)

        return plan_cut

    return mistaken


COMPACTION = mistakes(
    "compaction",
    "algorithms.compaction",
    (
        "one message too many goes",
        "plan_cut",
        _cut(lambda cut, size: Cut(min(cut.until + 1, size), cut.opening)),
        SCRIPTS["summarised"],
        "CUT-SAFE",
    ),
    (
        "half of what is to go stays",
        "plan_cut",
        _cut(lambda cut, _: Cut(cut.until // 2)),
        SCRIPTS["summarised"],
        "CUT-SAFE",
    ),
    ("nothing is ever cut", "plan_cut", always(None), SCRIPTS["summarised"], "CUT-SAFE"),
    ("one message is kept", "_kept_messages", always(1), SCRIPTS["windowed"], "CUT-SAFE"),
    ("every thread is too large", "is_too_large", always(True), SCRIPTS["summarised"], "CUT-SAFE"),
    ("no thread is too large", "is_too_large", always(False), SCRIPTS["summarised"], "CUT-SAFE"),
    ("no window is too long", "is_too_long", always(False), SCRIPTS["windowed"], "CUT-SAFE"),
    ("no window needs a note", "needs_note", always(False), SCRIPTS["windowed"], "CUT-SAFE"),
    ("messages have no length", "characters_of", always(0), SCRIPTS["summarised"], "CUT-SAFE"),
)


COMPACTION_AT_END = mistakes(
    "compaction",
    "history.compaction",
    ("a turn ends uncleared", "compact_at_end", as_it_is, runs.cleared_at_the_end, "CUT-SAFE"),
    ("the limit itself is not too large", "is_too_large", always(False), runs.cleared_at_the_end, "CUT-SAFE"),
    ("a turn ends with its window uncut", "compact_at_end", as_it_is, SCRIPTS["windowed_at_the_end"], "CUT-SAFE"),
    ("each turn ends cleared", "is_too_large", always(True), runs.short_at_the_end, "CUT-SAFE"),
)


def _under(**options: Any) -> Callable[[Function], Function]:  # Any: the value of whatever option
    """What is given a draft goes by other options of the policy."""

    def mistaken(right: Function) -> Function:
        def act(draft: Draft[None], *of: object) -> object:
            settings = draft.session.settings
            other = evolve(settings, policy=evolve(settings.policy, **options))
            acted = right(draft.with_session(evolve(draft.session, settings=other)), *of)
            return acted.with_session(evolve(acted.session, settings=settings))

        return act

    return mistaken


def _first_result_alone(right: Function) -> Function:
    def redacted(message: Message, text: str) -> object:
        found = right(message, text)
        if not isinstance(message, ResultMessage):
            return found
        return evolve(message, results=(found.results[0], *message.results[1:]))

    return redacted


GUARDRAILS = mistakes(
    "guardrails",
    "turn.editing",
    ("nothing is redacted", "redact_input", as_it_is, runs.redacted_results, "PREFIX"),
    ("the input is, not the results", "redact_input", _under(redacts=Redacts.INPUT), runs.redacted_results, "PREFIX"),
    ("results are redacted too", "redact_input", _under(redacts=Redacts.LAST_MESSAGE), runs.redacted_input, "PREFIX"),
    ("of the results the first alone", "_redacted", _first_result_alone, runs.redacted_results, "PREFIX"),
    ("the reply is not", "redacted_reply", as_it_is, runs.redacted_input, "PREFIX"),
)


def _by(**options: Any) -> Callable[[Function], Function]:  # Any: as above
    """What is given a policy goes by other options of it."""
    return lambda right: lambda policy, *of: right(evolve(policy, **options), *of)


def _paused_as(on_pause: OnPause) -> Callable[[Function], Function]:
    return lambda right: lambda *of: right(*of[:4], on_pause)


def _pauses_are_empty(right: Function) -> Function:
    def outcome(run_calls: RunCalls, stop: StopReason, *of: object) -> object:
        return Outcome.EMPTY if stop is StopReason.PAUSE else right(run_calls, stop, *of)

    return outcome


def _stuck_at_second_pause(right: Function) -> Function:
    def follow(policy: Policy, turn: Turn, *of: object) -> object:
        return right(policy, evolve(turn, pauses=turn.pauses * 6), *of)

    return follow


ENDS = mistakes(
    "ends",
    "turn.reply",
    ("still empty is stuck", "_after_empty", _by(still_empty=StillEmpty.STUCK), runs.still_empty_naturally, "PROGRESS"),
    ("still empty is an end", "_after_empty", _by(still_empty=StillEmpty.NATURAL), SCRIPTS["empty"], "PROGRESS"),
    ("empty is an end at once", "_after_empty", _by(empty_reply_nudges=0), SCRIPTS["empty"], "PROGRESS"),
    ("a pause is gone on with", "outcome", _paused_as(OnPause.CONTINUE), runs.paused_for_good, "PROGRESS"),
    ("a pause is an end", "outcome", _paused_as(OnPause.END), SCRIPTS["empty"], "PROGRESS"),
    ("a pause that is an end is nudged", "outcome", _pauses_are_empty, runs.paused_for_good, "PROGRESS"),
    ("a pause that is gone on with is nudged", "outcome", _pauses_are_empty, runs.paused_once, "PROGRESS"),
    ("the second pause is stuck", "_follow", _stuck_at_second_pause, runs.paused_twice, "PROGRESS"),
)


def _keeping(right: Function) -> Function:
    def whole_part(draft: CallsDraft, *of: object) -> object:
        settings = draft.session.settings
        kept = evolve(settings, policy=evolve(settings.policy, on_broken_stream=OnBrokenStream.KEEP))
        return right(draft.with_session(evolve(draft.session, settings=kept)), *of)

    return whole_part


def _all_superseded(right: Function) -> Function:
    return lambda draft, *of: right(cancel_unstarted(draft, CancelReason.SUPERSEDED), *of)


def _as_cut(right: Function) -> Function:
    return lambda draft, reply, content, _, **given: right(draft, reply, content, None, **given)


def _as_a_stream(right: Function) -> Function:
    return lambda draft, turn: right(draft, evolve(turn, recovery=evolve(turn.recovery, unstreamed=False)))


def _never_missed(right: Function) -> Function:
    return lambda draft, turn, complete: right(draft, evolve(turn, missing=0), complete)


BROKEN_STREAMS = mistakes(
    "broken streams",
    "phases.after_stream",
    ("nothing is kept", "whole_part", always(None), runs.broken_and_kept, "RETRY-LAW"),
    ("it is kept whatever the policy says", "whole_part", _keeping, runs.broken_and_retried, "RETRY-LAW"),
)

WHOLE_PARTS = mistakes(
    "broken streams",
    "turn.broken_reply",
    (
        "what is not whole is kept",
        "whole_pieces",
        lambda right: lambda pieces, _: right(pieces, 0),
        runs.broken_and_kept,
        "RETRY-LAW",
    ),
    (
        "what is whole is not kept",
        "whole_pieces",
        lambda right: lambda pieces, _: right(pieces, 6),
        runs.broken_and_kept,
        "RETRY-LAW",
    ),
    ("what is whole counts as cut", "add_reply", _as_cut, runs.broken_and_kept, "RETRY-LAW"),
    ("its calls are superseded", "to_calls", _all_superseded, runs.broken_and_kept, "RETRY-LAW"),
)

UNSTREAMED = mistakes(
    "broken streams",
    "turn.failure",
    ("no reply is asked for whole", "_helps_unstreamed", always(False), runs.failed_within_a_stream, "RETRY-LAW"),
    ("each reply is", "_helps_unstreamed", always(True), runs.failed_before_a_stream, "RETRY-LAW"),
)

STREAMED = mistakes(
    "broken streams",
    "phases.thinking",
    ("the wish for it whole is lost", "begin_request", _as_a_stream, runs.failed_within_a_stream, "RETRY-LAW"),
)

OTHER_ENDS = mistakes(
    "ends",
    "turn.reply",
    ("missing calls are an end", "_misses_calls", always(False), runs.without_the_calls, "PROGRESS"),
    (
        "missing calls are asked for for ever",
        "_without_calls_asked_for",
        _never_missed,
        runs.without_the_calls,
        "PROGRESS",
    ),
    ("calls that are there are missed", "_misses_calls", always(True), runs.without_the_calls, "PROGRESS"),
    ("a refusal is not told", "_follow", _by(refusal_notes=0), runs.refused, "PROGRESS"),
    ("each refusal is told", "_follow", _by(refusal_notes=1), runs.refused_at_once, "PROGRESS"),
    ("rounds have one nudge", "counted", _by(nudges_count=NudgesCount.TURN), runs.nudged_by_the_round, "PROGRESS"),
    ("each round has a nudge", "counted", _by(nudges_count=NudgesCount.ROUND), runs.nudged_by_the_turn, "PROGRESS"),
)


def _never_stops(right: Function) -> Function:
    def assess(*of: object) -> object:
        watch, found = right(*of)
        return watch, tuple(one for one in found if not isinstance(one, Stopped))

    return assess


LOOPS = mistakes(
    "loop detection",
    "algorithms.loop_detection",
    ("nothing is found", "assess", lambda _: lambda watch, *_: (watch, ()), SCRIPTS["repeated"], "PROGRESS"),
    ("nothing stops the turn", "assess", _never_stops, SCRIPTS["repeated"], "PROGRESS"),
    ("a tool stays on offer", "is_disabled", always(False), SCRIPTS["repeated"], "PROGRESS"),
    ("no two calls are similar", "similar", always(False), runs.alike, "PROGRESS"),
    ("all calls are similar", "similar", always(True), runs.alike, "PROGRESS"),
    (
        "only the same is similar",
        "similar",
        lambda _: lambda one, other: one.parts == other.parts,
        runs.alike,
        "PROGRESS",
    ),
    (
        "the last call is all",
        "watch_call",
        lambda right: lambda watch, call, _: right(watch, call, 1),
        runs.alike,
        "PROGRESS",
    ),
)

RESERVATION = mistakes(
    "reservation",
    "algorithms.children",
    ("each gets all that is left", "share", lambda right: lambda *of: right(*of[:-1], 1), SCRIPTS["shared"], "BUDGET"),
    (
        "each gets half of its share",
        "share",
        lambda right: lambda *of: right(*of[:-1], 2 * of[-1]),
        SCRIPTS["shared"],
        "BUDGET",
    ),
    (
        "what others have is not seen",
        "share",
        lambda right: lambda *of: right(*of[:-2], Taken(), of[-1]),
        SCRIPTS["shared"],
        "BUDGET",
    ),
    ("shares are not limited", "share", always(Reservation()), SCRIPTS["shared"], "BUDGET"),
    ("nothing is left for any", "share", always(None), SCRIPTS["shared"], "BUDGET"),
    ("a sub-agent has its parent's policy", "child_policy", as_it_is, SCRIPTS["delegated"], "BUDGET"),
    ("a sub-agent has all tools", "child_tools", second, SCRIPTS["delegated"], "FINAL-ARGS"),
)


def _heads_alone(right: Function) -> Function:
    def shortened(content: tuple[UserBlock, ...], limit: ResultLimit | None) -> object:
        return right(content, None if limit is None else evolve(limit, tail=0))

    return shortened


def _told(
    spill: Callable[[ResultLimit | None, ResultLimit | None], ResultLimit | None],
) -> Callable[[Function], Function]:
    """Each run is told what is made of what it should be told, and of the limit of the policy."""

    def mistaken(right: Function) -> Function:
        def start_tool(settings: Settings, *of: object, **named: object) -> object:
            command = right(settings, *of, **named)
            return evolve(command, spill=spill(command.spill, settings.policy.result_limit))

        return start_tool

    return mistaken


SHORTENING = mistakes(
    "shortening",
    "algorithms.shortening",
    ("nothing is cut", "shortened", as_it_is, runs.at_length, "RESULT"),
    ("all is cut", "shortened", always((TextBlock("..."),)), runs.at_length, "RESULT"),
    ("only the beginning stays", "shortened", _heads_alone, runs.at_length, "RESULT"),
    (
        "the limit itself is too long",
        "shortened",
        lambda right: lambda content, limit: right(content, evolve(limit, chars=limit.chars - 1)),
        runs.at_length,
        "RESULT",
    ),
)

SPILLING = mistakes(
    "spilling",
    "calls.starting",
    ("no run is told of a file", "start_tool", _told(lambda *_: None), runs.into_a_file, "FINAL-ARGS"),
    ("each run is told of a file", "start_tool", _told(lambda _, limit: limit), runs.into_a_file, "FINAL-ARGS"),
    ("a file whatever the policy says", "start_tool", _told(lambda _, limit: limit), runs.commanded, "FINAL-ARGS"),
)

HOOKS = mistakes(
    "hooks",
    "gates.hooks",
    (
        "they are asked in reverse",
        "hooks_at",
        lambda right: lambda *of: right(*of)[::-1],
        SCRIPTS["gates_of_turns"],
        "PROGRESS",
    ),
    (
        "the first alone is asked",
        "hooks_at",
        lambda right: lambda *of: right(*of)[:1],
        SCRIPTS["hooks_before_calls"],
        "ASKED",
    ),
    ("none is asked", "hooks_at", always(()), SCRIPTS["hooks_after_calls"], "ASKED"),
    ("none is heeded", "answer_of_hook", always(HookContinue()), SCRIPTS["hooks_before_calls"], "ASKED"),
)

REPAIR = mistakes(
    "repair",
    "algorithms.repair",
    (
        "nothing is repaired",
        "repair",
        lambda _: lambda messages: Repaired(tuple(messages), ()),
        runs.broken_elsewhere,
        "REPAIR-FIX",
    ),
    (
        "repairs are not told",
        "repair",
        lambda right: lambda messages: evolve(right(messages), repairs=()),
        runs.broken_elsewhere,
        "REPAIR-FIX",
    ),
    (
        "the end is lost",
        "repair",
        lambda right: lambda of: evolve(right(of), messages=right(of).messages[:-1]),
        runs.broken_elsewhere,
        "REPAIR-FIX",
    ),
    ("what says nothing stays", "_is_empty", always(False), SCRIPTS["imported"], "REPAIR-FIX"),
)

RECEIPTS = mistakes(
    "receipts",
    "turn.inbox",
    (
        "each input has the same",
        "take_receipt",
        lambda right: lambda *of: (right(*of)[0], 1),
        SCRIPTS["waiting"],
        "CONSERVE",
    ),
    (
        "they are not counted",
        "take_receipt",
        lambda right: lambda session, key: (session, right(session, key)[1]),
        SCRIPTS["waiting"],
        "CONSERVE",
    ),
    (
        "keys are forgotten",
        "take_receipt",
        lambda right: lambda session, _: right(session, None),
        SCRIPTS["talk"],
        "CONSERVE",
    ),
)

RESTART = mistakes(
    "restart",
    "life.restart",
    ("all is repeated", "after_crash", always(None), SCRIPTS["crashed"], "AT-MOST-ONCE"),
    ("nothing is repeated", "after_crash", always(CallStatus.CANCELLED), SCRIPTS["crashed"], "AT-MOST-ONCE"),
    (
        "nothing is dangerous",
        "after_crash",
        lambda right: lambda _, of: right(EffectClass.READ_ONLY, of),
        SCRIPTS["crashed"],
        "AT-MOST-ONCE",
    ),
    ("sub-agents are given up", "_may_go_on", always(False), SCRIPTS["children_resumed"], "AT-MOST-ONCE"),
    (
        "held runs are kept",
        "restart_held_runs",
        lambda _: lambda draft, _: draft,
        SCRIPTS["aborted_runs"],
        "PARALLEL",
    ),
    (
        "a person's time goes on",
        "wait_again",
        lambda _: lambda draft, *_: draft,
        runs.taken_up,
        "TIMER-DATA",
    ),
)

OF_WORK: tuple[Mistake, ...] = (
    *(*SCHEDULE, *PAIRING, *RETRY, *BUDGET, *COMPACTION, *COMPACTION_AT_END, *GUARDRAILS, *ENDS, *LOOPS),
    *(*BROKEN_STREAMS, *WHOLE_PARTS, *UNSTREAMED, *STREAMED, *OTHER_ENDS),
    *(*RESERVATION, *SHORTENING, *SPILLING, *HOOKS, *REPAIR, *RECEIPTS, *RESTART),
)
