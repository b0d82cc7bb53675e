"""The sentences that the kernel itself says to the model."""

from typing import assert_never

from loopkernel.data.errors import quoted
from loopkernel.data.words import CallStatus, CancelReason, ErrorClass, TurnEndReason

NUDGE = "Your last reply was empty. Go on with the task, or say in a sentence what stops you."
STOPPED_REPLY = "(The reply before this message was stopped before it was complete.)"
LOST = "The result of this call was never recorded. Whether the call had an effect is not known."
NO_RESULT = "The tool stopped without a result."
REJECTED_BY_TIME = "Nobody approved this call in time, so it was not run. Do not repeat it unasked."
OUTPUT_TAKEN = "The output was taken."
CONTINUE = (
    "Your last reply was cut off at the output limit. Go on exactly where it stopped; do not repeat what you said."
)
BROKEN_OFF = "Your last reply broke off before its end. Go on exactly where it stopped; do not repeat what you said."
MISSING_CALLS = "Your last reply stopped for a tool call, and held none that could be read. Make the call again."
REFUSAL = "Your last reply was stopped as a refusal, and its calls were not run. Do not say it again; go on otherwise."
GAP = "(Earlier messages stood here. They were left out to save space.)"
NOT_DONE = "The work is not done yet. Go on."
UNPARSED = "its arguments are not valid JSON"
UNSAFE_NAME = "invalid_tool_name"


def cancelled_text(reason: CancelReason) -> str:
    """Why a call has no result of its own, told to the model; a different text for each reason."""
    match reason:
        case CancelReason.USER_CANCELLED:
            return "Cancelled by the user. Do not repeat this call unless the user asks for it."
        case CancelReason.USER_INTERRUPTED:
            return "Cancelled: the user interrupted with a new message. Do not repeat this call unasked."
        case CancelReason.EDITED:
            return "Cancelled: the user edited an earlier message, so this call no longer applies."
        case CancelReason.DISPOSED:
            return "Cancelled: the session was closed before this call had ended."
        case CancelReason.SAFETY:
            return "Cancelled for safety: whether this call had an effect is not known. Check before repeating it."
        case CancelReason.REJECTED:
            return "Skipped: another call of the same reply was rejected."
        case CancelReason.SIBLING:
            return "Cancelled: another call of the same reply failed."
        case CancelReason.TIMEOUT:
            return "Stopped: the call ran longer than it may."
        case CancelReason.LIMIT:
            return "Not run: a limit of this session was reached."
        case CancelReason.SUPERSEDED:
            return "Cancelled: the reply ended in a way that leaves this call out."
        case _:
            assert_never(reason)


def unknown_tool_text(tool: str) -> str:
    """The model called what is not offered."""
    return f"There is no tool named {quoted(tool)}. Use one of the tools that are offered."


def invalid_call_text(tool: str, why: str) -> str:
    """The model called a tool in a way that the tool does not allow."""
    return f"The input of this call of {quoted(tool)} is not valid: {why}. Correct it and call again."


def denied_text(tool: str, in_the_way: str | None = None) -> str:
    """Policy forbids the call; `in_the_way` is what it need not reach, as the pattern of a rule."""
    if in_the_way is not None:
        return (
            f"This call of {quoted(tool)} is denied by policy: it would reach {quoted(in_the_way)}, which is not "
            "allowed. Name a narrower path that leaves it out, or tell the user."
        )
    return f"This call of {quoted(tool)} is denied by policy. Do it another way, or tell the user."


def too_deep_text(tool: str) -> str:
    """A sub-agent may not start another one."""
    return f"This call of {quoted(tool)} was not run: no further sub-agents may be started here. Do the work yourself."


def blocked_text(tool: str, why: str) -> str:
    """A hook has blocked the call, or its result."""
    told = f": {why}" if why.strip() else ""
    return f"This call of {quoted(tool)} was blocked{told}. Do it another way, or tell the user."


def child_end_text(reason: TurnEndReason, text: str) -> str:
    """A sub-agent has ended before its work was done; what it has said last may still be of use."""
    partial = f" The last that it said: {text}" if text.strip() else ""
    return f"The sub-agent ended as {reason.value}, before its work was done.{partial}"


def stop_hook_text(why: str) -> str:
    """A stop hook does not let the turn end."""
    return why if why.strip() else NOT_DONE


def correction_text(text: str) -> str:
    """What the course correction says, marked as what it is."""
    return f"(A check of the course so far says:) {text}"


def summary_text(text: str) -> str:
    """The summary that stands in the place of earlier messages."""
    return f"(Earlier messages were replaced by this summary.)\n{text}"


def unreachable_text(source: str, status: CallStatus) -> str:
    """A call that this one depends on did not succeed."""
    advice = " Mend that call first, then call this again." if status is CallStatus.ERROR else ""
    return f"Not run: it depends on call {quoted(source)}, which ended as {status.value}.{advice}"


def rejected_text(why: str) -> str:
    """A person did not let the call run."""
    told = f" They said: {why}" if why.strip() else ""
    return f"The user rejected this call, and it was not run.{told}"


def edited_text(tool: str, given: str, swapped: bool) -> str:
    """A person has changed the call before it ran."""
    if swapped:
        return f"(The user replaced this call. What ran instead is {quoted(tool)} with the input {given})"
    return f"(The user changed the input of this call before it ran. It ran with {given})"


def background_text(tool: str) -> str:
    """The handle of a run that goes on in the background, where the tool gives none itself."""
    return f"{quoted(tool)} goes on in the background. Its outcome will be told when it has ended."


def background_end_text(tool: str, call: str, how: str) -> str:
    """A run in the background has ended."""
    return f"(The background run of {quoted(tool)}, started by call {call}, {how}.)"


def demand_text(tool: str) -> str:
    """The model has ended without the output that it must give."""
    return f"You have not given the required output yet. Give it now, by a call of {quoted(tool)}."


def cut_call_text(tool: str) -> str:
    """The arguments of a call were cut at the output limit."""
    return f"This call of {quoted(tool)} was not run: its arguments were cut off at the output limit. Make it shorter."


def call_note(tool: str, *, ran: bool) -> str:
    """Stands in a truncated reply in the place of a call; `ran`: it had started while the reply streamed."""
    lost = "What it gave was dropped" if ran else "It was not run"
    return f"(A call of {quoted(tool)} stood here. {lost}, since this reply was cut off at the output limit.)"


def failure_text(error: ErrorClass, message: str) -> str:
    """A model call has failed, and the model is told so."""
    told = f": {message}" if message.strip() else ""
    return f"Your last reply could not be completed; the error was {error.value}{told}. Go on with the task."


def repetition_text(tool: str) -> str:
    """The model calls the same tool in the same way again and again."""
    return f"You keep calling {quoted(tool)} with similar input. Look at what you have, and do something else next."


def disabled_text(tool: str) -> str:
    """The tool is not offered for some rounds, since the model repeats itself."""
    return f"{quoted(tool)} is not available for now, since it was called again and again. Do it another way."
