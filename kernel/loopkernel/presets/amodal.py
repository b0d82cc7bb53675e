"""Amodal: a task of at most 50 rounds, with loop detection, where an error or a rejection stops the rest."""

from loopkernel.data import choices
from loopkernel.data.policy import ClearResults, OnRestart, Policy, Truncation

AMODAL = Policy(
    lifetime=choices.Lifetime.TASK,
    max_output_tokens=16_384,
    on_truncation=Truncation(escalate_to=(), continuations=0, then=choices.TruncationEnd.NATURAL),
    schedule=choices.Schedule.READ_RUNS,
    max_parallel=None,
    on_reject=choices.OnReject.SKIP_REST,
    max_turns=50,
    retry=None,
    errors=choices.ErrorDisplay.SHOWN,
    on_error=choices.OnError.END,
    clear_results=ClearResults(when=choices.ClearMoment.EACH_REQUEST),
    on_busy=choices.OnBusy.REJECT,
    empty_reply_nudges=0,
    on_restart=OnRestart(read_only=choices.RestartSafe.CANCEL, idempotent=choices.RestartSafe.CANCEL),
    approval_timeout_ms=300_000,
    tool_timeout_ms=30_000,
    silence_ms=None,
)
