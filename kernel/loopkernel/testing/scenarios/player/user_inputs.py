"""What the user of a scenario does, as deltas."""

from typing import assert_never

from loopkernel.data import thread_deltas, user_deltas
from loopkernel.data.blocks import TextBlock
from loopkernel.data.deltas import Delta
from loopkernel.data.ids import QueueNumber
from loopkernel.data.json_text import Json
from loopkernel.testing.scenarios.data import actions
from loopkernel.testing.scenarios.player.call_names import CallNames

# Actions that are one delta each. The others are the drive's: it delivers a report again, lets the process die,
# begins a lineage, or changes the tools of the world too.
DirectAction = (
    actions.Say
    | actions.Enqueue
    | actions.Steer
    | actions.Discard
    | actions.Edit
    | actions.Approve
    | actions.Reject
    | actions.Correct
    | actions.Swap
    | actions.Answer
    | actions.AfterCrash
    | actions.Cancel
    | actions.RetryNow
    | actions.DismissError
    | actions.CompactNow
    | actions.ChangeMode
    | actions.Permit
    | actions.Forget
    | actions.StartHandoff
    | actions.Dispose
)
Answer = actions.Approve | actions.Reject | actions.Correct | actions.Swap | actions.Answer | actions.AfterCrash


def delta_of(action: DirectAction, names: CallNames) -> Delta:
    """The delta that the action is. Calls and messages that nobody made get ids that nobody has."""
    match action:
        case actions.Say(text):
            return user_deltas.Say(content=(TextBlock(text),))
        case actions.Enqueue(text):
            return user_deltas.Enqueue(content=(TextBlock(text),))
        case actions.Steer(text):
            return user_deltas.Steer(content=(TextBlock(text),))
        case actions.Discard(number):
            return user_deltas.Discard(None if number is None else QueueNumber(number))
        case actions.Edit(number, text):
            return user_deltas.EditMessage(message=names.message_sent(number), content=(TextBlock(text),))
        case actions.Cancel(call):
            if call is None:
                return user_deltas.CancelAll()
            return user_deltas.CancelCall(names.call_named(call))
        case actions.RetryNow():
            return user_deltas.RetryNow()
        case actions.DismissError():
            return user_deltas.DismissError()
        case actions.CompactNow():
            return user_deltas.CompactNow()
        case actions.ChangeMode(mode):
            return user_deltas.ChangeMode(mode)
        case actions.Permit(rule):
            return user_deltas.Permit(rule)
        case actions.Forget(remembered):
            return user_deltas.Forget(remembered)
        case actions.StartHandoff(goal):
            return user_deltas.StartHandoff(goal)
        case actions.Dispose():
            return thread_deltas.Disposed()
        case _:
            return _answer(action, names)


def _answer(action: Answer, names: CallNames) -> Delta:
    """A person's answer about one call."""
    call = names.call_named(action.call)
    match action:
        case actions.Approve():
            return user_deltas.Approve(call=call, remember=_remembrance(action))
        case actions.Reject():
            return user_deltas.Reject(call=call, why=action.why or "")
        case actions.Correct():
            return user_deltas.Correct(call=call, input=Json.of(action.input))
        case actions.Swap():
            return user_deltas.Swap(call=call, tool=action.tool, input=Json.of(action.input))
        case actions.Answer():
            return user_deltas.AnswerQuestion(call=call, value=Json.of(action.value))
        case actions.AfterCrash():
            kind = user_deltas.CrashAnswerKind(action.verdict.value)
            return user_deltas.AnswerAfterCrash(call=call, kind=kind, text=action.text or "")
        case _:
            assert_never(action)


def _remembrance(action: actions.Approve) -> user_deltas.Remembrance | None:
    match action.remember:
        case None:
            return None
        case actions.Remember.CALL:
            return user_deltas.RememberCall()
        case actions.Remember.TOOL:
            return user_deltas.RememberTool()
        case actions.Remember.PATTERN:
            return user_deltas.RememberPattern(action.pattern)
        case _:
            assert_never(action.remember)
