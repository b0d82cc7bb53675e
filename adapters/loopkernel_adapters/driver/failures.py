"""What an adapter raises, as a delta: one function for each port. And what stops nothing.

The adapters classify what they know; this is the net under them, so that nothing an adapter raises can end a run. The
other way round, a run that ended by a failure is raised to the caller where the policy says so.
"""

import asyncio
import traceback
from typing import TypeAlias, assert_never

from loopkernel.data.blocks import TextBlock
from loopkernel.data.choices import OnError
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import (
    AskHook,
    CallModel,
    CheckCall,
    CheckCorrection,
    HandOff,
    StartChild,
    StartTool,
    Summarise,
    TellHook,
)
from loopkernel.data.model_deltas import ModelFailed
from loopkernel.data.outside_deltas import (
    ChildEnded,
    CorrectionAnswered,
    HandoffFailed,
    HookAnswered,
    HookFault,
    SummaryFailed,
)
from loopkernel.data.states import Done, State
from loopkernel.data.tool_deltas import ToolChecked, ToolFailed
from loopkernel.data.tools import InvalidCall, ToolOutput
from loopkernel.data.words import ErrorClass, TurnEndReason

from loopkernel_adapters.bounded_text import beginning
from loopkernel_adapters.optional_ports import SummaryError
from loopkernel_adapters.ports import RunFailed, ToolError
from loopkernel_adapters.secrets import Secrets

# What a task, or an activity, can carry out by itself.
Errand: TypeAlias = CallModel | CheckCall | StartTool | AskHook | TellHook | CheckCorrection | Summarise | HandOff
LONGEST_MESSAGE = 2_000  # characters of an exception's own words; what is longer is cut


def model_failure(command: CallModel, error: BaseException) -> ModelFailed:
    """A model call that raised. Only what surely comes from the network is classed as retryable."""
    match error:
        case TimeoutError():
            error_class = ErrorClass.STALLED
        case ConnectionError() | EOFError():
            error_class = ErrorClass.NETWORK
        case _:
            error_class = ErrorClass.UNKNOWN
    return ModelFailed(operation=command.operation, error=error_class, message=words_of(error))


def tool_failure(command: StartTool, error: BaseException) -> ToolFailed:
    """A tool run that raised. A ToolError speaks for itself; of anything else the type is shown too."""
    if not isinstance(error, ToolError):
        words = f"{command.tool} failed: {words_of(error)}"
        return ToolFailed(command.operation, ToolOutput(content=(TextBlock(words),)))
    said = (TextBlock(spoken(error)),)
    return ToolFailed(command.operation, ToolOutput(content=said, final=error.final, stops_loop=error.stops_loop))


def check_failure(command: CheckCall, error: BaseException) -> ToolChecked:
    """A check that raised: a call that cannot be judged does not run."""
    why = f"the input could not be checked: {words_of(error)}"
    return ToolChecked(command.operation, InvalidCall(why))


def hook_failure(command: AskHook, error: BaseException) -> HookAnswered:
    """A hook that raised. What that means is the policy's to say."""
    return HookAnswered(command.operation, HookFault(f"the hook {command.context.name} failed: {words_of(error)}"))


def correction_failure(command: CheckCorrection, secrets: Secrets, error: BaseException) -> CorrectionAnswered:
    """A correction that raised: nothing is corrected, and whoever looks after the program is told."""
    complain("the course correction failed; nothing is corrected", error, secrets)
    return CorrectionAnswered(command.operation, None)


def summary_failure(command: Summarise, error: BaseException) -> SummaryFailed:
    """A summariser that raised. What a failed summary has used was billed all the same."""
    if isinstance(error, SummaryError):
        return SummaryFailed(command.operation, spoken(error), error.usage)
    return SummaryFailed(command.operation, words_of(error))


def child_failure(command: StartChild, error: BaseException) -> ChildEnded:
    """A sub-agent that could not be started, or could not go on."""
    return ChildEnded(operation=command.operation, reason=TurnEndReason.ERROR, text=words_of(error))


def handoff_failure(command: HandOff, error: BaseException) -> HandoffFailed:
    """A handoff that raised: there is no new thread."""
    return HandoffFailed(command.operation, words_of(error))


def failure_of(command: Errand, error: BaseException) -> Delta | None:
    """What a command is reported as that could not be carried out at all; None: no report is owed."""
    match command:
        case CallModel():
            return model_failure(command, error)
        case CheckCall():
            return check_failure(command, error)
        case StartTool():
            return tool_failure(command, error)
        case AskHook():
            return hook_failure(command, error)
        case CheckCorrection():
            return CorrectionAnswered(command.operation, None)
        case Summarise():
            return summary_failure(command, error)
        case HandOff():
            return handoff_failure(command, error)
        case TellHook():
            return None
        case _:
            assert_never(command)


def failure_to_raise(state: State) -> RunFailed | None:
    """What the policy `raise` wants raised of a run that is over (rule RETRY-7): the error that it ended with, if any.

    A user who dismissed the error, or a run that ended otherwise, leaves none.
    """
    if not isinstance(state, Done) or state.reason is not TurnEndReason.ERROR:
        return None
    session = state.session
    if session.error is None or session.settings.policy.on_error is not OnError.RAISE:
        return None
    return RunFailed(session.error.error, session.error.message)


def interrupted(error: BaseException) -> RuntimeError:
    """What a driver has stopped with that an exit of the program has hit in the midst of a step."""
    failure = RuntimeError(
        f"the driver was interrupted in the midst of a step ({type(error).__name__}), so nothing more is started; "
        "open the log again to go on"
    )
    failure.__cause__ = error
    return failure


def words_of(error: BaseException, secrets: Secrets | None = None) -> str:
    """The exception's type and message, bounded; without these secrets, or else those in force."""
    name, message = type(error).__name__, spoken(error)
    message = beginning(message, LONGEST_MESSAGE, f"... ({len(message)} characters)", secrets)
    return f"{name}: {message}" if message else name


def spoken(error: BaseException) -> str:
    """The exception's message. Asking a hostile exception for it may fail too."""
    try:
        return str(error)
    except Exception:
        return "(its message cannot be read)"


def complain(what: str, error: BaseException, secrets: Secrets) -> None:
    """Tell the event loop's exception handler about a fault that stops nothing, without the values of secrets."""
    shown = "".join(traceback.format_exception(error))
    if secrets.hide(shown) != shown:  # in its words, or in those of what caused it
        error = RuntimeError(secrets.hide(words_of(error, secrets)))
    asyncio.get_running_loop().call_exception_handler({"message": what, "exception": error})
