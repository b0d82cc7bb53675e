"""A refused reply that is asked for again, and what a guardrail redacts."""

import pytest
from attrs import evolve
from hypothesis import strategies as st
from loopkernel.data.blocks import TextBlock, ToolCall
from loopkernel.data.choices import Redacts
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import AbortTool, CallModel
from loopkernel.data.events import MessageReplaced, ThreadCut
from loopkernel.data.messages import AssistantMessage, Message, UserMessage, UserOrigin
from loopkernel.data.model_deltas import ModelCompleted, ModelReasoning, ModelText, Redaction
from loopkernel.data.states import State, Streaming
from loopkernel.data.tools import EffectClass, ToolProfile
from loopkernel.data.user_deltas import CancelAll, ChangePolicy, ChangeTools, RetryNow
from loopkernel.data.words import CancelReason, ErrorClass, RequestReason, StopReason, TurnEndReason
from loopkernel.loop.turn.editing import cut_refused_reply, redact_input, redacted_reply

from tests.kernel.building import (
    ALL_TOOLS,
    ASKING_NOBODY,
    NOTHING,
    ONE,
    TWO,
    a,
    after,
    asked,
    at_rest,
    completed,
    effects_of,
    failed,
    made_call,
    named,
    of_kind,
    reads,
    say,
    session_of,
    step,
    succeeded,
    text,
    writes,
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


def messages_of(state: State) -> list[Message]:
    """What is in the thread."""
    return list(session_of(state).thread)


TALKED = spoken(REST, "one", "two", "three")  # messages 1 to 6

words = st.sampled_from(("a", "b", "c"))

# --- a refusal that is asked again ------------------------------------------------------------------------


@pytest.mark.rule("INFER-10")
@pytest.mark.rule("RETRY-5")
@pytest.mark.parametrize("streamed", [True, False])
def test_the_users_retry_drops_the_refused_reply_and_asks_again(streamed: bool) -> None:
    pieces = (ModelText(ONE, "no"),) if streamed else ()
    state = after(asked(ASKING_NOBODY, *pieces), completed(StopReason.REFUSAL))
    following, effects = step(state, RetryNow())
    retracted = ["ReplyRetracted"] if streamed else []
    assert named(effects) == ["ErrorCleared", *retracted, "ThreadCut", "CallModel"]
    (call,) = of_kind(CallModel, effects)
    assert call.request.reason is RequestReason.ERROR_RETRY
    assert [type(found).__name__ for found in messages_of(following)] == ["UserMessage"]


@pytest.mark.rule("INFER-10")
@pytest.mark.rule("TOOL-15")
def test_the_calls_of_the_refused_reply_go_with_it() -> None:
    state = after(asked(ASKING_NOBODY, made_call(), made_call()), completed(StopReason.REFUSAL))
    assert [type(found).__name__ for found in messages_of(state)][1:] == ["AssistantMessage", "ResultMessage"]
    following, effects = step(state, RetryNow())
    assert of_kind(ThreadCut, effects) == [ThreadCut(1)]
    assert len(messages_of(following)) == 1
    assert session_of(following).bodies == 0


@pytest.mark.rule("INFER-10")
def test_only_the_last_reply_is_dropped_and_only_if_it_was_refused() -> None:
    refused = after(asked(ASKING_NOBODY, ModelText(ONE, "no")), completed(StopReason.REFUSAL))
    cancelled = after(refused, say("please"), CancelAll())  # another turn has ended otherwise
    assert messages_of(after(cancelled, RetryNow())) == messages_of(cancelled)
    for state in (  # nothing of the reply is in the thread
        after(asked(), failed(ErrorClass.REFUSED)),
        after(TALKED, say(), failed(ErrorClass.REFUSED, reply=4)),
        after(refused, say("please"), failed(ErrorClass.REFUSED, reply=2)),
    ):
        assert session_of(state).last_end is TurnEndReason.REFUSAL
        before = messages_of(state)
        assert messages_of(after(state, RetryNow())) == before
    talked = session_of(after(TALKED, say()))
    assert outcome(cut_refused_reply(drafted(talked))) == (talked, ())
    empty = session_of(REST)
    assert outcome(cut_refused_reply(drafted(empty))) == (empty, ())
    natural = session_of(TALKED)
    assert outcome(cut_refused_reply(drafted(natural))) == (natural, ())


@pytest.mark.rule("INFER-10")
@pytest.mark.rule("TOOL-9")
@pytest.mark.parametrize("tool", ["early_write", "early_read"])
def test_a_refused_reply_that_has_had_an_effect_stays(tool: str) -> None:
    state = asked(ASKING_NOBODY, made_call(tool, writes("a")), succeeded(1), tools=ALL_TOOLS)
    refused = after(state, completed(StopReason.REFUSAL))
    following, effects = step(refused, RetryNow())
    kept = tool == "early_write"
    assert ("ThreadCut" in named(effects)) is not kept
    assert messages_of(following) == (messages_of(refused) if kept else messages_of(refused)[:1])
    assert len(session_of(following).watch.calls) == (1 if kept else 0)


@pytest.mark.rule("INFER-10")
@pytest.mark.rule("TOOL-9")
def test_one_call_that_has_had_an_effect_keeps_the_refused_reply_though_another_had_none() -> None:
    calls = made_call("early_read", reads("a")), succeeded(1), made_call("early_write", writes("b")), succeeded(2)
    refused = after(asked(ASKING_NOBODY, *calls, tools=ALL_TOOLS), completed(StopReason.REFUSAL))
    assert messages_of(after(refused, RetryNow())) == messages_of(refused)


@pytest.mark.rule("INFER-10")
def test_a_refused_reply_that_stayed_is_not_dropped_for_a_later_reply_that_left_nothing() -> None:
    early = made_call("early_write", writes("a")), succeeded(1)
    refused = after(asked(ASKING_NOBODY, *early, tools=ALL_TOOLS), completed(StopReason.REFUSAL), RetryNow())
    again = after(refused, made_call(reply=2), completed(StopReason.TOOL_USE, reply=2), succeeded(2))
    reading = tuple(evolve(tool, profile=ToolProfile(effect=EffectClass.READ_ONLY)) for tool in ALL_TOOLS)
    state = after(again, failed(ErrorClass.REFUSED, reply=3), ChangeTools(tools=reading))
    assert session_of(state).last_end is TurnEndReason.REFUSAL
    assert messages_of(after(state, RetryNow())) == messages_of(state)


@pytest.mark.rule("INFER-10")
@pytest.mark.rule("TOOL-20")
def test_what_the_refused_reply_runs_in_the_background_is_stopped() -> None:
    state = asked(ASKING_NOBODY, made_call("early_read"), succeeded(1, background=True), tools=ALL_TOOLS)
    effects = effects_of(after(state, completed(StopReason.REFUSAL)), RetryNow())
    assert [abort.reason for abort in of_kind(AbortTool, effects)] == [CancelReason.SUPERSEDED]
    assert named(effects)[-2:] == ["ThreadCut", "CallModel"]


# --- a guardrail ------------------------------------------------------------------------------------------


def guarded(redaction: Redaction | None, *pieces: Delta, stop: StopReason = StopReason.GUARDRAIL_INTERVENED) -> Delta:
    """The reply has stopped, and a guardrail redacts it."""
    return ModelCompleted(ONE, stop, redaction=redaction)


@pytest.mark.rule("INFER-10")
@pytest.mark.parametrize("user_text", [None, "[removed]"])
@pytest.mark.parametrize("reply_text", [None, "", "[withheld]"])
def test_a_guardrail_may_redact_the_last_user_message_and_the_reply(
    user_text: str | None, reply_text: str | None
) -> None:
    state = asked(ASKING_NOBODY, ModelReasoning(ONE, "hm"), ModelText(ONE, "secret"), made_call())
    following, effects = step(state, guarded(Redaction(user_text, reply_text)))
    user, reply = messages_of(following)[:2]
    assert a(UserMessage, user).content == text("hello" if user_text is None else user_text)
    content = a(AssistantMessage, reply).content
    if reply_text is None:
        assert [type(block).__name__ for block in content] == ["ReasoningBlock", "TextBlock", "ToolCall"]
    else:
        assert content[0] == TextBlock(reply_text)
        assert [block.input for block in content[1:] if isinstance(block, ToolCall)] == [NOTHING]
    replaced = [] if user_text is None else [MessageReplaced(a(UserMessage, user))]
    assert of_kind(MessageReplaced, effects) == replaced
    assert session_of(following).thread.generation == session_of(state).thread.generation + len(replaced)
    assert session_of(following).last_end is TurnEndReason.GUARDRAIL


@pytest.mark.rule("INFER-10")
def test_what_the_kernel_said_in_the_users_place_is_not_the_users_message() -> None:
    state = asked(ASKING_NOBODY, completed())  # the empty reply is nudged
    assert a(UserMessage, messages_of(state)[-1]).origin is UserOrigin.NUDGE
    redacted = after(state, ModelCompleted(TWO, StopReason.GUARDRAIL_INTERVENED, redaction=Redaction("[removed]")))
    users = [found.content for found in messages_of(redacted) if isinstance(found, UserMessage)]
    assert users[0] == text("[removed]")
    assert users[1] != text("[removed]")


@pytest.mark.rule("INFER-10")
def test_where_the_user_sent_nothing_there_is_nothing_to_redact() -> None:
    session = session_of(REST)
    assert outcome(redact_input(drafted(session), Redaction("[removed]"))) == (session, ())
    assert outcome(redact_input(drafted(session), None)) == (session, ())
    last = session_of(after(REST, ChangePolicy(evolve(ASKING_NOBODY, redacts=Redacts.LAST_MESSAGE))))
    assert outcome(redact_input(drafted(last), Redaction("[removed]"))) == (last, ())
    assert redacted_reply((TextBlock("a"),), None) == (TextBlock("a"),)
