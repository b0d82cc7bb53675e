"""The ports that a session can do without: absent, failing, silent. A transition of the test's own asks for them."""

import asyncio
from typing import cast

import pytest
from loopkernel.data.choices import ApprovalMode
from loopkernel.data.compactions import Cut
from loopkernel.data.effects import (
    AbortOther,
    AnswerTool,
    AskHook,
    CheckCorrection,
    HandOff,
    StartChild,
    Summarise,
    TellChild,
    TellHook,
)
from loopkernel.data.hook_calls import HookContext
from loopkernel.data.ids import (
    CallId,
    CorrectionOperation,
    HandoffOperation,
    HookOperation,
    ModelOperation,
    OperationKind,
    RunOperation,
    SummaryOperation,
)
from loopkernel.data.outside_deltas import (
    ChildEnded,
    CorrectionAnswered,
    HandoffFailed,
    HookAnswer,
    HookAnswered,
    HookContinue,
    HookFault,
    SummaryFailed,
)
from loopkernel.data.thread_deltas import Created
from loopkernel.data.threads import Thread
from loopkernel.data.usage import NO_USAGE, Usage
from loopkernel.data.user_deltas import ChangeMode
from loopkernel.data.words import HookPoint, TurnEndReason
from loopkernel_adapters.optional_ports import (
    Agent,
    Agents,
    Corrector,
    Handoffs,
    Hooks,
    OptionalPorts,
    ParentSession,
    Summariser,
    SummaryError,
)
from typing_extensions import override

from tests.adapters.driver.commands_world import scripted_effects
from tests.adapters.driver.driver_world import NO_INPUT, World, complaints_of, say
from tests.adapters.driver.failure_world import settled

CALL = CallId(ModelOperation(1), 1)


def commands_beside() -> tuple[AskHook, CheckCorrection, Summarise, StartChild, HandOff]:
    """One command for each port that a session can do without."""
    thread = Thread()
    return (
        AskHook(HookOperation(1), HookContext(point=HookPoint.STOP, name="lint", thread=thread)),
        CheckCorrection(CorrectionOperation(2), thread),
        Summarise(operation=SummaryOperation(3), thread=thread, cut=Cut(0)),
        StartChild(
            operation=RunOperation(4),
            call=CALL,
            run=1,
            tool="task",
            input=NO_INPUT,
            created=Created(session_id="child"),
            task="do it",
        ),
        HandOff(operation=HandoffOperation(5), goal="", thread=thread),
    )


def test_what_has_no_port_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        hook, correction, _, child, handoff = commands_beside()
        unanswered = (
            AnswerTool(operation=RunOperation(6), value=None),
            AbortOther(OperationKind.HOOK, 7),
            TellHook(HookContext(point=HookPoint.STOP, name="lint", thread=Thread())),
            TellChild(RunOperation(8), ChangeMode(ApprovalMode.PLAN)),
        )
        world = World()
        async with await world.open() as driver:
            deltas = scripted_effects(monkeypatch, [(hook, correction, child, handoff, *unanswered)])
            await driver.send(say("go"))
            assert [type(delta) for delta in deltas[1:]] == [
                HookAnswered,
                CorrectionAnswered,
                ChildEnded,
                HandoffFailed,
            ]
            assert [delta.operation for delta in deltas[1:]] == [1, 2, 4, 5]
            assert deltas[1].answer == HookFault("this driver has no hook lint")

    asyncio.run(run())


class Failing(Hooks, Corrector, Summariser, Handoffs, Agents):
    """Fulfils every port that a session can do without, and fails at each."""

    @override
    async def ask(self, context: HookContext) -> HookAnswer:
        raise ValueError("no hook")

    @override
    def tell(self, context: HookContext) -> None:
        raise ValueError("no ear")

    @override
    async def correct(self, command: CheckCorrection) -> tuple[str | None, Usage]:
        raise ValueError("no correction")

    @override
    async def summarise(self, command: Summarise) -> tuple[str, Usage]:
        raise SummaryError("no summary", Usage(input=3))

    @override
    async def hand_off(self, command: HandOff) -> str:
        raise ValueError("no handoff")

    @override
    def agent(self, command: StartChild, parent: ParentSession) -> Agent:
        raise ValueError("no agent")


def test_a_port_that_fails_is_answered_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        port = Failing()
        optional = OptionalPorts(hooks=port, corrector=port, summariser=port, handoffs=port, agents=port)
        world = World(optional=optional)
        complaints = complaints_of(asyncio.get_running_loop())
        async with await world.open() as driver:
            told = TellHook(HookContext(point=HookPoint.STOP, name="lint", thread=Thread()))
            deltas = scripted_effects(monkeypatch, [(*commands_beside(), told)])
            await driver.send(say("go"))
            await settled(driver)
            by_operation = {delta.operation: delta for delta in deltas[1:]}
            assert by_operation == {
                1: HookAnswered(HookOperation(1), HookFault("the hook lint failed: ValueError: no hook")),
                2: CorrectionAnswered(CorrectionOperation(2), None),
                3: SummaryFailed(SummaryOperation(3), "no summary", Usage(input=3)),
                4: ChildEnded(operation=RunOperation(4), reason=TurnEndReason.ERROR, text="ValueError: no agent"),
                5: HandoffFailed(HandoffOperation(5), "ValueError: no handoff"),
            }
            assert sorted(complaints) == [
                "the course correction failed; nothing is corrected: no correction",
                "the hook lint, which only observes, failed: no ear",
            ]
            assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())


class Wordless(Failing):
    """Answers with what is not an answer."""

    @override
    async def ask(self, context: HookContext) -> HookAnswer:
        return cast(HookAnswer, "go on")

    @override
    async def correct(self, command: CheckCorrection) -> tuple[str | None, Usage]:
        return " ", Usage(output=1)

    @override
    async def summarise(self, command: Summarise) -> tuple[str, Usage]:
        return " \n", Usage(output=2)


def test_an_answer_that_is_none_counts_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        port = Wordless()
        world = World(optional=OptionalPorts(hooks=port, corrector=port, summariser=port))
        async with await world.open() as driver:
            deltas = scripted_effects(monkeypatch, [commands_beside()[:3]])
            await driver.send(say("go"))
            await settled(driver)
            raised = "TypeError: it answered with a str, which is not an answer of a hook"
            fault = HookFault(f"the hook lint failed: {raised}")
            assert sorted(deltas[1:], key=lambda delta: delta.operation) == [
                HookAnswered(HookOperation(1), fault),
                CorrectionAnswered(CorrectionOperation(2), None, Usage(output=1)),
                SummaryFailed(SummaryOperation(3), "the summary is empty", Usage(output=2)),
            ]

    asyncio.run(run())


class Waiting(Failing):
    """Waits for ever, and notes what was cancelled."""

    def __init__(self) -> None:
        self.cancelled: list[str] = []

    async def _for_ever(self, name: str) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.append(name)
            raise

    @override
    async def ask(self, context: HookContext) -> HookAnswer:
        await self._for_ever("hook")
        return HookContinue()

    @override
    async def correct(self, command: CheckCorrection) -> tuple[str | None, Usage]:
        await self._for_ever("correction")
        return None, NO_USAGE

    @override
    async def summarise(self, command: Summarise) -> tuple[str, Usage]:
        await self._for_ever("summary")
        return "", NO_USAGE

    @override
    async def hand_off(self, command: HandOff) -> str:
        await self._for_ever("handoff")
        return ""


@pytest.mark.parametrize("how", ["aborted", "closed"])
def test_what_waits_is_stopped_when_it_is_aborted_or_the_driver_closes(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    async def run() -> None:
        port = Waiting()
        world = World(optional=OptionalPorts(hooks=port, corrector=port, summariser=port, handoffs=port))
        async with await world.open() as driver:
            aborts = (
                AbortOther(OperationKind.HOOK, 1),
                AbortOther(OperationKind.CORRECTION, 2),
                AbortOther(OperationKind.SUMMARY, 3),
                AbortOther(OperationKind.HANDOFF, 5),
            )
            asked = tuple(command for command in commands_beside() if not isinstance(command, StartChild))
            deltas = scripted_effects(monkeypatch, [asked, aborts])
            await driver.send(say("go"))
            await settled(driver)
            if how == "aborted":
                await driver.send(say("stop"))
                await settled(driver)
                assert len(asyncio.all_tasks()) == 1
            seen = len(deltas)
        assert sorted(port.cancelled) == ["correction", "handoff", "hook", "summary"]
        assert len(deltas) == seen  # none of them reports
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(run())
