"""Amp: a session that shows errors at once, batches calls by conflict, and halts after a rejection."""

from loopkernel.data import choices
from loopkernel.data.policy import Compaction, CourseCorrection, OnRestart, Policy, Truncation

AMP = Policy(
    run_calls=choices.RunCalls.STOP_REASON,
    on_truncation=Truncation(escalate_to=(), continuations=0),
    schedule=choices.Schedule.BATCHES,
    early_start=choices.EarlyStart.NEVER,
    max_parallel=None,
    on_reject=choices.OnReject.HALT,
    max_turns=None,
    errors=choices.ErrorDisplay.SHOWN,
    compaction=Compaction(trigger_ratio=None, trigger_tokens=100_000),
    clear_results=None,
    loop=None,
    empty_reply_nudges=0,
    tool_timeout_ms=None,
    result_limit=None,
    course_correction=CourseCorrection(),
    on_restart=OnRestart(child=choices.RestartChild.CANCEL),
)
