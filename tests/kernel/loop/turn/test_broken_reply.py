"""What is kept of a reply whose stream broke: what is whole, where policy says so; and how the loop goes on."""

import pytest
from attrs import evolve
from loopkernel.data.choices import OnBrokenStream, RunCalls
from loopkernel.data.effects import CallModel
from loopkernel.data.events import MessageAdded
from loopkernel.data.messages import AssistantMessage, UserMessage, UserOrigin
from loopkernel.data.model_deltas import ModelText
from loopkernel.data.policy import Policy, Truncation
from loopkernel.data.states import Idle, Streaming
from loopkernel.data.words import ErrorClass, RequestReason
from loopkernel.loop.algorithms.wording import BROKEN_OFF

from tests.kernel.building import (
    ASKING_NOBODY,
    ONE,
    a,
    asked,
    failed,
    made_call,
    named,
    of_kind,
    starts,
    step,
    text,
)

pytestmark = pytest.mark.rule("INFER-11")
KEEPING = evolve(ASKING_NOBODY, on_broken_stream=OnBrokenStream.KEEP, on_truncation=Truncation(continuations=1))
WHOLE = ModelText(ONE, "This is whole.")


def test_text_that_is_whole_stays_and_the_model_is_prompted_to_go_on() -> None:
    following, effects = step(asked(KEEPING, WHOLE), evolve(failed(ErrorClass.NETWORK), unfinished=0))
    kept, prompt = (added.message for added in of_kind(MessageAdded, effects))
    assert isinstance(kept, AssistantMessage)
    assert kept.content == text("This is whole.")
    assert isinstance(prompt, UserMessage)
    assert (prompt.content, prompt.origin) == (text(BROKEN_OFF), UserOrigin.CONTINUATION)
    (call,) = of_kind(CallModel, effects)
    assert call.request.reason is RequestReason.BROKEN_STREAM_RECOVERY
    assert a(Streaming, following).turn.recovery.continuations == 1


def test_where_no_continuation_is_left_the_failure_is_shown_and_the_text_stays() -> None:
    keeping = evolve(KEEPING, on_truncation=Truncation(continuations=0))
    following, effects = step(asked(keeping, WHOLE), evolve(failed(ErrorClass.NETWORK), unfinished=0))
    assert "ErrorShown" in named(effects)
    assert of_kind(CallModel, effects) == []
    (kept,) = (added.message for added in of_kind(MessageAdded, effects))
    assert a(Idle, following).session.thread.messages[1] == kept


@pytest.mark.parametrize(
    "policy",
    [
        evolve(KEEPING, on_broken_stream=OnBrokenStream.RETRACT),
        evolve(KEEPING, run_calls=RunCalls.STOP_REASON),
    ],
    ids=["retracted", "calls by stop reason"],
)
def test_calls_that_are_not_to_be_kept_go_with_their_reply(policy: Policy) -> None:
    streaming = asked(policy, made_call())
    assert of_kind(MessageAdded, step(streaming, failed(ErrorClass.NETWORK)).effects) == []


def test_calls_that_are_kept_run() -> None:
    _, effects = step(asked(KEEPING, made_call()), failed(ErrorClass.NETWORK))
    assert len(starts(effects)) == 1
