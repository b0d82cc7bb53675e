"""What the user of an explored run wants, and the policy that it runs under, in the words of the scenario format."""

import enum
from collections.abc import Callable
from typing import assert_never

import attrs

from loopkernel.data import user_deltas as said
from loopkernel.data.blocks import UserBlock, text_of
from loopkernel.data.choices import NoProfileApproval
from loopkernel.data.deltas import Delta
from loopkernel.data.ids import CallId, MessageId
from loopkernel.data.policy import ApprovalRule, Policy, ResourcePattern
from loopkernel.data.thread_deltas import Disposed, Forked, Resumed
from loopkernel.testing.scenarios.data import actions
from loopkernel.testing.scenarios.data.scenario import PolicyChoice
from loopkernel.testing.scenarios.data.world import JsonValue

NOBODYS = 1_000_000  # the number of a message that the user never sent


def action_for(
    delta: Delta, name: Callable[[CallId], str], number: Callable[[MessageId], int]
) -> actions.UserAction | None:
    """The action that sends the delta; None where the format has none.

    `name` says what the scenario calls a call, `number` which of the user's messages one is, from 1.
    """
    if isinstance(delta, said.EditMessage):
        return actions.Edit(number(delta.message) or NOBODYS, _text(delta.content))
    if isinstance(delta, said.UserDelta):
        return _wish(delta, name)
    if isinstance(delta, Disposed):
        return actions.Dispose()
    if isinstance(delta, Forked):
        return actions.Fork()
    return actions.Crash() if isinstance(delta, Resumed) else None


def _wish(delta: said.UserDelta, name: Callable[[CallId], str]) -> actions.UserAction | None:
    match delta:
        case said.Say():
            return actions.Say(_text(delta.content))
        case said.Enqueue():
            return actions.Enqueue(_text(delta.content))
        case said.Steer():
            return actions.Steer(_text(delta.content))
        case said.Discard():
            return actions.Discard(delta.queued)
        case said.AnswersCall():
            return _answer(delta, name(delta.call))
        case said.CancelAll():
            return actions.Cancel(None)
        case said.CancelCall():
            return actions.Cancel(name(delta.call))
        case said.RetryNow():
            return actions.RetryNow()
        case said.DismissError():
            return actions.DismissError()
        case said.CompactNow():
            return actions.CompactNow()
        case said.StartHandoff():
            return actions.StartHandoff(delta.goal)
        case said.ChangeMode():
            return actions.ChangeMode(delta.mode)
        case said.Permit():
            return actions.Permit(delta.rule)
        case said.Forget():
            return actions.Forget(delta.remembered)
        case (
            said.EditMessage() | said.Remember() | said.ChangePolicy() | said.ChangeTools() | said.ChangeInstructions()
        ):
            return None
        case _:
            assert_never(delta)


def _answer(delta: said.CallAnswer, call: str) -> actions.UserAction:
    match delta:
        case said.Approve():
            return _approval(delta, call)
        case said.Reject():
            return actions.Reject(call=call, why=delta.why or None)
        case said.Correct():
            return actions.Correct(call=call, input=delta.input.value())
        case said.Swap():
            return actions.Swap(call=call, tool=delta.tool, input=delta.input.value())
        case said.AnswerQuestion():
            if delta.value is None:
                return actions.Reject(call=call)
            return actions.Answer(call=call, value=delta.value.value())
        case said.AnswerAfterCrash():
            verdict = actions.CrashVerdict(delta.kind.value)
            return actions.AfterCrash(call=call, verdict=verdict, text=delta.text or None)
        case _:
            assert_never(delta)


def _approval(delta: said.Approve, call: str) -> actions.Approve:
    remember = delta.remember
    if remember is None:
        return actions.Approve(call=call)
    if isinstance(remember, said.RememberPattern):
        return actions.Approve(call=call, remember=actions.Remember.PATTERN, pattern=remember.fields)
    by_tool = isinstance(remember, said.RememberTool)
    return actions.Approve(call=call, remember=actions.Remember.TOOL if by_tool else actions.Remember.CALL)


def _text(content: tuple[UserBlock, ...]) -> str:
    return text_of(content) or "..."


# --- the policy -------------------------------------------------------------------------------------------


def choice_for(policy: Policy) -> PolicyChoice:
    """The options in which the policy differs from what a scenario has by itself. Hooks are left out."""
    usual = Policy(no_profile_approval=NoProfileApproval.ALLOW)
    return PolicyChoice(preset="default", options=_differing(policy, usual, "hooks"))


def _differing(value: object, usual: object, *left_out: str) -> dict[str, JsonValue]:
    """The fields of an attrs object that are not as in another of its class."""
    found: dict[str, JsonValue] = {}
    for field in attrs.fields(type(value)):  # type: ignore[arg-type]  # a policy, or a part of one: attrs classes
        mine = getattr(value, field.name)
        if mine == getattr(usual, field.name) or field.name in left_out:
            continue
        if mine is None and field.name.startswith("keep_"):
            continue  # another measure of what is kept is given instead
        found[field.name] = _option(mine)
    return found


def _option(value: object) -> JsonValue:
    """A part of a policy as the document has it."""
    if isinstance(value, enum.Enum):
        return str(value.value)
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, ApprovalRule):
        fields: dict[str, JsonValue] = {part.field: part.pattern for part in value.input}
        about: dict[str, JsonValue] = {"resources": _option(value.resources)} if value.resources else {}
        return {"decision": value.decision.value, "tool": value.tool, "input": fields, **about}
    if isinstance(value, ResourcePattern):
        return {"pattern": value.pattern, **({} if value.mode is None else {"mode": value.mode.value})}
    if isinstance(value, tuple):
        return [_option(part) for part in value]
    return _differing(value, type(value)())
