"""What the user of a scenario does, as deltas, and deltas as what a user does: a row for each pair, both ways."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar, final

from attrs import frozen

from loopkernel.data import thread_deltas
from loopkernel.data import user_deltas as said
from loopkernel.data.blocks import TextBlock, UserBlock, text_of
from loopkernel.data.deltas import Delta
from loopkernel.data.ids import CallId, MessageId, QueueNumber
from loopkernel.data.json_text import Json
from loopkernel.testing.scenarios.data import actions
from loopkernel.testing.scenarios.player.call_names import CallNames

A = TypeVar("A")
D = TypeVar("D")

NOBODYS = 1_000_000  # the number of a message that the user never sent


@final
@frozen
class Naming:
    """What a scenario calls a call, and which of the user's messages one is, from 1 (0: none of them)."""

    name: Callable[[CallId], str]
    number: Callable[[MessageId], int]


@final
@frozen
class Twin(Generic[A, D]):
    """An action and the delta that it is; calls and messages that nobody made get ids that nobody has."""

    action: type[A]
    delta: type[D]
    to_delta: Callable[[A, CallNames], Delta]
    to_action: Callable[[D, Naming], actions.UserAction]


def _content(text: str) -> tuple[UserBlock, ...]:
    return (TextBlock(text),)


def _text(content: tuple[UserBlock, ...]) -> str:
    return text_of(content) or "..."


def _remembrance(action: actions.Approve) -> said.Remembrance | None:
    match action.remember:
        case None:
            return None
        case actions.Remember.CALL:
            return said.RememberCall()
        case actions.Remember.TOOL:
            return said.RememberTool()
        case actions.Remember.PATTERN:
            return said.RememberPattern(action.pattern)


def _approval(delta: said.Approve, naming: Naming) -> actions.Approve:
    call, remember = naming.name(delta.call), delta.remember
    if isinstance(remember, said.RememberPattern):
        return actions.Approve(call=call, remember=actions.Remember.PATTERN, pattern=remember.fields)
    if remember is None:
        return actions.Approve(call=call)
    by_tool = isinstance(remember, said.RememberTool)
    return actions.Approve(call=call, remember=actions.Remember.TOOL if by_tool else actions.Remember.CALL)


def _answered(delta: said.AnswerQuestion, naming: Naming) -> actions.UserAction:
    """A question that is declined is rejected."""
    call = naming.name(delta.call)
    return actions.Reject(call=call) if delta.value is None else actions.Answer(call=call, value=delta.value.value())


TWINS: tuple[Twin[Any, Any], ...] = (  # Any: each row has two classes of its own, which it is checked by
    Twin(
        actions.Say,
        said.Say,
        lambda action, _: said.Say(content=_content(action.text)),
        lambda delta, _: actions.Say(_text(delta.content)),
    ),
    Twin(
        actions.Enqueue,
        said.Enqueue,
        lambda action, _: said.Enqueue(content=_content(action.text)),
        lambda delta, _: actions.Enqueue(_text(delta.content)),
    ),
    Twin(
        actions.Steer,
        said.Steer,
        lambda action, _: said.Steer(content=_content(action.text)),
        lambda delta, _: actions.Steer(_text(delta.content)),
    ),
    Twin(
        actions.Discard,
        said.Discard,
        lambda action, _: said.Discard(None if action.number is None else QueueNumber(action.number)),
        lambda delta, _: actions.Discard(delta.queued),
    ),
    Twin(
        actions.Edit,
        said.EditMessage,
        lambda action, names: said.EditMessage(
            message=names.message_sent(action.message), content=_content(action.text)
        ),
        lambda delta, naming: actions.Edit(naming.number(delta.message) or NOBODYS, _text(delta.content)),
    ),
    Twin(
        actions.Approve,
        said.Approve,
        lambda action, names: said.Approve(call=names.call_named(action.call), remember=_remembrance(action)),
        _approval,
    ),
    Twin(
        actions.Reject,
        said.Reject,
        lambda action, names: said.Reject(call=names.call_named(action.call), why=action.why or ""),
        lambda delta, naming: actions.Reject(call=naming.name(delta.call), why=delta.why or None),
    ),
    Twin(
        actions.Correct,
        said.Correct,
        lambda action, names: said.Correct(call=names.call_named(action.call), input=Json.of(action.input)),
        lambda delta, naming: actions.Correct(call=naming.name(delta.call), input=delta.input.value()),
    ),
    Twin(
        actions.Swap,
        said.Swap,
        lambda action, names: said.Swap(
            call=names.call_named(action.call), tool=action.tool, input=Json.of(action.input)
        ),
        lambda delta, naming: actions.Swap(call=naming.name(delta.call), tool=delta.tool, input=delta.input.value()),
    ),
    Twin(
        actions.Answer,
        said.AnswerQuestion,
        lambda action, names: said.AnswerQuestion(call=names.call_named(action.call), value=Json.of(action.value)),
        _answered,
    ),
    Twin(
        actions.AfterCrash,
        said.AnswerAfterCrash,
        lambda action, names: said.AnswerAfterCrash(
            call=names.call_named(action.call),
            kind=said.CrashAnswerKind(action.verdict.value),
            text=action.text or "",
        ),
        lambda delta, naming: actions.AfterCrash(
            call=naming.name(delta.call),
            verdict=actions.CrashVerdict(delta.kind.value),
            text=delta.text or None,
        ),
    ),
    Twin(
        actions.Cancel,
        said.CancelCall,
        lambda action, names: (
            said.CancelAll() if action.call is None else said.CancelCall(names.call_named(action.call))
        ),
        lambda delta, naming: actions.Cancel(naming.name(delta.call)),
    ),
    Twin(actions.RetryNow, said.RetryNow, lambda *_: said.RetryNow(), lambda *_: actions.RetryNow()),
    Twin(actions.DismissError, said.DismissError, lambda *_: said.DismissError(), lambda *_: actions.DismissError()),
    Twin(actions.CompactNow, said.CompactNow, lambda *_: said.CompactNow(), lambda *_: actions.CompactNow()),
    Twin(
        actions.ChangeMode,
        said.ChangeMode,
        lambda action, _: said.ChangeMode(action.mode),
        lambda delta, _: actions.ChangeMode(delta.mode),
    ),
    Twin(
        actions.Permit,
        said.Permit,
        lambda action, _: said.Permit(action.rule),
        lambda delta, _: actions.Permit(delta.rule),
    ),
    Twin(
        actions.Forget,
        said.Forget,
        lambda action, _: said.Forget(action.remembered),
        lambda delta, _: actions.Forget(delta.remembered),
    ),
    Twin(
        actions.StartHandoff,
        said.StartHandoff,
        lambda action, _: said.StartHandoff(action.goal),
        lambda delta, _: actions.StartHandoff(delta.goal),
    ),
    Twin(
        actions.Dispose,
        thread_deltas.Disposed,
        lambda *_: thread_deltas.Disposed(),
        lambda *_: actions.Dispose(),
    ),
)
# Deltas that are told as an action without being it alone: the process dies, a lineage begins.
_ALSO_TOLD: dict[type, actions.UserAction] = {
    said.CancelAll: actions.Cancel(None),
    thread_deltas.Forked: actions.Fork(),
    thread_deltas.Resumed: actions.Crash(),
}
_BY_ACTION = {twin.action: twin for twin in TWINS}
_BY_DELTA = {twin.delta: twin for twin in TWINS}


def delta_of(action: actions.UserAction, names: CallNames) -> Delta:
    """The delta that the action is. A few are more than that, and the drive's: those have no twin."""
    delta: Delta = _BY_ACTION[type(action)].to_delta(action, names)
    return delta


def action_for(delta: Delta, naming: Naming) -> actions.UserAction | None:
    """The action that sends the delta; None where the format has none."""
    twin = _BY_DELTA.get(type(delta))
    return _ALSO_TOLD.get(type(delta)) if twin is None else twin.to_action(delta, naming)
