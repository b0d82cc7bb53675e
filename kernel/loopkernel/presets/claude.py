"""Claude Code: a session that withholds errors while it recovers, and runs neighbouring reads together."""

from loopkernel.data import choices
from loopkernel.data.policy import Compaction, OnRestart, Policy, ResultLimit, Retry, Truncation
from loopkernel.data.words import ErrorClass

CLAUDE = Policy(
    schedule=choices.Schedule.READ_RUNS,
    max_turns=None,
    turn_limit_counts=choices.TurnLimitCounts.TOOL_REPLIES,
    on_truncation=Truncation(escalate_to=(), calls=choices.TruncatedCalls.RUN),
    retry=Retry(
        base_ms=500,
        cap_ms=32_000,
        retries=10,
        jitter_ms=125,
        classes=(
            ErrorClass.OVERLOADED,
            ErrorClass.RATE_LIMITED,
            ErrorClass.SERVER,
            ErrorClass.NETWORK,
            ErrorClass.STALLED,
        ),
        unstreamed=(ErrorClass.OVERLOADED, ErrorClass.RATE_LIMITED, ErrorClass.SERVER),
    ),
    retry_after_cap_ms=60_000,
    compaction=Compaction(
        trigger_ratio=0.85, keep_turns=None, keep_messages=4, when=choices.CompactionMoment.TURN_START
    ),
    clear_results=None,
    on_restart=OnRestart(read_only=choices.RestartSafe.CANCEL, idempotent=choices.RestartSafe.CANCEL),
    loop=None,
    on_pause=choices.OnPause.END,
    on_broken_stream=choices.OnBrokenStream.KEEP,
    missing_call_retries=2,
    refusal_notes=1,
    nudges_count=choices.NudgesCount.ROUND,
    still_empty=choices.StillEmpty.NATURAL,
    stop_hook_limit=8,
    result_limit=ResultLimit(chars=30_000, head=15_000, tail=15_000, oversize=choices.Oversize.SPILL),
)
