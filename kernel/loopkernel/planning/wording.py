"""The sentences that the kernel itself says to the model."""

from typing import assert_never

from loopkernel.data.errors import quoted
from loopkernel.data.words import CancelReason

NUDGE = "Your last reply was empty. Go on with the task, or say in a sentence what stops you."
STOPPED_REPLY = "(The reply before this message was stopped before it was complete.)"
LOST = "The result of this call was never recorded. Whether the call had an effect is not known."
NO_RESULT = "The tool stopped without a result."
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
            return "Not run: the reply ended in a way that starts no calls."
        case _:
            assert_never(reason)


def unknown_tool_text(tool: str) -> str:
    """The model called what is not offered."""
    return f"There is no tool named {quoted(tool)}. Use one of the tools that are offered."


def invalid_call_text(tool: str, why: str) -> str:
    """The model called a tool in a way that the tool does not allow."""
    return f"The input of this call of {quoted(tool)} is not valid: {why}. Correct it and call again."


def denied_text(tool: str) -> str:
    """Policy forbids the call."""
    return f"This call of {quoted(tool)} is denied by policy. Do it another way, or tell the user."


def not_supported_text(tool: str, need: str) -> str:
    """The call would need a phase of the loop that is not built."""
    return f"This call of {quoted(tool)} was not run: {need} is not supported. Do it another way, or tell the user."


def stopped_to_ask_text(tool: str, question: str) -> str:
    """A running tool asked a question that nobody can be shown."""
    return f"{quoted(tool)} was stopped: it asked {quoted(question)}, and questions from tools are not supported."
