"""What is told of an agent while it runs is what its log tells afterwards, span by span and number by number."""

import asyncio
from collections.abc import Sequence

from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.model_deltas import ModelFailed
from loopkernel.data.policy import Policy, Prices, Retry
from loopkernel.data.usage import Usage
from loopkernel.data.words import ErrorClass
from loopkernel_adapters.agent import Agent
from loopkernel_adapters.driver.clocks import ManualClock
from loopkernel_adapters.providers.scripted import ANY, Reply, call_reply, text_reply
from loopkernel_adapters.sessions.waiting_calls import Answer, WaitingCall
from loopkernel_adapters.stores.memory import MemoryRuns
from loopkernel_adapters.telemetry.watching import Telemetry

from tests.adapters.telemetry.telemetry_world import (
    NOON_MS,
    Collected,
    PlainSpan,
    TakingTime,
    an_input,
    no_waiting,
    replayed,
    tools_that_take_time,
)

TOOLS = ("read", "fail", "crash", "wonder", "order", "task", "unknown")


@frozen
class Play:
    """What a model says, in turns; what a person answers to calls, and how long that takes."""

    replies: tuple[Reply, ...]
    turns: int
    answers: tuple[bool, ...]
    answer_ms: int


def a_reply() -> st.SearchStrategy[Reply]:
    usage = st.builds(Usage, *[st.integers(0, 5_000)] * 4)
    calls = st.lists(st.sampled_from(TOOLS), min_size=1, max_size=3)
    failure = st.sampled_from(list(ErrorClass)[:-1]).map(lambda error: (ModelFailed(operation=ANY, error=error),))
    return st.one_of(
        st.builds(text_reply, st.text(max_size=5), usage),
        st.builds(
            lambda names, used: call_reply(*[(name, an_input(ms=300)) for name in names], usage=used), calls, usage
        ),
        failure,
    )


def plays() -> st.SearchStrategy[Play]:
    return st.builds(
        Play,
        st.lists(a_reply(), max_size=8).map(tuple),
        st.integers(1, 3),
        st.lists(st.booleans(), min_size=1, max_size=4).map(tuple),
        st.integers(0, 90_000),
    )


POLICY = Policy(retry=Retry(base_ms=500, retries=2), prices=Prices(input=3.0, output=15.0), max_tool_calls=12)


async def played(play: Play, runs: MemoryRuns, content: bool = False) -> Collected:
    """What is told of the play while it goes on; its logs are in `runs`."""
    clock, collected = ManualClock(NOON_MS), Collected()
    answers = [*play.answers]

    def approve(call: WaitingCall) -> Answer:
        clock.advance(play.answer_ms)
        said = answers.pop() if len(answers) > 1 else answers[0]
        return said if call.question is None else ("this" if said else None)

    with Telemetry(collected.tracers, collected.meters, content=content) as telemetry:
        agent = Agent(
            TakingTime(play.replies, clock),
            tools_that_take_time(clock),
            policy=POLICY,
            runs=telemetry.watch(runs),
            clock=clock,
            approve=approve,
            observers=(no_waiting(clock),),
            child_observers=(lambda within, event: no_waiting(clock)(event),),
        )
        async with agent.session("run") as session:
            for turn in range(play.turns):
                clock.advance(1_000)
                await session.say(f"turn {turn}")
        assert telemetry.flush(60)
    return collected


def sessions_below(runs: MemoryRuns) -> list[str]:
    return [entry.run for entry in runs.entries() if entry.run != "run"]


def demand_trees(spans: Sequence[PlainSpan]) -> None:
    """Each span but the root of a tree has its parent there, in the same trace, and lies within it."""
    by_id = {span.span: span for span in spans}
    assert len(by_id) == len(spans)
    for span in spans:
        if span.parent is not None:
            parent = by_id[span.parent]
            assert parent.trace == span.trace
            assert parent.begin_ms <= span.begin_ms <= span.end_ms <= parent.end_ms


@given(play=plays(), content=st.booleans())
def test_the_trees_and_the_metrics_of_a_replayed_log_are_those_of_the_run(play: Play, content: bool) -> None:
    runs = MemoryRuns()
    live = asyncio.run(played(play, runs, content))
    again = replayed(runs, "run", sessions_below(runs), content)
    assert live.spans == again.spans
    assert live.metrics == again.metrics
    demand_trees(live.spans)
    assert not any(span["loopkernel.unfinished"] for span in live.spans)


def test_times_tokens_and_money_are_those_of_the_run() -> None:
    """A play whose figures are worked out by hand."""
    usage = Usage(input=1_000, output=100, cache_read=500)
    replies = (
        (ModelFailed(operation=ANY, error=ErrorClass.OVERLOADED),),
        call_reply(("read", an_input(ms=300)), ("order", an_input(item="milk")), usage=usage),
        text_reply("Done.", usage),
    )
    runs = MemoryRuns()
    live = asyncio.run(played(Play(replies, 1, (True,), 7_000), runs))
    spans = {span.name: span for span in live.spans}
    lengths = {name: span.end_ms - span.begin_ms for name, span in spans.items()}
    assert lengths["execute_tool read"] == 300
    assert lengths["wait_for_person order"] == 7_300  # the other call runs meanwhile
    chats = sorted((span for span in live.spans if span.name == "chat default"), key=lambda span: span.begin_ms)
    assert [(span["error.type"], span.error) for span in chats] == [("overloaded", True), (None, False), (None, False)]
    assert [span.end_ms - span.begin_ms for span in chats] == [100, 300, 200]
    assert chats[1].begin_ms - chats[0].end_ms == 500  # the countdown
    assert chats[1]["gen_ai.usage.input_tokens"] == 1_500
    assert chats[1]["gen_ai.usage.cache_read.input_tokens"] == 500
    assert chats[1]["gen_ai.response.finish_reasons"] == ("tool_use",)
    assert chats[1]["gen_ai.response.time_to_first_chunk"] == 0.1
    assert chats[1]["loopkernel.cost_usd"] == 0.006
    turn = spans["invoke_agent"]
    assert turn["gen_ai.usage.input_tokens"] == 3_000
    assert turn["loopkernel.turn.end"] == "model_stop"
    assert [event[0] for event in turn.events] == ["loopkernel.retry"]
    (waited,) = live.metrics["loopkernel.person.wait"].values()
    assert isinstance(waited, tuple) and waited[:2] == (1, 7.3)
    (cost,) = live.metrics["loopkernel.cost"].values()
    assert cost == 0.012
    tokens = live.metrics["gen_ai.client.token.usage"]
    assert sorted(point[1] for point in tokens.values() if isinstance(point, tuple)) == [200, 3_000]
    (retries,) = live.metrics["loopkernel.retries"].values()
    assert retries == 1


def test_a_sub_agent_is_told_below_the_call_that_started_it() -> None:
    replies = (call_reply(("task", an_input(prompt="look"))), text_reply("It is there."), text_reply("Found."))
    runs = MemoryRuns()
    live = asyncio.run(played(Play(replies, 1, (True,), 0), runs))
    below = {span.span: span for span in live.spans}
    inner = [span for span in live.spans if span["gen_ai.conversation.id"] == "run/1/1.1"]
    (turn,) = [span for span in inner if span.name == "invoke_agent"]
    assert turn.parent is not None
    call = below[turn.parent]
    assert (call.name, call["loopkernel.child.session"]) == ("execute_tool task", "run/1/1.1")
    assert call.parent is not None and below[call.parent]["gen_ai.conversation.id"] == "run"
    assert len({span.trace for span in live.spans}) == 1
