"""What policy may say of the runs that a crash has cut, and how their calls are then answered."""

from hypothesis import strategies as st
from loopkernel.data.choices import RestartDangerous, RestartSafe
from loopkernel.data.policy import OnRestart
from loopkernel.data.tools import EffectClass, Tool, ToolProfile
from loopkernel.data.words import CallStatus

TOOLS = (
    *(Tool(name=effect.value, profile=ToolProfile(effect=effect)) for effect in EffectClass),
    Tool(name="bare"),
)
DANGER = ("dangerous", "bare")  # a tool without a profile counts as dangerous
ANSWERS = {RestartSafe.RERUN: None, RestartSafe.CANCEL: CallStatus.CANCELLED, RestartSafe.ERROR: CallStatus.ERROR}
DANGEROUS_ANSWERS = {
    RestartDangerous.CANCEL: CallStatus.CANCELLED,
    RestartDangerous.UNKNOWN: CallStatus.UNKNOWN,
    RestartDangerous.ASK: CallStatus.BLOCKED_ON_USER,
}

restarts = st.builds(
    OnRestart,
    read_only=st.sampled_from(RestartSafe),
    idempotent=st.sampled_from(RestartSafe),
    dangerous=st.sampled_from(RestartDangerous),
)


def answer_by_policy(tool: str, policy: OnRestart) -> CallStatus | None:
    """How a run in flight is answered; None if it is repeated."""
    if tool in DANGER:
        return DANGEROUS_ANSWERS[policy.dangerous]
    choice = policy.read_only if tool == "read_only" else policy.idempotent
    return ANSWERS[choice]
