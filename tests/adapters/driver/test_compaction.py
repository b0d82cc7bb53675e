"""Compaction on real asyncio: the session's own model summarises, or another port does; and course corrections."""

import asyncio

import pytest
from loopkernel.data.blocks import text_of
from loopkernel.data.effects import CheckCorrection, Summarise
from loopkernel.data.events import CompactionEnded, CompactionStarted, CorrectionInjected, ReplyGrew, ThreadCompacted
from loopkernel.data.messages import UserMessage, UserOrigin
from loopkernel.data.model_deltas import ModelFailed
from loopkernel.data.outside_deltas import CorrectionAnswered, SummaryFailed, SummaryReady
from loopkernel.data.policy import Compaction, CourseCorrection, Policy
from loopkernel.data.states import Cancelled, Compacting, Idle
from loopkernel.data.usage import Usage
from loopkernel.data.user_deltas import CancelAll, CompactNow
from loopkernel.data.words import ErrorClass, RequestReason
from loopkernel.replaying import replay
from loopkernel_adapters.optional_ports import Corrector, OptionalPorts, Summariser
from loopkernel_adapters.providers.scripted import ANY, Reply, call_reply, text_reply
from typing_extensions import override

from tests.adapters.driver.driver_world import NO_INPUT, World, say
from tests.adapters.driver.failure_world import settled
from tests.adapters.driver.lawful import judged_sessions

__all__ = ["judged_sessions"]  # a fixture
pytestmark = pytest.mark.usefixtures("judged_sessions")

SPENT = Usage(input=10, output=5)
KEEPS_ONE_TURN = Policy(compaction=Compaction(keep_turns=1, trigger_ratio=None, trigger_tokens=1))
ON_REQUEST = Policy(compaction=Compaction(keep_turns=1))


def user_texts(world: World) -> list[str]:
    """What the user messages of the last request say."""
    return [
        text_of(message.content) for message in world.scripted.requests[-1].thread if isinstance(message, UserMessage)
    ]


async def turns(world: World, *texts: str) -> None:
    """One turn for each text."""
    async with await world.open() as driver:
        for text in texts:
            await driver.send(say(text))
            await driver.rest()
            assert isinstance(driver.state, Idle)


@pytest.mark.rule("COMPACT-3")
def test_the_model_of_the_session_makes_the_summary() -> None:
    async def run() -> None:
        replies = [text_reply("one", SPENT), text_reply("the gist", SPENT), text_reply("two", SPENT)]
        world = World(replies, policy=KEEPS_ONE_TURN)
        await turns(world, "first", "second")
        summary_request, last = world.scripted.requests[1:]
        assert summary_request.model == last.model
        assert summary_request.tools == ()
        texts = user_texts(world)
        assert "second" in texts
        assert "first" not in texts
        assert any("the gist" in text for text in texts)
        assert world.seen(CompactionEnded) == [CompactionEnded(done=True)]
        assert len(world.seen(ThreadCompacted)) == 1
        shown = [event.text for event in world.events if isinstance(event, ReplyGrew)]
        assert shown == ["one", "two"]  # the summary is not a reply
        state = replay(world.noted.load())
        assert state.session is not None
        assert state.session.usage == SPENT.plus(SPENT).plus(SPENT)
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())


FAILS: Reply = (ModelFailed(operation=ANY, error=ErrorClass.OVERLOADED, message="busy", usage=SPENT),)


@pytest.mark.rule("COMPACT-4")
def test_a_summary_that_fails_leaves_the_conversation_as_it_was() -> None:
    async def run() -> None:
        world = World([text_reply("one", SPENT), FAILS, text_reply("two")], policy=KEEPS_ONE_TURN)
        await turns(world, "first", "second")
        assert user_texts(world) == ["first", "second"]
        assert world.seen(CompactionEnded) == [CompactionEnded(done=False)]
        (failed,) = [record.delta for record in world.noted.load() if isinstance(record.delta, SummaryFailed)]
        assert "overloaded: busy" in failed.why
        assert failed.usage == SPENT

    asyncio.run(run())


class FixedSummary(Summariser):
    """Says what it was told to say, once it may."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.may_end = asyncio.Event()
        self.asked: list[Summarise] = []

    @override
    async def summarise(self, command: Summarise) -> tuple[str, Usage]:
        self.asked.append(command)
        await self.may_end.wait()
        return self.text, SPENT


@pytest.mark.parametrize("how", ["done", "cancelled"])
@pytest.mark.rule("COMPACT-1")
def test_a_compaction_on_request_at_rest(how: str) -> None:
    async def run() -> None:
        summariser = FixedSummary("the gist")
        replies = [text_reply("one"), text_reply("two"), text_reply("three")]
        world = World(replies, policy=ON_REQUEST, optional=OptionalPorts(summariser=summariser))
        async with await world.open() as driver:
            for text in ("first", "second"):
                await driver.send(say(text))
                await driver.rest()
            await driver.send(CompactNow())
            await settled(driver)
            assert isinstance(driver.state, Compacting)
            if how == "done":
                summariser.may_end.set()
            else:
                await driver.send(CancelAll())
            await driver.rest()
            assert isinstance(driver.state, Idle if how == "done" else Cancelled)
            await settled(driver)
            assert len(asyncio.all_tasks()) == 1
            await driver.send(say("third"))
            await driver.rest()
        assert ("first" in user_texts(world)) == (how == "cancelled")
        assert world.seen(CompactionEnded) == [CompactionEnded(done=how == "done")]
        ready = [record.delta for record in world.noted.load() if isinstance(record.delta, SummaryReady)]
        assert len(ready) == (how == "done")
        assert len(summariser.asked) == 1

    asyncio.run(run())


@pytest.mark.rule("RESUME-3")
def test_a_summary_that_was_being_made_is_asked_for_again_after_a_restart() -> None:
    async def run() -> None:
        summariser = FixedSummary("the gist")
        world = World(
            [text_reply("one"), text_reply("two")], policy=ON_REQUEST, optional=OptionalPorts(summariser=summariser)
        )
        async with await world.open() as driver:
            for text in ("first", "second"):
                await driver.send(say(text))
                await driver.rest()
            await driver.send(CompactNow())
        again = World(policy=ON_REQUEST, optional=OptionalPorts(summariser=summariser))
        again.noted.append(world.noted.load(), durable=True)
        summariser.may_end.set()
        async with await again.open() as driver:
            await driver.rest()
            assert isinstance(driver.state, Idle)
        assert len(summariser.asked) in (1, 2)  # the first driver was closed before or after it had asked
        assert again.seen(CompactionStarted) == []
        assert again.seen(CompactionEnded) == [CompactionEnded(done=True)]

    asyncio.run(run())


class FixedCorrection(Corrector):
    def __init__(self, text: str | None) -> None:
        self.text = text
        self.asked: list[CheckCorrection] = []

    @override
    async def correct(self, command: CheckCorrection) -> tuple[str | None, Usage]:
        self.asked.append(command)
        return self.text, SPENT


@pytest.mark.parametrize("text", ["you forgot the tests", None])
@pytest.mark.rule("HOOK-3")
def test_a_correction_goes_into_the_conversation(text: str | None) -> None:
    async def run() -> None:
        corrector = FixedCorrection(text)
        policy = Policy(course_correction=CourseCorrection(after_calls=1, after_writes=0))
        world = World(
            [call_reply(("echo", NO_INPUT)), text_reply("done"), text_reply("now done")],
            policy=policy,
            optional=OptionalPorts(corrector=corrector),
        )
        await turns(world, "go")
        assert len(corrector.asked) == 1
        corrections = [
            text_of(message.content)
            for message in world.scripted.requests[-1].thread
            if isinstance(message, UserMessage) and message.origin is UserOrigin.CORRECTION
        ]
        assert len(corrections) == len(world.seen(CorrectionInjected)) == (text is not None)
        assert all("you forgot the tests" in told for told in corrections)
        corrected = world.scripted.requests[-1].reason is RequestReason.CORRECTION
        assert corrected == (text is not None)
        (answered,) = [record.delta for record in world.noted.load() if isinstance(record.delta, CorrectionAnswered)]
        assert answered.usage == SPENT

    asyncio.run(run())
