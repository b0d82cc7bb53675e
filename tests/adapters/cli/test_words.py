"""The words of a run for its reader: failures, retries, limits, cancels; what happened, and what to do next."""

import pytest
from attrs import evolve
from loopkernel.data import events
from loopkernel.data.blocks import TextBlock
from loopkernel.data.children import ChildCall
from loopkernel.data.choices import OnError
from loopkernel.data.events import Event
from loopkernel.data.ids import CallId, MessageId, ModelOperation, QueueNumber
from loopkernel.data.messages import UserMessage
from loopkernel.data.model_deltas import ModelFailed
from loopkernel.data.outside_deltas import TimerFired
from loopkernel.data.policy import Policy, Prices, Retry
from loopkernel.data.states import Backoff, Initial, State, Streaming
from loopkernel.data.steps import Context
from loopkernel.data.thread_deltas import Acquired, Created
from loopkernel.data.user_deltas import Say
from loopkernel.data.words import CancelReason, ErrorClass, LimitName, TurnEndReason
from loopkernel.loop.transition import transition
from loopkernel_adapters.cli.trace import labelled
from loopkernel_adapters.cli.words import ADVICE, CANCELS, FAILURES, MOST_TOLD, limit_told, retry_told, tokens_told

NOWHERE = Initial()
REPLY = ModelOperation(1)
CALL = CallId(ModelOperation(2), 1)
NOTE = UserMessage(id=MessageId(9), content=(TextBlock("the gist"),))
COMPACTED = events.ThreadCompacted(opening=None, note=NOTE, first=MessageId(7))


def retries_told(policy: Policy) -> list[str]:
    """What is told of each retry, when every request fails, up to the last one."""
    state: State = Initial()
    told: list[str] = []
    now_ms, request = 0, 1
    for delta in (Created(session_id="s", policy=policy), Acquired(), Say(content=(TextBlock("go"),))):
        state = transition(state, Context(delta, now_ms)).next
    while True:
        failed = ModelFailed(operation=ModelOperation(request), error=ErrorClass.OVERLOADED)
        state, effects = transition(state, Context(failed, now_ms))
        told += [retry_told(effect, state) for effect in effects if isinstance(effect, events.RetryScheduled)]
        if isinstance(state, Backoff):
            now_ms = state.timer.deadline_ms
            state = transition(state, Context(TimerFired(state.timer.operation), now_ms)).next
        if not isinstance(state, Streaming):
            return told
        request += 1


@pytest.mark.rule("RETRY-2")
def test_a_retry_is_told_with_all_that_is_still_to_come() -> None:
    assert retries_told(Policy()) == [
        "retrying in 5 s (retry 1 of 5), then 10 s, 20 s, 40 s, 60 s, then the error is shown",
        "retrying in 10 s (retry 2 of 5), then 20 s, 40 s, 60 s, then the error is shown",
        "retrying in 20 s (retry 3 of 5), then 40 s, 60 s, then the error is shown",
        "retrying in 40 s (retry 4 of 5), then 60 s, then the error is shown",
        "retrying in 60 s (retry 5 of 5), then the error is shown",
    ]


@pytest.mark.rule("RETRY-6")
def test_the_models_that_are_asked_in_turn_are_told_too() -> None:
    policy = Policy(retry=Retry(base_ms=1_500, retries=1), model="large", fallback_models=("small",))
    assert retries_told(policy) == [
        "retrying in 1.5 s (retry 1 of 1), then model small: 1.5 s, then the error is shown",
        "retrying in 1.5 s (retry 1 of 1), then the error is shown",
    ]
    assert retries_told(evolve(policy, on_error=OnError.FEED_BACK, fallback_models=()))[0].endswith("is fed back")


@pytest.mark.rule("RETRY-2")
@pytest.mark.parametrize("seed", range(3))
def test_jitter_is_foretold_to_the_millisecond(seed: int) -> None:
    told = retries_told(Policy(retry=Retry(base_ms=1_000, jitter_ms=1_000), seed=seed))
    foretold = told[0].removeprefix("retrying in ").replace(" (retry 1 of 5), then", ",").split(", ")
    assert [line.split(" (")[0].removeprefix("retrying in ") for line in told] == foretold[:5]
    assert len(set(foretold[:5])) == 5


def test_a_schedule_without_end_is_not_told() -> None:
    policy = Policy(retry=Retry(base_ms=0, retries=10**9))
    state: State = Initial()
    deltas = (Created(session_id="s", policy=policy), Acquired(), Say(content=(TextBlock("go"),)))
    for delta in (*deltas, ModelFailed(operation=REPLY, error=ErrorClass.SERVER)):
        state = transition(state, Context(delta, 0)).next
    assert retry_told(events.RetryScheduled(0, 1), state) == f"retrying in 0 s (retry 1 of {10**9})"
    assert MOST_TOLD < 10**9
    assert retry_told(events.RetryScheduled(0, 1), NOWHERE) == "retrying soon (retry 1)"


def test_every_class_of_error_and_every_reason_has_words_of_its_own() -> None:
    assert set(FAILURES) == set(ADVICE) == set(ErrorClass)
    assert set(CANCELS) == set(CancelReason)
    for words in (FAILURES, CANCELS):
        assert len(set(words.values())) == len(words)


@pytest.mark.rule("LIMIT-2")
@pytest.mark.parametrize(
    ("limit", "told"),
    [
        (LimitName.MAX_TURNS, "the turn ends at the limit of 7 replies in a turn (max_turns)"),
        (LimitName.TOKENS, "the turn ends at the limit of 900 tokens in all (tokens)"),
        (LimitName.COST, "the turn ends at the limit of 0.5 USD in all (cost)"),
        (LimitName.TOOL_CALLS, "the turn ends at the limit of 3 tool calls in all (tool_calls)"),
        (LimitName.WALL_TIME, "the turn ends at the limit of 1.5 s for a turn (wall_time)"),
        (LimitName.REPLY_SIZE, "the turn ends at the limit of 80 characters in a reply (reply_size)"),
    ],
)
def test_a_limit_is_told_with_its_height(limit: LimitName, told: str) -> None:
    policy = Policy(
        max_turns=7,
        max_total_tokens=900,
        max_cost_usd=0.5,
        prices=Prices(input=1.0),
        max_tool_calls=3,
        max_wall_ms=1_500,
        max_reply_chars=80,
    )
    assert limit_told(limit, policy) == told


@pytest.mark.parametrize(
    ("event", "label", "part"),
    [
        (events.ReplyFailed(REPLY, ErrorClass.OVERLOADED), "reply", "1: failed, overloaded: the service"),
        (events.ReplyRetracted(REPLY), "reply", "1: retracted; what was shown of it does not count"),
        (events.ReplyAborted(REPLY), "reply", "1: cut short"),
        (events.ErrorShown(ErrorClass.AUTH, "401"), "error", "auth: 401; mend the key, then run it again"),
        (events.ErrorShown(ErrorClass.SERVER, ""), "error", "server: the service of the model has failed; try again"),
        (events.ErrorCleared(), "error", "cleared"),
        (events.LimitReached(LimitName.MAX_TURNS), "limit", "(max_turns)"),
        (events.LoopNoted("grep"), "loop", "repeats its calls of grep, and is told so"),
        (events.ToolDisabled("grep"), "loop", "grep, which it is not offered for a while"),
        (events.LoopStopped("grep"), "loop", "grep, so the turn ends"),
        (events.WorkCancelled(CancelReason.EDITED), "cancelled", "an earlier message was edited (system:edited)"),
        (events.Edited(MessageId(3)), "edit", "message 3 is replaced"),
        (events.LineageForked("new"), "fork", "session new"),
        (events.SessionResumed(), "resume", "where the log ended"),
        (events.ClockJumped(-31_536_000_000), "clock", "was set back by 365 days; every wait goes on"),
        (events.ClockJumped(3_725_000), "clock", "was set forward by 1 hour 2 minutes; every wait"),
        (events.ClockJumped(-999), "clock", "was set back by less than a second"),
        (events.Queued(QueueNumber(2)), "queue", "message 2 waits"),
        (events.Dequeued(QueueNumber(2)), "queue", "message 2 starts a turn"),
        (events.Discarded(QueueNumber(2)), "queue", "message 2 is discarded"),
        (events.Steered(1), "steer", "message 1 goes into the turn"),
        (events.CompactionStarted(), "compact", "is made shorter"),
        (events.CompactionEnded(done=True), "compact", "done"),
        (events.CompactionEnded(done=False), "compact", "goes on as it was"),
        (COMPACTED, "compact", "message 7 and what follows is kept; the rest is left out: the gist"),
        (
            events.ThreadCompacted(opening=None, note=None, first=None),
            "compact",
            "nothing is kept; the rest is left out",
        ),
        (events.ThreadRewritten((NOTE,)), "compact", "put back: 1 message"),
        (events.CorrectionChecked(), "correction", "has been looked at"),
        (events.CorrectionInjected(), "correction", "to correct its course"),
        (events.HandoffStarted(), "handoff", "carried over"),
        (events.HandoffEnded("s2"), "handoff", "the work goes on in session s2"),
        (events.HandoffEnded(None), "handoff", "it failed"),
        (events.ChildStarted(CALL), "agent 2.1", "a sub-agent begins"),
        (events.ChildAsked(CALL, ChildCall((CALL, CallId(REPLY, 3)))), "ask 2.1/2.1/1.3", "waits for a person"),
        (events.ChildFinished(CALL, TurnEndReason.MAX_TURNS), "agent 2.1", "has ended: max_turns"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_an_event_is_told_in_words(event: Event, label: str, part: str) -> None:
    found, text = labelled(event, NOWHERE)
    assert found == label
    assert part in text


@pytest.mark.parametrize(("number", "told"), [(0, "0 tokens in"), (1, "1 token in"), (2, "2 tokens in")])
def test_one_token_is_no_tokens(number: int, told: str) -> None:
    assert tokens_told(number, number) == f"{told}, {number} out"
