"""What the user can do now, in one word (rule STATE-6)."""

import enum


class Interaction(enum.Enum):
    """The labels of the interaction state."""

    HANDOFF = "handoff"
    BUSY = "busy"
    USER_MESSAGE_INITIAL = "user-message-initial"
    USER_MESSAGE_REPLY = "user-message-reply"
    USER_TOOL_APPROVAL = "user-tool-approval"
    TOOL_RUNNING = "tool-running"


def interaction(
    *, handing_off: bool, inferring: bool, resting: bool, empty: bool, asking: bool, running: bool
) -> Interaction:
    """The first label that applies.

    `inferring`: inference runs, is being prepared or is cancelled; `resting`: the last turn has ended;
    `empty`: the thread holds nothing; `asking`: a call waits for a person; `running`: a tool runs.
    """
    if handing_off:
        return Interaction.HANDOFF
    if inferring:
        return Interaction.BUSY
    if empty:
        return Interaction.USER_MESSAGE_INITIAL
    if resting:
        return Interaction.USER_MESSAGE_REPLY
    if asking:
        return Interaction.USER_TOOL_APPROVAL
    return Interaction.TOOL_RUNNING if running else Interaction.BUSY
