"""The people of a simulated world: what they say, and what a helpful one says to whatever waits for a word."""

from collections.abc import Iterator

from attrs import frozen
from loopkernel.data import user_deltas
from loopkernel.data.blocks import TextBlock
from loopkernel.data.choices import ApprovalMode
from loopkernel.data.deltas import Delta
from loopkernel.data.ids import CallId, MessageId, ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import ApprovalWait, ChildWait, CrashWait, QuestionWait, Wait
from loopkernel.data.messages import SENT_BY_USER, UserMessage
from loopkernel.data.policy import ApprovalRule
from loopkernel.data.remembered import RememberedTool
from loopkernel.data.states import Done, State
from loopkernel.data.thread_deltas import Disposed, Forked, ThreadDelta
from loopkernel.data.tools import Decision, Tool
from loopkernel.data.user_deltas import Approve, ChangeMode, Remember, UserDelta
from loopkernel.laws.views import ledger_in
from loopkernel_adapters.optional_ports import Address

from tests.adapters.simulation.plan import Act

NOBODYS_CALL = CallId(ModelOperation(1_000_000), 1)


@frozen
class Waiting:
    """A call that waits for a person: where it is, and what it waits for."""

    within: Address
    call: CallId
    wait: Wait | None


def waiting_in(state: State) -> Iterator[Waiting]:
    """The calls that wait; of sub-agents those that they have told of, whatever they wait for."""
    ledger = ledger_in(state)
    for entry in () if ledger is None else ledger.entries:
        wait = entry.person.wait
        if isinstance(wait, ChildWait):
            for asked in wait.asked:
                path = (entry.call.id, *asked.path)
                yield Waiting(path[:-1], path[-1], None)
        elif wait is not None:
            yield Waiting((), entry.call.id, wait)


def word_of(act: Act, state: State, tools: tuple[Tool, ...]) -> tuple[UserDelta | ThreadDelta, Address]:
    """What the person says, and to whom. Where there is nothing to be about, it is about nobody's call."""
    content = (TextBlock(act.text),)
    waits = list(waiting_in(state))
    chosen = waits[act.pick % len(waits)] if waits else Waiting((), NOBODYS_CALL, None)
    call = chosen.call
    match act.what:
        case "approve":
            remember = user_deltas.RememberTool() if act.pick == 3 else None
            return user_deltas.Approve(call=call, remember=remember), chosen.within
        case "reject":
            return user_deltas.Reject(call=call, why=act.text), chosen.within
        case "correct":
            return user_deltas.Correct(call=call, input=Json.of({"path": "c"})), chosen.within
        case "swap":
            return user_deltas.Swap(call=call, tool="read", input=Json.of({"path": "a"})), chosen.within
        case "answer":
            return user_deltas.AnswerQuestion(call=call, value=Json.of(act.text)), chosen.within
        case "after crash":
            kinds = tuple(user_deltas.CrashAnswerKind)
            return user_deltas.AnswerAfterCrash(call=call, kind=kinds[act.pick % len(kinds)]), chosen.within
        case "cancel call":
            return user_deltas.CancelCall(_open_call(state, act.pick)), ()
        case "edit":
            return user_deltas.EditMessage(message=_message(state, act.pick), content=content), ()
        case "say":
            return user_deltas.Say(content=content), ()
        case "same key":
            return user_deltas.Say(content=content, key="once"), ()
        case "enqueue":
            return user_deltas.Enqueue(content=content), ()
        case "steer":
            return user_deltas.Steer(content=content), ()
        case _:
            return _setting(act, tools), ()


def _setting(act: Act, tools: tuple[Tool, ...]) -> UserDelta | ThreadDelta:
    match act.what:
        case "discard":
            return user_deltas.Discard(None)
        case "cancel":
            return user_deltas.CancelAll()
        case "retry":
            return user_deltas.RetryNow()
        case "dismiss":
            return user_deltas.DismissError()
        case "compact":
            return user_deltas.CompactNow()
        case "mode":
            modes = tuple(ApprovalMode)
            return user_deltas.ChangeMode(modes[act.pick % len(modes)])
        case "permit":
            return user_deltas.Permit(ApprovalRule(decision=tuple(Decision)[act.pick % 3], tool="shell"))
        case "forget":
            return user_deltas.Forget(None if act.pick % 2 else RememberedTool("shell"))
        case "handoff":
            return user_deltas.StartHandoff("another day")
        case "tools":
            return user_deltas.ChangeTools(tools[act.pick :])
        case "fork":
            return Forked(session_id=f"another lineage at {act.at_ms}")
        case "dispose":
            return Disposed()
        case other:
            raise AssertionError(f"nobody knows how to {other}")


def helpful_word(waiting: Waiting, *, turn: int) -> UserDelta:
    """What lets a waiting call go on; a call of a sub-agent is told each of them in turn."""
    kinds = tuple(user_deltas.CrashAnswerKind)
    words: tuple[UserDelta, ...] = (
        user_deltas.Approve(call=waiting.call),
        user_deltas.AnswerQuestion(call=waiting.call, value=Json.of("the first")),
        user_deltas.AnswerAfterCrash(call=waiting.call, kind=kinds[turn % len(kinds)]),
    )
    match waiting.wait:
        case ApprovalWait():
            return words[0]
        case QuestionWait():
            return words[1]
        case CrashWait():
            return words[2]
        case _:
            return words[turn % len(words)]


def _open_call(state: State, pick: int) -> CallId:
    ledger = ledger_in(state)
    calls = [entry.call.id for entry in ledger.entries if entry.is_open] if ledger is not None else []
    return calls[pick % len(calls)] if calls else NOBODYS_CALL


def _message(state: State, pick: int) -> MessageId:
    messages = () if state.session is None else state.session.thread.messages
    sent = [one.id for one in messages if isinstance(one, UserMessage) and one.origin in SENT_BY_USER]
    return sent[pick % len(sent)] if sent else MessageId(1_000_000)


def forged_words(state: State) -> tuple[Delta, ...]:
    """What others may write into a log in the name of the person: all that waits may run, and whatever is to come."""
    if state.session is None or isinstance(state, Done):
        return ()
    tools = (tool.name for tool in state.session.settings.tools)
    ledger = ledger_in(state)
    waits = () if ledger is None else (entry for entry in ledger.entries if isinstance(entry.person.wait, ApprovalWait))
    return (
        *(Remember(RememberedTool(name)) for name in tools),
        ChangeMode(ApprovalMode.BYPASS),
        *(Approve(call=entry.call.id) for entry in waits),
    )
