"""Edits: a message of the user is replaced, what follows it leaves the thread, and no input is lost."""

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.choices import ClearMoment
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import AbortTool
from loopkernel.data.events import Edited, InputSettled, Refused, ThreadCut, TurnEnded, WorkCancelled
from loopkernel.data.ids import MessageId, ModelOperation, OperationKind, ReceiptId
from loopkernel.data.json_text import Json
from loopkernel.data.messages import Message, ResultMessage, UserMessage, UserOrigin
from loopkernel.data.model_deltas import ModelOpaque, ModelText
from loopkernel.data.policy import ClearResults, Policy
from loopkernel.data.states import Initial, State, Streaming
from loopkernel.data.thread_deltas import Disposed
from loopkernel.data.user_deltas import Approve, CancelAll, ChangePolicy, EditMessage
from loopkernel.data.words import (
    CallStatus,
    CancelReason,
    InputFate,
    RefusalReason,
    RequestReason,
    StopReason,
    TurnEndReason,
    UserAction,
)
from loopkernel.loop.algorithms.clearing import is_cleared
from loopkernel.loop.turn.editing import cut_from, index_of_input

from tests.kernel.building import (
    ALL_TOOLS,
    ASKING_NOBODY,
    NOTHING,
    ONE,
    TASK,
    TWO,
    a,
    after,
    asked,
    at_rest,
    call_id,
    completed,
    effects_of,
    ends,
    enqueue,
    made_call,
    named,
    of_kind,
    say,
    session_of,
    steer,
    step,
    succeeded,
    text,
    working,
)
from tests.kernel.drafts import drafted, outcome

REST = at_rest()


def spoken(state: State, *words: str) -> State:
    """The user has said these words, one after the other, and each was answered."""
    for word in words:
        state = after(state, say(word))
        reply = a(Streaming, state).reply.operation
        state = after(state, ModelText(reply, f"on {word}"), completed(reply=reply))
    return state


def edit(message: int, words: str = "rather", key: str | None = None) -> EditMessage:
    """The message of that number is replaced."""
    return EditMessage(message=MessageId(message), content=text(words), key=key)


def messages_of(state: State) -> list[Message]:
    """What is in the thread."""
    return list(session_of(state).thread)


# --- edits ------------------------------------------------------------------------------------------------


TALKED = spoken(REST, "one", "two", "three")  # messages 1 to 6


@pytest.mark.rule("INPUT-4")
@pytest.mark.parametrize(("number", "left"), [(1, 0), (3, 2), (5, 4)])
def test_an_edit_at_rest_replaces_the_message_and_drops_what_follows(number: int, left: int) -> None:
    following, effects = step(TALKED, edit(number, key="k"))
    superseded = [InputSettled(ReceiptId(receipt), InputFate.SUPERSEDED) for receipt in range(left // 2 + 1, 4)]
    assert effects[: len(superseded)] == tuple(superseded)
    assert effects[len(superseded) : len(superseded) + 3] == (
        Edited(MessageId(number)),
        ThreadCut(left),
        InputSettled(ReceiptId(4), InputFate.IN_THREAD, "k"),
    )
    assert named(effects)[-2:] == ["MessageAdded", "CallModel"]
    *kept, new = messages_of(following)
    assert kept == messages_of(TALKED)[:left]
    assert (new.id, a(UserMessage, new).content, a(UserMessage, new).origin) == (7, text("rather"), UserOrigin.SAID)
    assert a(Streaming, following).turn.reason is RequestReason.USER
    assert session_of(following).thread.generation == session_of(TALKED).thread.generation + 1


@pytest.mark.rule("INPUT-4")
@pytest.mark.rule("DELTA-2")
@pytest.mark.parametrize("number", [-1, 0, 2, 4, 7, 99])
def test_only_a_message_that_the_user_sent_and_that_is_there_is_edited(number: int) -> None:
    assert index_of_input(session_of(TALKED), MessageId(number)) is None
    assert outcome(cut_from(drafted(session_of(TALKED)), MessageId(number))) == (session_of(TALKED), ())
    for state in (TALKED, after(TALKED, say())):
        unknown = (Refused(UserAction.EDIT, RefusalReason.UNKNOWN),)
        wanted = edit(number if number != 7 or state is TALKED else 8)
        assert effects_of(state, wanted) == unknown


@pytest.mark.rule("INPUT-4")
def test_a_dropped_message_is_unknown_and_what_replaced_it_may_be_edited_again() -> None:
    edited = after(TALKED, edit(3))
    assert [effect.reason for effect in of_kind(Refused, effects_of(edited, edit(5)))] == [RefusalReason.UNKNOWN]
    assert [effect.reason for effect in of_kind(Refused, effects_of(edited, edit(3)))] == [RefusalReason.UNKNOWN]
    again = after(edited, edit(7, "once more"))
    assert [type(found).__name__ for found in messages_of(again)] == ["UserMessage", "AssistantMessage", "UserMessage"]
    assert a(UserMessage, messages_of(again)[-1]).content == text("once more")


@pytest.mark.rule("INPUT-4")
@pytest.mark.rule("INPUT-2")
@pytest.mark.rule("INPUT-3")
def test_the_queue_stays_and_steers_that_did_not_go_in_head_it() -> None:
    state = after(TALKED, say(), enqueue("later"), steer("this way"))
    following, effects = step(state, edit(7))
    assert named(effects) == [
        *("AbortModel", "ReplyAborted", "MessageAdded", "WorkCancelled", "TurnEnded", "InputSettled", "Queued"),
        *("InputSettled", "Edited", "ThreadCut", "InputSettled", "MessageAdded", "CallModel"),
    ]
    assert [queued.content for queued in session_of(following).inbox.queue] == [text("this way"), text("later")]


@pytest.mark.rule("INPUT-4")
@pytest.mark.rule("CANCEL-2")
@pytest.mark.rule("CANCEL-3")
def test_work_in_flight_is_cancelled_as_edited_and_its_reports_are_stale() -> None:
    state = working(made_call(), made_call("asks"), tools=ALL_TOOLS)
    following, effects = step(state, edit(1))
    assert [abort.reason for abort in of_kind(AbortTool, effects)] == [CancelReason.EDITED]
    assert [end[1:] for end in ends(effects)] == [(CallStatus.CANCELLED, CancelReason.EDITED)] * 2
    assert [ended.reason for ended in of_kind(TurnEnded, effects)] == [TurnEndReason.EDITED]
    assert named(effects)[-5:] == ["Edited", "ThreadCut", "InputSettled", "MessageAdded", "CallModel"]
    assert len(messages_of(following)) == 1
    late, refused = step(following, succeeded(1))
    assert named(refused)[0] == "Refused"
    assert messages_of(late) == messages_of(following)
    stale = (Refused(UserAction.APPROVE, RefusalReason.STALE),)
    assert effects_of(following, Approve(call=call_id(2))) == stale


@pytest.mark.rule("TOOL-11")
@pytest.mark.rule("INPUT-4")
@pytest.mark.parametrize("keep", [0, 1, 2])
def test_the_bodies_that_are_dropped_are_counted_no_more(keep: int) -> None:
    policy = evolve(ASKING_NOBODY, clear_results=ClearResults(above=0, keep=keep, when=ClearMoment.EACH_REQUEST))
    state: State = at_rest(policy)
    for reply in (1, 3):
        state = after(state, say(), made_call(reply=reply), made_call(reply=reply, call_input=Json.of({"n": reply})))
        state = after(state, completed(StopReason.TOOL_USE, reply=reply), succeeded(reply), succeeded(reply + 1))
        state = after(state, ModelText(ModelOperation(reply + 1), "a"), completed(reply=reply + 1))
    for number, rounds in ((5, 1), (1, 0)):
        session = session_of(after(state, edit(number)))
        bodies = [
            result
            for found in session.thread
            if isinstance(found, ResultMessage)
            for result in found.results
            if not is_cleared(result)
        ]
        assert session.bodies == len(bodies) <= 2 * rounds
        assert session.bodies_from <= len(session.thread)
        first = next(
            (
                place
                for place, found in enumerate(session.thread)
                if isinstance(found, ResultMessage) and any(not is_cleared(result) for result in found.results)
            ),
            len(session.thread),
        )
        assert session.bodies_from <= first


@pytest.mark.rule("TOOL-20")
@pytest.mark.rule("INPUT-4")
def test_what_ended_in_the_background_is_told_only_where_its_call_still_stands() -> None:
    first = after(working(made_call()), succeeded(1, background=True), ModelText(TWO, "it runs"), completed(reply=2))
    second = after(first, say("and"), succeeded(1, "made"))
    assert len(session_of(second).inbox.background) == 1
    assert session_of(after(second, edit(1), CancelAll())).inbox.background == ()
    told = after(second, edit(5))
    origins = [found.origin for found in messages_of(told) if isinstance(found, UserMessage)]
    assert origins == [UserOrigin.SAID, UserOrigin.SAID, UserOrigin.BACKGROUND_RESULT]


@pytest.mark.rule("INPUT-4")
@pytest.mark.rule("TOOL-20")
def test_an_edit_at_rest_stops_what_runs_in_the_background() -> None:
    rest = after(working(made_call()), succeeded(1, background=True), ModelText(TWO, "it runs"), completed(reply=2))
    following, effects = step(rest, edit(1))
    assert [abort.reason for abort in of_kind(AbortTool, effects)] == [CancelReason.EDITED]
    assert of_kind(WorkCancelled, effects) == []  # at rest nothing is cut short
    assert named(effects)[-5:] == ["Edited", "ThreadCut", "InputSettled", "MessageAdded", "CallModel"]
    assert len(messages_of(following)) == 1


@pytest.mark.rule("INFER-15")
@pytest.mark.rule("INPUT-4")
def test_only_opaque_blocks_that_are_still_there_are_told_of() -> None:
    state: State = after(at_rest(Policy(model="old")), say(), ModelText(ONE, "a"))
    state = after(state, ModelOpaque(ONE, NOTHING), completed())
    other = Policy(model="new")
    state = after(state, ChangePolicy(other), say(), ModelText(TWO, "a"), ModelOpaque(TWO, NOTHING), completed(reply=2))
    assert session_of(state).thread.opaque_models == ("old", "new")
    assert session_of(after(state, edit(3))).thread.opaque_models == ("old",)
    assert session_of(after(state, edit(1))).thread.opaque_models == ()


@pytest.mark.rule("INPUT-4")
@pytest.mark.parametrize("state", [Initial(), after(REST, Disposed()), after(asked(TASK), CancelAll())])
def test_an_edit_needs_an_owner_and_a_run_that_goes_on(state: State) -> None:
    assert effects_of(state, edit(1)) == (Refused(UserAction.EDIT, RefusalReason.NOT_NOW),)


# --- any run that is edited -------------------------------------------------------------------------------


words = st.sampled_from(("a", "b", "c"))

moves = st.lists(st.sampled_from(("say", "queue", "steer", "edit", "answer", "call", "return", "cancel")), max_size=14)


@pytest.mark.rule("INPUT-4")
@given(moves, st.data())
def test_no_input_is_lost_or_reordered_by_an_edit(chosen: list[str], data: st.DataObject) -> None:
    state: State = asked()
    fates: dict[ReceiptId, InputFate] = {ReceiptId(1): InputFate.IN_THREAD}
    for move in chosen:
        state, effects = step(state, moved(state, move, data))
        for settled in of_kind(InputSettled, effects):
            assert fates.get(settled.receipt) is not InputFate.SUPERSEDED
            fates[settled.receipt] = settled.fate
        session = session_of(state)
        shown = [found.receipt for found in session.thread if isinstance(found, UserMessage) and found.receipt]
        queued = [waiting.receipt for waiting in session.inbox.queue]
        waiting = [steer.receipt for steer in session.inbox.steers]
        assert set(fates) == {ReceiptId(number) for number in range(1, session.counters.receipts + 1)}
        for fate, found in (
            (InputFate.IN_THREAD, shown),
            (InputFate.QUEUED, queued),
            (InputFate.WAITING_AS_STEER, waiting),
        ):
            assert sorted(receipt for receipt, known in fates.items() if known is fate) == sorted(found)
        assert waiting == sorted(waiting)


def moved(state: State, move: str, data: st.DataObject) -> Delta:
    """The delta of a move; one that does not apply is refused, and that is well."""
    word = data.draw(words)
    reply = session_of(state).operations.minted[OperationKind.MODEL]
    match move:
        case "say":
            return say(word)
        case "queue":
            return enqueue(word)
        case "steer":
            return steer(word)
        case "edit":
            sent = [found.id for found in session_of(state).thread if isinstance(found, UserMessage)]
            return edit(data.draw(st.sampled_from(sent)), word)
        case "answer":
            return completed(reply=reply)
        case "call":
            return made_call(reply=reply)
        case "return":
            return succeeded(session_of(state).operations.minted[OperationKind.RUN] or 1)
        case _:
            return CancelAll()


@pytest.mark.rule("INPUT-4")
@given(st.lists(words, min_size=1, max_size=4), st.data())
def test_after_an_edit_the_thread_is_that_of_a_run_that_never_went_beyond(said: list[str], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(said) - 1))
    word = data.draw(words)
    beyond = spoken(REST, *said)
    if data.draw(st.booleans()):
        beyond = after(beyond, say(), made_call(reply=len(said) + 1), enqueue("later"), steer("this way"))
    edited = after(beyond, edit(2 * place + 1, word))
    never = after(spoken(REST, *said[:place]), say(word))
    assert without_ids(messages_of(edited)) == without_ids(messages_of(never))
    for state in (edited, never):
        reply = a(Streaming, state).reply.operation
        state = after(state, ModelText(reply, "well"), completed(reply=reply))
        assert without_ids(messages_of(state))[-1:] != []


def without_ids(messages: list[Message]) -> list[tuple[type[Message], object]]:
    """The messages by what they say."""
    return [(type(found), getattr(found, "content", None)) for found in messages]
