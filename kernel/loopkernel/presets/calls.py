"""A graph of calls: a task whose calls start as soon as what they depend on is there, and whose errors are fed back."""

from loopkernel.data import choices
from loopkernel.data.policy import OnRestart, Policy, Truncation

CALLS = Policy(
    lifetime=choices.Lifetime.TASK,
    max_output_tokens=None,
    on_truncation=Truncation(escalate_to=(), continuations=0),
    max_parallel=None,
    no_profile=choices.NoProfile.NO_CONFLICT,
    write_conflict=choices.WriteConflict.LAST_WRITE,
    max_turns=None,
    retry=None,
    on_error=choices.OnError.FEED_BACK,
    compaction=None,
    clear_results=None,
    loop=None,
    on_busy=choices.OnBusy.REJECT,
    on_restart=OnRestart(dangerous=choices.RestartDangerous.UNKNOWN),
    tool_timeout_ms=None,
    silence_ms=None,
    result_limit=None,
)
