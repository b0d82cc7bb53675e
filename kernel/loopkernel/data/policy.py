"""Policy: every constant and every choice of the loop, as validated data.

The defaults are those of the `default` preset. Times are milliseconds, None means "no limit" or "none". Building an
invalid part raises PolicyError, which names every fault of that part. What stands below an option says what it decides,
an example, and the rule that defines it: docs/reference/policy.md is printed from that.
"""

import math
from typing import final

from loopkernel.data import choices
from loopkernel.data.checked_fields import checked_options
from loopkernel.data.errors import Fault, PolicyError
from loopkernel.data.tools import AccessMode, Decision
from loopkernel.data.value_classes import frozen
from loopkernel.data.words import ErrorClass, HookPoint


def _faults(part: object, within: str, **least: int) -> list[Fault]:
    """A fault for each number of the part, or in it, that is not finite or below its least; None passes.

    `within` is the name of the part in a policy, with a dot behind it.
    """
    found: list[Fault] = []
    for option, minimum in least.items():
        given: object = getattr(part, option)
        numbers = {f"[{place}]": each for place, each in enumerate(given)} if isinstance(given, tuple) else {"": given}
        for place, number in numbers.items():
            if isinstance(number, int | float) and not (math.isfinite(number) and number >= minimum):
                problem = f"must be a finite number of at least {minimum}, and is {number}"
                found.append(Fault(f"{within}{option}{place}", problem))
    return found


def _demand(faults: list[Fault]) -> None:
    if faults:
        raise PolicyError(tuple(faults))


@final
@frozen(kw_only=True, field_transformer=checked_options)
class Prices:
    """USD per million tokens."""

    input: float = 0.0
    """What a million tokens of input or cache cost, in US dollars; such as `3.0` (LIMIT-2)."""
    output: float = 0.0
    """What a million tokens of output cost, in US dollars; such as `15.0` (LIMIT-2)."""

    def __attrs_post_init__(self) -> None:
        _demand(_faults(self, "prices.", input=0, output=0))

    @property
    def known(self) -> bool:
        """Whether anything costs anything."""
        return bool(self.input or self.output)


@final
@frozen(kw_only=True, field_transformer=checked_options)
class Truncation:
    """What follows a reply that was truncated at the output limit (rule INFER-7)."""

    escalate_to: tuple[int, ...] = (64_000,)
    """Higher limits, in tokens, under which a truncated reply is asked for again; such as `(64_000,)` (INFER-7)."""
    continuations: int = 3
    """How often the model is asked to continue a truncated reply; such as `3` (INFER-7)."""
    then: choices.TruncationEnd = choices.TruncationEnd.FAIL
    """How a turn ends whose reply stays truncated (INFER-7)."""
    calls: choices.TruncatedCalls = choices.TruncatedCalls.ERROR
    """When the complete calls of a truncated reply run: once no higher limit is left (`error`), never (`note`), or at
    once (`run`) (INFER-7)."""

    def __attrs_post_init__(self) -> None:
        _demand(_faults(self, "on_truncation.", escalate_to=1, continuations=0))


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
    """The schedule of retries (rule RETRY-1): base, times factor each, at most cap, plus up to jitter."""

    base_ms: int = 5_000
    """The first wait; such as `500` (RETRY-1)."""
    factor: float = 2
    """What each wait is multiplied by to get the next; such as `2` (RETRY-1)."""
    cap_ms: int = 60_000
    """The longest wait, before jitter, unless the server asks for a longer one; such as `32_000` (RETRY-1)."""
    retries: int = 5
    """How many attempts follow the first, with each model; such as `10` (RETRY-1)."""
    jitter_ms: int = 0
    """The most that is added to a wait, drawn from `seed`; such as `250` (RETRY-2)."""
    classes: tuple[ErrorClass, ...] = RETRYABLE
    """Which classes of failure are retried; such as `("overloaded", "network")` (RETRY-3)."""
    unstreamed: tuple[ErrorClass, ...] = ()
    """After which failures of a stream that has begun the reply is asked for again at once, without a stream; such as
    `("server",)` (INFER-11)."""

    def __attrs_post_init__(self) -> None:
        _demand(_faults(self, "retry.", base_ms=0, factor=1, cap_ms=0, retries=0, jitter_ms=0))


@final
@frozen(kw_only=True, field_transformer=checked_options)
class LoopTiers:
    """After how many similar calls the model is told, the tool disabled, the turn ended (rule LIMIT-3)."""

    note: int | None = 3
    """After how many similar calls the model is told that it repeats itself; such as `3` (LIMIT-3)."""
    disable: int | None = 5
    """After how many similar calls the tool is disabled for a while; such as `5` (LIMIT-3)."""
    disable_turns: int = 3
    """For how many replies the tool is disabled; such as `3` (LIMIT-3)."""
    stop: int | None = 8
    """After how many similar calls the turn ends; such as `8` (LIMIT-3)."""
    window: int = 24
    """Among how many of the last calls similar ones are counted; such as `24` (LIMIT-3)."""

    def __attrs_post_init__(self) -> None:
        _demand(_faults(self, "loop.", note=2, disable=2, disable_turns=1, stop=2, window=2))


@final
@frozen(kw_only=True, field_transformer=checked_options)
class Compaction:
    """When and how the thread is compacted (section COMPACT). Exactly one `keep_*` is given."""

    strategy: choices.CompactionStrategy = choices.CompactionStrategy.SUMMARISE
    """How the thread is made smaller (COMPACT-2)."""
    window_tokens: int = 200_000
    """How large the context window of the model is; such as `1_000_000` (COMPACT-1)."""
    trigger_ratio: float | None = 0.7
    """At what part of the context window the thread is made smaller; such as `0.85` (COMPACT-1)."""
    trigger_tokens: int | None = None
    """At what size the thread is made smaller, whatever part of the window that is; such as `150_000` (COMPACT-1)."""
    keep_turns: int | None = 6
    """How many of the last turns are kept; null where another `keep_` option is given; such as `6` (COMPACT-2)."""
    keep_messages: int | None = None
    """How many of the last messages are kept instead; such as `4` (COMPACT-2)."""
    keep_ratio: float | None = None
    """What part of the messages, from the end, is kept instead; such as `0.3` (COMPACT-2)."""
    when: choices.CompactionMoment = choices.CompactionMoment.ANY
    """When the triggers are tested: before each request, before the first of a turn, or at the end of a turn (not with
    `summarise`) (COMPACT-1)."""
    failures: int = 3
    """After how many failed summaries in a row compaction pauses; such as `3` (COMPACT-4)."""
    cooldown_ms: int = 60_000
    """How long compaction then pauses; such as `60_000` (COMPACT-4)."""
    shorten_results: int | None = None
    """How many characters the oldest results keep at either end when a prompt was too long; such as `200` (INFER-8)."""

    def __attrs_post_init__(self) -> None:
        faults = _faults(
            self,
            "compaction.",
            window_tokens=1,
            trigger_ratio=0,
            trigger_tokens=1,
            keep_turns=1,
            keep_messages=1,
            keep_ratio=0,
            failures=1,
            cooldown_ms=0,
            shorten_results=0,
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
    """Above how many results old ones are cleared; without effect under `on_pressure`; such as `15` (TOOL-11)."""
    keep: int = 5
    """How many of the latest results keep their bodies; such as `5` (TOOL-11)."""
    when: choices.ClearMoment = choices.ClearMoment.ON_PRESSURE
    """Whether old results are cleared at each request, or only when a prompt was too long (TOOL-11)."""

    def __attrs_post_init__(self) -> None:
        _demand(_faults(self, "clear_results.", above=0, keep=0))


ROOM_FOR_PATH = 1_000  # characters beside a preview, for the words about its file: it is not cut again


@final
@frozen(kw_only=True, field_transformer=checked_options)
class ResultLimit:
    """A result of more than `chars` keeps `head` and `tail` characters (rule TOOL-11)."""

    chars: int = 20_000
    """How long the text of a result may be before it is cut; such as `30_000` (TOOL-11)."""
    head: int = 2_000
    """How many characters are kept of the beginning of a result that is cut; such as `2_000` (TOOL-11)."""
    tail: int = 2_000
    """How many characters are kept of the end of a result that is cut; such as `2_000` (TOOL-11)."""
    media_chars: int = 5_000_000
    """How large an image or file may be before a placeholder takes its place; such as `1_000_000` (TOOL-11)."""
    oversize: choices.Oversize = choices.Oversize.CUT
    """Whether the long output of a command is cut, or goes to a file that the model can read (TOOL-11)."""
    preview: int = 2_000
    """How many characters of either end of such a file the model sees; such as `2_000` (TOOL-11)."""

    def __attrs_post_init__(self) -> None:
        faults = _faults(self, "result_limit.", chars=0, head=0, tail=0, media_chars=0, preview=0)
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
    """How many calls must have run since the user last spoke; such as `5` (HOOK-3)."""
    after_writes: int = 1
    """How many of these must have done more than read; such as `1` (HOOK-3)."""

    def __attrs_post_init__(self) -> None:
        _demand(_faults(self, "course_correction.", after_calls=0, after_writes=0))


@final
@frozen(kw_only=True, field_transformer=checked_options)
class ChildLimits:
    """The limits of a sub-agent (rule CHILD-1)."""

    max_turns: int | None = 10
    """How many replies a sub-agent may have; such as `10` (CHILD-1)."""
    max_output_tokens: int | None = 8_000
    """How long the replies of a sub-agent may be; such as `8_000` (CHILD-1)."""
    timeout_ms: int | None = 60_000
    """How long a sub-agent may take; such as `60_000` (CHILD-1)."""
    depth: int = 1
    """How many generations of sub-agents there may be; such as `1` (CHILD-1)."""

    def __attrs_post_init__(self) -> None:
        _demand(_faults(self, "child.", max_turns=1, max_output_tokens=1, timeout_ms=0, depth=0))


@final
@frozen(kw_only=True, field_transformer=checked_options)
class OnRestart:
    """What a restart does with the runs in flight, by effect class, and with sub-agents (rule RESUME-3)."""

    read_only: choices.RestartSafe = choices.RestartSafe.RERUN
    """What a restart does with a run that only reads (RESUME-3)."""
    idempotent: choices.RestartSafe = choices.RestartSafe.RERUN
    """What it does with a run that is idempotent (RESUME-3)."""
    dangerous: choices.RestartDangerous = choices.RestartDangerous.CANCEL
    """What it does with a run that may have done harm: its call is cancelled, put to a person, or answered as `unknown`
    (RESUME-3)."""
    child: choices.RestartChild = choices.RestartChild.RESUME
    """What it does with a sub-agent (RESUME-3)."""


UNPRICED = (
    "needs prices, since without them every reply would cost nothing: say what a million tokens cost in USD "
    "(prices.input, prices.output), for the dearest of the models; or set no limit (none)"
)


@final
@frozen(kw_only=True, field_transformer=checked_options)
class Policy:
    """Every limit and choice of a run. Each field is one option, by the same name in scenarios and policy files."""

    lifetime: choices.Lifetime = choices.Lifetime.SESSION
    """Whether a run ends with its task, or rests after each turn and goes on (STATE-8)."""
    model: str = "default"
    """The name of the model that is asked; the provider knows what it means; such as `"large"` (INFER-1)."""
    fallback_models: tuple[str, ...] = ()
    """Models that are asked, in this order, when the one before has failed for good; such as `("small",)` (RETRY-6)."""
    max_turns: int | None = 100
    """How many replies a turn may have; such as `50` (LIMIT-1)."""
    turn_limit_counts: choices.TurnLimitCounts = choices.TurnLimitCounts.REPLIES
    """Which replies count towards `max_turns`: all, or only those with calls (LIMIT-1)."""
    max_total_tokens: int | None = None
    """How many tokens the whole run may use: input, output and cache; such as `1_000_000` (LIMIT-2)."""
    max_tool_calls: int | None = None
    """How many calls the whole run may make; such as `200` (LIMIT-2)."""
    max_wall_ms: int | None = None
    """How long a turn may take; such as `600_000` (LIMIT-2)."""
    max_cost_usd: float | None = None
    """What the whole run may cost; it needs `prices`; such as `2.5` (LIMIT-2)."""
    prices: Prices = Prices()
    """What tokens cost: the prices of the dearest model (LIMIT-2)."""
    schedule: choices.Schedule = choices.Schedule.GRAPH
    """In which order calls start (TOOL-3)."""
    max_parallel: int | None = 10
    """How many calls may run at once; such as `4` (TOOL-3)."""
    early_start: choices.EarlyStart = choices.EarlyStart.GATED
    """Whether calls may start while the reply still streams (TOOL-9)."""
    no_profile: choices.NoProfile = choices.NoProfile.CONFLICT
    """Whether a call of a tool without a profile conflicts with every other call, or with none (TOOL-1)."""
    no_profile_approval: choices.NoProfileApproval = choices.NoProfileApproval.ASK
    """Whether a call of a tool without a profile needs the approval of a person (ASK-1)."""
    write_conflict: choices.WriteConflict = choices.WriteConflict.SERIALISE
    """Whether two calls that write the same resource run one after the other, or may overlap (CALL-6)."""
    run_calls: choices.RunCalls = choices.RunCalls.CONTENT
    """When the calls of a reply run: always (`content`), if it stopped as `tool_use` (`stop_reason`), or unless it
    stopped as `stop_sequence` (`either`) (INFER-5)."""
    on_reject: choices.OnReject = choices.OnReject.CONTINUE
    """What follows when a person rejects a call (ASK-7)."""
    on_tool_failure: choices.OnToolFailure = choices.OnToolFailure.CONTINUE
    """What a call that fails does to its siblings, the other calls of its reply (TOOL-6)."""
    on_busy: choices.OnBusy = choices.OnBusy.QUEUE
    """What becomes of a message that comes while the loop is busy (INPUT-1)."""
    queue_limit: int = 100
    """How many messages may wait in the queue; such as `20` (INPUT-1)."""
    max_output_tokens: int | None = 32_000
    """How long a reply may be; null leaves it to the provider; such as `16_384` (INFER-14)."""
    max_reply_chars: int | None = 4_000_000
    """How much of a reply may arrive before it is stopped; such as `4_000_000` (LIMIT-4)."""
    on_truncation: Truncation = Truncation()
    """What follows a reply that was truncated at the output limit (INFER-7)."""
    retry: Retry | None = Retry()
    """How a request that failed is tried again (RETRY-1)."""
    retry_after_cap_ms: int = 300_000
    """The longest wait that a server may ask for; beyond it the next model is asked, or the failure is not recovered;
    such as `60_000` (RETRY-2)."""
    errors: choices.ErrorDisplay = choices.ErrorDisplay.WITHHELD
    """Whether an error is shown at once, or only when nothing is left to try (INFER-9)."""
    on_error: choices.OnError = choices.OnError.REST
    """What follows a failure that is not recovered (RETRY-7)."""
    silence_ms: int | None = 120_000
    """How long a stream may be silent before it fails as `stalled`; such as `120_000` (INFER-11)."""
    tool_timeout_ms: int | None = 120_000
    """How long a call may run, unless the profile of its tool says otherwise; such as `30_000` (TOOL-10)."""
    approval_timeout_ms: int | None = None
    """After how long without an answer a call is rejected; such as `300_000` (ASK-6)."""
    hook_timeout_ms: int | None = 30_000
    """How long a gated hook or a course correction may take; such as `30_000` (HOOK-4)."""
    grace_ms: int = 5_000
    """How long an aborted run keeps its resources, if nothing says that it has stopped; such as `5_000` (TOOL-17)."""
    loop: LoopTiers | None = LoopTiers()
    """What follows when the model repeats similar calls (LIMIT-3)."""
    compaction: Compaction | None = Compaction()
    """When and how the thread is made smaller (COMPACT-1)."""
    clear_results: ClearResults | None = ClearResults()
    """When old results are cleared, that is, lose their bodies (TOOL-11)."""
    result_limit: ResultLimit | None = ResultLimit()
    """How long a result may be (TOOL-11)."""
    approval_mode: choices.ApprovalMode = choices.ApprovalMode.DEFAULT
    """What becomes of calls that need approval: `accept_edits` allows those that are idempotent, `bypass` allows all,
    `headless` denies all; `plan` denies every call that does more than read (ASK-1)."""
    approval_rules: tuple[ApprovalRule, ...] = ()
    """Rules for calls by tool, input and resource: deny, ask or allow; deny wins, then ask; such as
    `(ApprovalRule(decision=Decision.DENY, tool="shell"),)` (ASK-1)."""
    output_tool: str | None = None
    """The tool whose checked input is the output of the turn; it is not run; such as `"answer"` (CALL-5)."""
    output_calls: choices.OutputCalls = choices.OutputCalls.RUN
    """What becomes of the other calls of a reply with an output (CALL-5)."""
    output_required: bool = False
    """Whether each turn must give an output; it needs `output_tool` (CALL-5)."""
    output_demand: choices.OutputDemand = choices.OutputDemand.ONCE
    """Whether a missing output is demanded in one request, or in each until it is given (CALL-5)."""
    redacts: choices.Redacts = choices.Redacts.INPUT
    """Which message a guardrail's text replaces: the last from the user, or the last that is not a reply (INFER-10)."""
    on_pause: choices.OnPause = choices.OnPause.CONTINUE
    """What follows a paused reply without calls (INFER-4)."""
    on_broken_stream: choices.OnBrokenStream = choices.OnBrokenStream.RETRACT
    """Whether a reply whose stream broke is retracted, or what is complete of it is kept (INFER-11)."""
    missing_call_retries: int | None = None
    """How often a reply that stopped as `tool_use` but has no calls is asked for again; such as `2` (INFER-13)."""
    refusal_notes: int = 0
    """How often in a turn the model is told that it refused, and asked again; such as `1` (INFER-10)."""
    empty_reply_nudges: int = 1
    """How often the model is nudged after an empty reply; with 0 that is a natural end; such as `1` (INFER-13)."""
    nudges_count: choices.NudgesCount = choices.NudgesCount.TURN
    """Whether nudges are counted in the whole turn, or since the last reply with calls (INFER-13)."""
    still_empty: choices.StillEmpty = choices.StillEmpty.STUCK
    """How a turn ends whose replies stay empty after the nudges (INFER-13)."""
    hooks: tuple[Hook, ...] = ()
    """Which hooks are asked or told, and at which point; such as
    `(Hook(point=HookPoint.BEFORE_TOOL, name="guard", gated=True),)` (HOOK-1)."""
    hook_failure: choices.HookFailure = choices.HookFailure.OPEN
    """Whether a gated hook that fails counts as having continued (`open`) or blocked (`closed`); a stop hook always
    counts as having continued (HOOK-4)."""
    stop_hook_limit: int = 10
    """How often stop hooks may keep a turn from ending; such as `8` (HOOK-2)."""
    course_correction: CourseCorrection | None = None
    """When a course correction is asked for (HOOK-3)."""
    child: ChildLimits = ChildLimits()
    """The limits of a sub-agent (CHILD-1)."""
    on_restart: OnRestart = OnRestart()
    """What a restart does with the runs in flight, by effect class, and with sub-agents (RESUME-3)."""
    seed: int = 0
    """What the jitter of retries is drawn from; such as `7` (RETRY-2)."""

    def __attrs_post_init__(self) -> None:
        faults = _faults(
            self,
            "",
            max_turns=0,
            max_total_tokens=0,
            max_tool_calls=0,
            max_wall_ms=0,
            max_cost_usd=0,
            max_parallel=1,
            queue_limit=0,
            max_output_tokens=1,
            max_reply_chars=0,
            retry_after_cap_ms=0,
            silence_ms=1,
            tool_timeout_ms=1,
            approval_timeout_ms=1,
            hook_timeout_ms=1,
            grace_ms=0,
            missing_call_retries=0,
            refusal_notes=0,
            empty_reply_nudges=0,
            stop_hook_limit=0,
        )
        if self.output_required and self.output_tool is None:
            faults.append(Fault("output_required", "needs output_tool: name the tool that gives the output"))
        if self.max_cost_usd is not None and not self.prices.known:
            faults.append(Fault("max_cost_usd", UNPRICED))
        for point in dict.fromkeys(hook.point for hook in self.hooks if hook.gated and not hook.point.can_be_gated):
            faults.append(Fault("hooks", f"a hook at {point.value} can only observe: it cannot be gated"))
        _demand(faults)
