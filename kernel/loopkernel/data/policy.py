"""Policy: every constant and every choice of the loop, as validated data.

The defaults are those of the `default` preset. Times are milliseconds, None means "no limit" or "none".
Building an invalid part raises PolicyError, which names every fault of that part.
"""

import math
from collections.abc import Iterable
from typing import final

from loopkernel.data import choices
from loopkernel.data.checked_fields import checked_options
from loopkernel.data.errors import Fault, PolicyError
from loopkernel.data.tools import AccessMode, Decision
from loopkernel.data.value_classes import frozen
from loopkernel.data.words import ErrorClass, HookPoint

Bound = tuple[str, int | float | None, int]


def _faults(bounds: Iterable[Bound]) -> list[Fault]:
    """A fault for each number that is not finite or below its minimum; None passes."""
    found: list[Fault] = []
    for name, number, minimum in bounds:
        if number is not None and not (math.isfinite(number) and number >= minimum):
            found.append(Fault(name, f"must be a finite number of at least {minimum}, and is {number}"))
    return found


def _demand(faults: list[Fault]) -> None:
    if faults:
        raise PolicyError(tuple(faults))


@final
@frozen(kw_only=True, field_transformer=checked_options)
class Prices:
    """USD per million tokens."""

    input: float = 0.0
    output: float = 0.0

    def __attrs_post_init__(self) -> None:
        _demand(_faults([("prices.input", self.input, 0), ("prices.output", self.output, 0)]))

    @property
    def known(self) -> bool:
        """Whether anything costs anything."""
        return bool(self.input or self.output)


@final
@frozen(kw_only=True, field_transformer=checked_options)
class Truncation:
    """What follows a reply that was cut at the output limit (rule INFER-7)."""

    escalate_to: tuple[int, ...] = (64_000,)
    continuations: int = 3
    then: choices.TruncationEnd = choices.TruncationEnd.FAIL
    calls: choices.TruncatedCalls = choices.TruncatedCalls.ERROR

    def __attrs_post_init__(self) -> None:
        limits = [(f"on_truncation.escalate_to[{i}]", limit, 1) for i, limit in enumerate(self.escalate_to)]
        _demand(_faults([*limits, ("on_truncation.continuations", self.continuations, 0)]))


RETRYABLE = (
    ErrorClass.OVERLOADED,
    ErrorClass.RATE_LIMITED,
    ErrorClass.SERVER,
    ErrorClass.NETWORK,
    ErrorClass.STALLED,
    ErrorClass.INVALID_OUTPUT,
)


@final
@frozen(kw_only=True, field_transformer=checked_options)
class Retry:
    """The schedule of retries (rule RETRY-1): base, times factor each, at most cap, plus up to jitter.

    A stream that has begun, and fails with a class of `unstreamed`, is asked for again at once and whole (INFER-11).
    """

    base_ms: int = 5_000
    factor: float = 2
    cap_ms: int = 60_000
    retries: int = 5
    jitter_ms: int = 0
    classes: tuple[ErrorClass, ...] = RETRYABLE
    unstreamed: tuple[ErrorClass, ...] = ()

    def __attrs_post_init__(self) -> None:
        _demand(
            _faults(
                [
                    ("retry.base_ms", self.base_ms, 0),
                    ("retry.factor", self.factor, 1),
                    ("retry.cap_ms", self.cap_ms, 0),
                    ("retry.retries", self.retries, 0),
                    ("retry.jitter_ms", self.jitter_ms, 0),
                ]
            )
        )


@final
@frozen(kw_only=True, field_transformer=checked_options)
class LoopTiers:
    """When repeated similar calls are noted, disabled, stopped (rule LIMIT-3); counts of calls."""

    note: int | None = 3
    disable: int | None = 5
    disable_turns: int = 3
    stop: int | None = 8
    window: int = 24

    def __attrs_post_init__(self) -> None:
        _demand(
            _faults(
                [
                    ("loop.note", self.note, 2),
                    ("loop.disable", self.disable, 2),
                    ("loop.disable_turns", self.disable_turns, 1),
                    ("loop.stop", self.stop, 2),
                    ("loop.window", self.window, 2),
                ]
            )
        )


@final
@frozen(kw_only=True, field_transformer=checked_options)
class Compaction:
    """When and how the thread is compacted (section COMPACT). Exactly one `keep_*` is given.

    `shorten_results`: where a prompt is too long, the oldest results keep so many characters at either end (INFER-8).
    """

    strategy: choices.CompactionStrategy = choices.CompactionStrategy.SUMMARISE
    window_tokens: int = 200_000
    trigger_ratio: float | None = 0.7
    trigger_tokens: int | None = None
    keep_turns: int | None = 6
    keep_messages: int | None = None
    keep_ratio: float | None = None
    when: choices.CompactionMoment = choices.CompactionMoment.ANY
    failures: int = 3
    cooldown_ms: int = 60_000
    shorten_results: int | None = None

    def __attrs_post_init__(self) -> None:
        faults = _faults(
            [
                ("compaction.window_tokens", self.window_tokens, 1),
                ("compaction.trigger_ratio", self.trigger_ratio, 0),
                ("compaction.trigger_tokens", self.trigger_tokens, 1),
                ("compaction.keep_turns", self.keep_turns, 1),
                ("compaction.keep_messages", self.keep_messages, 1),
                ("compaction.keep_ratio", self.keep_ratio, 0),
                ("compaction.failures", self.failures, 1),
                ("compaction.cooldown_ms", self.cooldown_ms, 0),
                ("compaction.shorten_results", self.shorten_results, 0),
            ]
        )
        kept = [keep for keep in (self.keep_turns, self.keep_messages, self.keep_ratio) if keep is not None]
        if len(kept) != 1:
            faults.append(Fault("compaction", "must give exactly one of keep_turns, keep_messages, keep_ratio"))
        if self.when is choices.CompactionMoment.TURN_END and self.strategy is choices.CompactionStrategy.SUMMARISE:
            faults.append(Fault("compaction.when", "turn_end needs the strategy window or clear"))
        for name, ratio in (("trigger_ratio", self.trigger_ratio), ("keep_ratio", self.keep_ratio)):
            if ratio is not None and ratio > 1:
                faults.append(Fault(f"compaction.{name}", f"must be at most 1, and is {ratio}"))
        _demand(faults)


@final
@frozen(kw_only=True, field_transformer=checked_options)
class ClearResults:
    """Old result bodies are cleared: above a count, all but the most recent (rule TOOL-11)."""

    above: int = 15
    keep: int = 5
    when: choices.ClearMoment = choices.ClearMoment.ON_PRESSURE

    def __attrs_post_init__(self) -> None:
        _demand(_faults([("clear_results.above", self.above, 0), ("clear_results.keep", self.keep, 0)]))


ROOM_FOR_PATH = 1_000  # characters beside a preview, for the words about its file: it is not cut again


@final
@frozen(kw_only=True, field_transformer=checked_options)
class ResultLimit:
    """A result of more than `chars` keeps `head` and `tail` characters (rule TOOL-11).

    A medium with more than `media_chars` characters of data becomes a placeholder. Where `oversize` is `spill`, what a
    command puts out goes to a file, and `preview` characters of either end are the result.
    """

    chars: int = 20_000
    head: int = 2_000
    tail: int = 2_000
    media_chars: int = 5_000_000
    oversize: choices.Oversize = choices.Oversize.CUT
    preview: int = 2_000

    def __attrs_post_init__(self) -> None:
        faults = _faults(
            [
                ("result_limit.chars", self.chars, 0),
                ("result_limit.head", self.head, 0),
                ("result_limit.tail", self.tail, 0),
                ("result_limit.media_chars", self.media_chars, 0),
                ("result_limit.preview", self.preview, 0),
            ]
        )
        if self.head + self.tail > self.chars:
            faults.append(Fault("result_limit", "head and tail together must not pass chars"))
        if self.oversize is choices.Oversize.SPILL and 2 * self.preview + ROOM_FOR_PATH > self.chars:
            room = f"chars must be at least twice preview and {ROOM_FOR_PATH:,} more, for the words that name the file"
            faults.append(Fault("result_limit", f"where oversize is spill, {room}"))
        _demand(faults)


@final
@frozen(field_transformer=checked_options)
class FieldPattern:
    """An input field, and the pattern its whole value must match; `*` stands for any characters."""

    field: str
    pattern: str


def has_lost_way(pattern: str) -> bool:
    """Whether a `..` stands behind a part with a `*`: which part it takes back, nobody can say."""
    starred = False
    for part in pattern.split("/"):
        if part == ".." and starred:
            return True
        starred = starred or "*" in part
    return False


@final
@frozen(field_transformer=checked_options)
class ResourcePattern:
    """The resources whose canonical name matches, and all that lies within them; used in `mode`, or in any."""

    pattern: str
    mode: AccessMode | None = None

    def __attrs_post_init__(self) -> None:
        if not self.pattern:
            _demand([Fault("resources.pattern", "must name something; `*` names everything")])
        if has_lost_way(self.pattern):
            _demand([Fault("resources.pattern", f"must have no `..` behind a `*`, and is {self.pattern}")])


@final
@frozen(kw_only=True, field_transformer=checked_options)
class ApprovalRule:
    """A decision for the calls whose tool and input match, and which use one of the resources (rule ASK-1)."""

    decision: Decision
    tool: str = "*"
    input: tuple[FieldPattern, ...] = ()
    resources: tuple[ResourcePattern, ...] = ()


@final
@frozen(kw_only=True, field_transformer=checked_options)
class Hook:
    """A hook by name. The loop waits for the answer of a gated one (rule HOOK-1)."""

    point: HookPoint
    name: str
    gated: bool = False


@final
@frozen(kw_only=True, field_transformer=checked_options)
class CourseCorrection:
    """How much must have happened before a correction is asked for (rule HOOK-3)."""

    after_calls: int = 5
    after_writes: int = 1

    def __attrs_post_init__(self) -> None:
        _demand(
            _faults(
                [
                    ("course_correction.after_calls", self.after_calls, 0),
                    ("course_correction.after_writes", self.after_writes, 0),
                ]
            )
        )


@final
@frozen(kw_only=True, field_transformer=checked_options)
class ChildLimits:
    """The limits of a sub-agent (rule CHILD-1)."""

    max_turns: int | None = 10
    max_output_tokens: int | None = 8_000
    timeout_ms: int | None = 60_000
    depth: int = 1

    def __attrs_post_init__(self) -> None:
        _demand(
            _faults(
                [
                    ("child.max_turns", self.max_turns, 1),
                    ("child.max_output_tokens", self.max_output_tokens, 1),
                    ("child.timeout_ms", self.timeout_ms, 0),
                    ("child.depth", self.depth, 0),
                ]
            )
        )


@final
@frozen(kw_only=True, field_transformer=checked_options)
class OnRestart:
    """What a restart does with the runs in flight, by effect class, and with sub-agents (rule RESUME-3)."""

    read_only: choices.RestartSafe = choices.RestartSafe.RERUN
    idempotent: choices.RestartSafe = choices.RestartSafe.RERUN
    dangerous: choices.RestartDangerous = choices.RestartDangerous.CANCEL
    child: choices.RestartChild = choices.RestartChild.RESUME


UNPRICED = (
    "needs prices, since without them every reply would cost nothing: say what a million tokens cost in USD "
    "(prices.input, prices.output), for the dearest of the models; or set no limit (none)"
)


@final
@frozen(kw_only=True, field_transformer=checked_options)
class Policy:
    """All of it. Each field is one option of the scenario format, under the same name."""

    lifetime: choices.Lifetime = choices.Lifetime.SESSION
    model: str = "default"
    fallback_models: tuple[str, ...] = ()
    max_turns: int | None = 100
    turn_limit_counts: choices.TurnLimitCounts = choices.TurnLimitCounts.REPLIES
    max_total_tokens: int | None = None
    max_tool_calls: int | None = None
    max_wall_ms: int | None = None
    max_cost_usd: float | None = None
    prices: Prices = Prices()
    schedule: choices.Schedule = choices.Schedule.GRAPH
    max_parallel: int | None = 10
    early_start: choices.EarlyStart = choices.EarlyStart.GATED
    no_profile: choices.NoProfile = choices.NoProfile.CONFLICT
    no_profile_approval: choices.NoProfileApproval = choices.NoProfileApproval.ASK
    write_conflict: choices.WriteConflict = choices.WriteConflict.SERIALISE
    run_calls: choices.RunCalls = choices.RunCalls.CONTENT
    on_reject: choices.OnReject = choices.OnReject.CONTINUE
    on_tool_failure: choices.OnToolFailure = choices.OnToolFailure.CONTINUE
    on_busy: choices.OnBusy = choices.OnBusy.QUEUE
    queue_limit: int = 100
    max_output_tokens: int | None = 32_000
    max_reply_chars: int | None = 4_000_000
    on_truncation: Truncation = Truncation()
    retry: Retry | None = Retry()
    retry_after_cap_ms: int = 300_000
    errors: choices.ErrorDisplay = choices.ErrorDisplay.WITHHELD
    on_error: choices.OnError = choices.OnError.REST
    silence_ms: int | None = 120_000
    tool_timeout_ms: int | None = 120_000
    approval_timeout_ms: int | None = None
    hook_timeout_ms: int | None = 30_000
    grace_ms: int = 5_000
    loop: LoopTiers | None = LoopTiers()
    compaction: Compaction | None = Compaction()
    clear_results: ClearResults | None = ClearResults()
    result_limit: ResultLimit | None = ResultLimit()
    approval_mode: choices.ApprovalMode = choices.ApprovalMode.DEFAULT
    approval_rules: tuple[ApprovalRule, ...] = ()
    output_tool: str | None = None
    output_calls: choices.OutputCalls = choices.OutputCalls.RUN
    output_required: bool = False
    output_demand: choices.OutputDemand = choices.OutputDemand.ONCE
    redacts: choices.Redacts = choices.Redacts.INPUT
    on_pause: choices.OnPause = choices.OnPause.CONTINUE
    on_broken_stream: choices.OnBrokenStream = choices.OnBrokenStream.RETRACT
    missing_call_retries: int | None = None
    refusal_notes: int = 0
    empty_reply_nudges: int = 1
    nudges_count: choices.NudgesCount = choices.NudgesCount.TURN
    still_empty: choices.StillEmpty = choices.StillEmpty.STUCK
    hooks: tuple[Hook, ...] = ()
    hook_failure: choices.HookFailure = choices.HookFailure.OPEN
    stop_hook_limit: int = 10
    course_correction: CourseCorrection | None = None
    child: ChildLimits = ChildLimits()
    on_restart: OnRestart = OnRestart()
    seed: int = 0  # of the jitter (rule RETRY-2)

    def __attrs_post_init__(self) -> None:
        faults = _faults(
            [
                ("max_turns", self.max_turns, 0),
                ("max_total_tokens", self.max_total_tokens, 0),
                ("max_tool_calls", self.max_tool_calls, 0),
                ("max_wall_ms", self.max_wall_ms, 0),
                ("max_cost_usd", self.max_cost_usd, 0),
                ("max_parallel", self.max_parallel, 1),
                ("queue_limit", self.queue_limit, 0),
                ("max_output_tokens", self.max_output_tokens, 1),
                ("max_reply_chars", self.max_reply_chars, 0),
                ("retry_after_cap_ms", self.retry_after_cap_ms, 0),
                ("silence_ms", self.silence_ms, 1),
                ("tool_timeout_ms", self.tool_timeout_ms, 1),
                ("approval_timeout_ms", self.approval_timeout_ms, 1),
                ("hook_timeout_ms", self.hook_timeout_ms, 1),
                ("grace_ms", self.grace_ms, 0),
                ("missing_call_retries", self.missing_call_retries, 0),
                ("refusal_notes", self.refusal_notes, 0),
                ("empty_reply_nudges", self.empty_reply_nudges, 0),
                ("stop_hook_limit", self.stop_hook_limit, 0),
            ]
        )
        if self.output_required and self.output_tool is None:
            faults.append(Fault("output_required", "needs output_tool: name the tool that gives the output"))
        if self.max_cost_usd is not None and not self.prices.known:
            faults.append(Fault("max_cost_usd", UNPRICED))
        for point in dict.fromkeys(hook.point for hook in self.hooks if hook.gated and not hook.point.can_be_gated):
            faults.append(Fault("hooks", f"a hook at {point.value} can only observe: it cannot be gated"))
        _demand(faults)
