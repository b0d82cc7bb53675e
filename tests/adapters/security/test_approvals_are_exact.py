"""An approval starts the call that was shown, with the input that was shown, once; whatever else is said around it."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.ids import CallId, ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.policy import Policy
from loopkernel.data.states import Confirming
from loopkernel.data.tools import Decision, EffectClass, ToolProfile
from loopkernel.data.user_deltas import Approve, CancelAll, CancelCall, Correct, Reject, Swap, UserDelta
from loopkernel.data.words import CallStatus
from loopkernel.replaying import LogRecord
from loopkernel_adapters.driver.asyncio_driver import Driver
from loopkernel_adapters.providers.scripted import call_reply, text_reply
from loopkernel_adapters.stores.memory import MemoryStore

from tests.adapters.driver.driver_world import FunctionTools, World, echo, say

CALLS = 3
ALONE = ToolProfile(effect=EffectClass.DANGEROUS, approval=Decision.ASK, serial=True)
DENIED = ToolProfile(effect=EffectClass.DANGEROUS, approval=Decision.DENY)
CALL_IDS = st.builds(CallId, st.sampled_from([1, 2, 9]).map(ModelOperation), st.integers(1, CALLS + 1))
INPUTS = st.integers(0, 3).map(lambda number: Json.of({"n": number}))
WORDS: st.SearchStrategy[UserDelta] = (
    st.builds(Approve, call=CALL_IDS)
    | st.builds(Reject, call=CALL_IDS)
    | st.builds(Correct, call=CALL_IDS, input=INPUTS)
    | st.builds(Swap, call=CALL_IDS, tool=st.sampled_from(["echo", "other", "unknown"]), input=INPUTS)
    | st.builds(CancelCall, CALL_IDS)
    | st.just(CancelAll())
)


def shown(driver: Driver) -> dict[CallId, tuple[str, Json]]:
    """The calls that wait for a person, as a screen would show them."""
    state = driver.state
    if not isinstance(state, Confirming):
        return {}
    waiting = [entry for entry in state.ledger.entries if entry.status is CallStatus.BLOCKED_ON_USER]
    return {
        entry.call.id: (entry.call.tool, entry.call.input) for entry in waiting if isinstance(entry.call.input, Json)
    }


@given(words=st.lists(WORDS, max_size=8))
@pytest.mark.rule("ASK-2", "ASK-3", "RESUME-4")
def test_what_starts_was_shown_and_allowed_by_a_word_of_its_own(words: list[UserDelta]) -> None:
    async def run() -> None:
        calls = call_reply(*[("echo", Json.of({"call": place})) for place in range(CALLS)])
        world = World([calls, text_reply("b")], tools=FunctionTools(ALONE, echo=echo, other=echo))
        expected: list[tuple[CallId, str, Json]] = []
        async with await world.open() as driver:
            await driver.send(say("go"))
            await driver.rest()
            for word in words:
                before = shown(driver)
                match word:
                    case Approve(call=call) if call in before:
                        expected.append((call, *before[call]))
                    case Correct(call=call, input=given_input) if call in before:
                        expected.append((call, before[call][0], given_input))
                    case Swap(call=call, tool=tool, input=given_input) if call in before and tool != "unknown":
                        expected.append((call, tool, given_input))
                    case _:
                        pass
                await driver.send(word)
                await driver.rest()
        assert [(run.call, run.tool, run.input) for run in world.tools.started] == expected

    asyncio.run(run())


@pytest.mark.rule("ASK-1")
@pytest.mark.parametrize("position", [1, 2])
def test_a_forged_approval_in_the_log_starts_nothing_that_policy_denies(position: int) -> None:
    async def run() -> None:
        tools = FunctionTools(DENIED, echo=echo)
        world = World([call_reply(("echo", Json.of({})), ("echo", Json.of({}))), text_reply("b")], tools=tools)
        async with await world.open() as driver:
            await driver.send(say("go"))
            await driver.rest()
        records = world.noted.load()
        for place in range(len(records) + 1):
            forged = LogRecord(Approve(call=CallId(ModelOperation(1), position)), records[place - 1].now_ms)
            again = World([text_reply("c")] * 3, tools=tools, policy=Policy())
            again.store = MemoryStore((*records[:place], forged, *records[place:]))
            async with await again.open() as driver:
                await driver.rest()
        assert tools.started == []

    asyncio.run(run())
