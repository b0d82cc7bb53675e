"""Hooks on real asyncio: those that block, change, repeat, hang or raise, and those that only look on."""

import asyncio

import pytest
from loopkernel.data.blocks import text_of
from loopkernel.data.choices import HookFailure
from loopkernel.data.json_text import Json
from loopkernel.data.messages import UserMessage
from loopkernel.data.outside_deltas import HookAnswered, HookBlock, HookModify, HookRetry
from loopkernel.data.policy import Hook, Policy
from loopkernel.data.states import Cancelled, Idle, Thinking
from loopkernel.data.user_deltas import CancelAll
from loopkernel.data.words import HookPoint, TurnEndReason
from loopkernel.replaying import replay
from loopkernel_adapters.providers.scripted import call_reply, text_reply
from loopkernel_adapters.secrets import Secrets

from tests.adapters.driver.driver_world import NO_INPUT, FunctionTools, World, complaints_of, echo, one_turn, say
from tests.adapters.driver.failure_world import settled
from tests.adapters.driver.hooks_world import ScriptedHooks, gated, hooked_world
from tests.adapters.driver.lawful import judged_sessions

__all__ = ["judged_sessions"]  # a fixture
pytestmark = pytest.mark.usefixtures("judged_sessions")

ONE_CALL = [call_reply(("echo", Json.of({"say": "milk"}))), text_reply("done")]


def texts(world: World) -> list[str]:
    """What the user messages of the last request say."""
    return [
        text_of(message.content) for message in world.scripted.requests[-1].thread if isinstance(message, UserMessage)
    ]


@pytest.mark.rule("HOOK-2")
def test_a_call_that_a_hook_blocks_does_not_run() -> None:
    async def run() -> None:
        hooks = ScriptedHooks(lint=[HookBlock("not on a Sunday")])
        world = hooked_world(hooks, gated(HookPoint.BEFORE_TOOL, "lint"), replies=ONE_CALL)
        assert isinstance(await one_turn(world), Idle)
        ((status, text),) = world.results()
        assert status == "error"
        assert "not on a Sunday" in text
        assert world.tools.started == []
        (asked,) = hooks.asked
        assert (asked.point, asked.tool, asked.input) == (HookPoint.BEFORE_TOOL, "echo", Json.of({"say": "milk"}))
        assert replay(world.noted.load()).stamp.version > 0

    asyncio.run(run())


@pytest.mark.rule("HOOK-2")
def test_a_hook_changes_the_input_of_a_call_and_its_result() -> None:
    async def run() -> None:
        hooks = ScriptedHooks(before=[HookModify(input=Json.of({"say": "tea"}))], after=[HookModify(result="changed")])
        listed = (gated(HookPoint.BEFORE_TOOL, "before"), gated(HookPoint.AFTER_TOOL, "after"))
        world = hooked_world(hooks, *listed, replies=ONE_CALL)
        await one_turn(world)
        assert [run.input for run in world.tools.started] == [Json.of({"say": "tea"})]
        assert world.results() == [("done", "changed")]
        ended = hooks.asked[1].end
        assert ended is not None
        assert text_of(ended.output.content) == '{"say":"tea"}'

    asyncio.run(run())


@pytest.mark.rule("HOOK-2")
def test_a_hook_has_a_reply_and_a_run_repeated() -> None:
    async def run() -> None:
        hooks = ScriptedHooks(model=[HookRetry()], tool=[HookRetry()])
        listed = (gated(HookPoint.AFTER_MODEL, "model"), gated(HookPoint.AFTER_TOOL, "tool"))
        replies = [text_reply("never mind"), *ONE_CALL]
        world = hooked_world(hooks, *listed, replies=replies)
        await one_turn(world)
        assert len(world.scripted.requests) == 3
        assert len(world.tools.started) == 2
        assert world.results() == [("done", '{"say":"milk"}')]
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())


@pytest.mark.rule("HOOK-2")
def test_a_stop_hook_keeps_the_loop_going_with_its_reason() -> None:
    async def run() -> None:
        hooks = ScriptedHooks(tests=[HookBlock("the tests still fail")])
        world = hooked_world(
            hooks, gated(HookPoint.STOP, "tests"), replies=[text_reply("I am done"), text_reply("now I am")]
        )
        await one_turn(world)
        assert world.endings() == [TurnEndReason.MODEL_STOP]
        assert any("the tests still fail" in text for text in texts(world))
        assert [context.stop_hook_active for context in hooks.asked] == [False, True]

    asyncio.run(run())


@pytest.mark.rule("HOOK-2")
def test_a_turn_that_a_hook_blocks_asks_no_model() -> None:
    async def run() -> None:
        hooks = ScriptedHooks(gate=[HookBlock("closed")])
        world = hooked_world(hooks, gated(HookPoint.BEFORE_INVOCATION, "gate"), replies=[])
        await one_turn(world)
        assert world.endings() == [TurnEndReason.GUARDRAIL]
        assert world.scripted.requests == []

    asyncio.run(run())


@pytest.mark.parametrize(
    ("failure", "results"), [(HookFailure.OPEN, [("done", '{"say":"milk"}')]), (HookFailure.CLOSED, [])]
)
@pytest.mark.parametrize("how", ["raises", "hangs"])
@pytest.mark.rule("HOOK-4")
def test_a_hook_that_fails_is_treated_as_the_policy_says(
    failure: HookFailure, results: list[tuple[str, str]], how: str
) -> None:
    async def run() -> None:
        hooks = ScriptedHooks(gate=[ValueError("oops") if how == "raises" else asyncio.Event()])
        policy = Policy(hooks=(gated(HookPoint.BEFORE_INVOCATION, "gate"),), hook_failure=failure)
        world = hooked_world(hooks, replies=ONE_CALL, policy=policy)
        async with await world.open() as driver:
            await driver.send(say("go"))
            if how == "hangs":
                await settled(driver)
                assert isinstance(driver.state, Thinking)
                assert policy.hook_timeout_ms is not None
                world.clock.advance(policy.hook_timeout_ms)
            await driver.rest()
            assert isinstance(driver.state, Idle)
        assert world.results() == results
        closed = failure is HookFailure.CLOSED
        assert world.endings() == [TurnEndReason.GUARDRAIL if closed else TurnEndReason.MODEL_STOP]
        assert hooks.cancelled == (how == "hangs")
        assert world.clock.pending == 0

    asyncio.run(run())


@pytest.mark.rule("HOOK-4")
def test_a_hook_that_nobody_fulfils_has_failed() -> None:
    async def run() -> None:
        policy = Policy(hooks=(gated(HookPoint.BEFORE_TOOL, "lint"),), hook_failure=HookFailure.CLOSED)
        world = World(ONE_CALL, policy=policy)
        await one_turn(world)
        ((status, _),) = world.results()
        assert status == "error"

    asyncio.run(run())


@pytest.mark.rule("HOOK-1")
def test_hooks_that_only_look_on_are_told_and_hold_nothing_up() -> None:
    async def run() -> None:
        complaints = complaints_of(asyncio.get_running_loop())
        points = list(HookPoint)
        hooks = ScriptedHooks(before_tool=[ValueError("oops")])
        listed = tuple(Hook(point=point, name=point.value) for point in points)
        world = hooked_world(hooks, *listed, replies=ONE_CALL)
        await one_turn(world)
        assert world.results() == [("done", '{"say":"milk"}')]
        assert {context.point for context in hooks.told} == set(points)
        assert [context.point for context in hooks.told].count(HookPoint.MESSAGE_ADDED) == 4
        assert hooks.asked == []
        assert complaints == ["the hook before_tool, which only observes, failed: oops"]
        assert not any(isinstance(record.delta, HookAnswered) for record in world.noted.load())

    asyncio.run(run())


@pytest.mark.rule("CANCEL-2")
def test_a_cancel_stops_a_hook() -> None:
    async def run() -> None:
        hooks = ScriptedHooks(gate=[asyncio.Event()])
        world = hooked_world(hooks, gated(HookPoint.BEFORE_MODEL, "gate"), replies=[])
        async with await world.open() as driver:
            await driver.send(say("go"))
            await settled(driver)
            await driver.send(CancelAll())
            await driver.rest()
            assert isinstance(driver.state, Cancelled)
            await settled(driver)
            assert len(asyncio.all_tasks()) == 1
        assert hooks.cancelled == 1
        assert world.clock.pending == 0

    asyncio.run(run())


@pytest.mark.rule("RESUME-3")
def test_a_hook_that_was_open_is_asked_again_after_a_restart() -> None:
    async def run() -> None:
        hooks = ScriptedHooks(gate=[asyncio.Event()])
        world = hooked_world(hooks, gated(HookPoint.BEFORE_MODEL, "gate"), replies=[text_reply("b")])
        async with await world.open() as driver:
            await driver.send(say("go"))
            await settled(driver)
        records = world.noted.load()
        again = hooked_world(hooks, gated(HookPoint.BEFORE_MODEL, "gate"), replies=[text_reply("b")])
        again.noted.append(records, durable=True)
        async with await again.open() as driver:
            await driver.rest()
            assert isinstance(driver.state, Idle)
        assert len(hooks.asked) == 2
        assert hooks.cancelled == 1

    asyncio.run(run())


def test_a_secret_in_what_a_hook_says_is_not_recorded() -> None:
    async def run() -> None:
        hooks = ScriptedHooks(lint=[HookModify(input=Json.of({"key": "hunter22"}))])
        tools = FunctionTools(echo=echo)
        world = World(
            [call_reply(("echo", NO_INPUT)), text_reply("done")],
            tools=tools,
            policy=Policy(hooks=(gated(HookPoint.BEFORE_TOOL, "lint"),)),
            optional=hooked_world(hooks, replies=[]).optional,
            secrets=Secrets({"password": "hunter22"}),
        )
        await one_turn(world)
        assert [run.input for run in tools.started] == [Json.of({"key": "hunter22"})]
        (answered,) = [record.delta for record in world.noted.load() if isinstance(record.delta, HookAnswered)]
        assert answered.answer == HookModify(input=Json.of({"key": "{{secret:password}}"}))

    asyncio.run(run())
