"""Nothing that asks runs without the editor's explicit answer to exactly that question."""

import asyncio
from pathlib import Path

import pytest
from acp.core import RequestError
from acp.schema import (
    AllowedOutcome,
    ContentToolCallContent,
    PermissionOption,
    RequestPermissionResponse,
    TextContentBlock,
    ToolCallUpdate,
)
from hypothesis import example, given, settings
from hypothesis import strategies as st
from loopkernel.data.json_text import Json
from loopkernel.data.remembered import RememberedCall, RememberedTool
from loopkernel.replaying import replay
from loopkernel.testing.strategies.values import json_values
from loopkernel_adapters.providers.scripted import call_reply
from loopkernel_adapters.stores.folders import JsonlFolder
from loopkernel_adapters.stores.seals import Seals

from tests.adapters.acp.editor import NO, Answering, Editor, choosing, connected, text
from tests.adapters.acp.world import DONE, World, pay


async def prompted(world: World, editor: Editor, folder: Path, *words: str) -> list[str]:
    """How the turns of a new session end."""
    async with connected(world.surroundings(), editor) as agent:
        session = (await agent.new_session(cwd=str(folder), mcp_servers=[])).session_id
        return [(await agent.prompt(session_id=session, prompt=text(each))).stop_reason for each in words]


def selected(option: str) -> RequestPermissionResponse:
    return RequestPermissionResponse(outcome=AllowedOutcome(outcome="selected", option_id=option))


@settings(max_examples=40, deadline=None)
@given(
    made_up=st.one_of(st.text(max_size=40), st.sampled_from(["allow", "allow_once", "yes", "Allow once", "0", "true"]))
)
def test_an_option_that_was_not_offered_is_a_no(made_up: str) -> None:
    async def answer(call: ToolCallUpdate, options: list[PermissionOption]) -> RequestPermissionResponse:
        return selected(made_up)

    world, editor = World([pay(), DONE]), Editor(answer)
    assert asyncio.run(prompted(world, editor, Path.cwd(), "go")) == ["end_turn"]
    assert world.paid == []
    assert editor.statuses()[-1] == "failed"


async def _refuses(call: ToolCallUpdate, options: list[PermissionOption]) -> RequestPermissionResponse:
    raise RequestError(-32601, "this editor does not ask")


async def _cancels(call: ToolCallUpdate, options: list[PermissionOption]) -> RequestPermissionResponse:
    return NO


def _answers(form: object) -> Answering:
    async def answer(call: ToolCallUpdate, options: list[PermissionOption]) -> RequestPermissionResponse:
        return form  # type: ignore[return-value]  # what no editor should send

    return answer


@pytest.mark.parametrize(
    "answer",
    [
        _refuses,
        _cancels,
        _answers({}),
        _answers(None),
        _answers({"outcome": "selected"}),
        _answers({"outcome": {"outcome": "allowed", "optionId": "allow_once"}}),
        _answers({"outcome": {"outcome": "selected"}}),
        _answers({"outcome": {"outcome": "selected", "optionId": 1}}),
        _answers([True]),
        choosing("reject_once"),
    ],
)
def test_whatever_is_not_an_allowed_option_is_a_no(answer: Answering, tmp_path: Path) -> None:
    world, editor = World([pay(), DONE]), Editor(answer)
    assert asyncio.run(prompted(world, editor, tmp_path, "go")) == ["end_turn"]
    assert world.paid == []
    assert len(editor.asked) == 1


def test_an_answer_to_an_earlier_question_lets_nothing_run(tmp_path: Path) -> None:
    earlier: list[PermissionOption] = []

    async def answer(call: ToolCallUpdate, options: list[PermissionOption]) -> RequestPermissionResponse:
        earlier.extend(options)
        return selected(earlier[0].option_id)

    world, editor = World([pay(amount=1), pay(amount=1_000), DONE]), Editor(answer)
    asyncio.run(prompted(world, editor, tmp_path, "go"))
    assert world.paid == [{"amount": 1}]
    assert len(editor.asked) == 2


@settings(max_examples=60, deadline=None)
@given(value=st.dictionaries(st.text(max_size=8), json_values, max_size=4))
@example(value={"a": "```\n```` \u202e"})
def test_the_question_shows_exactly_what_would_run(value: dict[str, object]) -> None:
    world, editor = World([call_reply(("pay", Json.of(value))), DONE]), Editor()  # type: ignore[arg-type]  # JSON
    asyncio.run(prompted(world, editor, Path.cwd(), "go"))
    (call, _) = editor.asked[0]
    assert Json.of(call.raw_input or {}) == Json.of(value)  # type: ignore[arg-type]  # JSON
    assert [Json.of(paid) for paid in world.paid] == [Json.of(value)]  # type: ignore[arg-type]  # JSON
    (content, *_) = call.content or []
    assert isinstance(content, ContentToolCallContent) and isinstance(content.content, TextContentBlock)
    words = content.content.text.splitlines()
    assert words[1] == words[-1] and set(words[1]) == {"`"} and not any(words[1] in line for line in words[2:-1])
    assert all(character.isprintable() or character == "\n" for character in content.content.text)


def test_allow_once_is_for_one_call(tmp_path: Path) -> None:
    world, editor = World([pay(amount=1), pay(amount=1), DONE]), Editor(choosing("allow_once"))
    asyncio.run(prompted(world, editor, tmp_path, "go"))
    assert (len(world.paid), len(editor.asked)) == (2, 2)


@pytest.mark.parametrize(
    ("number", "asked", "remembered"),
    [(0, 2, RememberedCall("pay", Json.of({"amount": 1}))), (1, 1, RememberedTool("pay"))],
)
def test_allow_always_says_what_the_kernel_remembers(
    number: int, asked: int, remembered: object, tmp_path: Path
) -> None:
    world, editor = World([pay(amount=1), pay(amount=1), pay(amount=2), DONE]), Editor(choosing("allow_always", number))
    asyncio.run(prompted(world, editor, tmp_path, "go"))
    assert (len(world.paid), len(editor.asked)) == (3, asked)
    name = [option.name for option in editor.asked[0][1] if option.kind == "allow_always"][number]
    assert ("exactly this call" in name, "each call of pay" in name) == (number == 0, number == 1)
    session = replay(world.place.read(next(iter(world.folders)))).session
    assert session is not None and remembered in session.settings.remembered


def test_reject_always_is_not_asked_again(tmp_path: Path) -> None:
    world, editor = World([pay(amount=1), pay(amount=2), DONE]), Editor(choosing("reject_always"))
    asyncio.run(prompted(world, editor, tmp_path, "go"))
    assert (world.paid, len(editor.asked)) == ([], 1)
    assert [status for status in editor.statuses() if status == "failed"] == ["failed"] * 2


def test_a_cancel_withdraws_the_question_and_a_late_yes_runs_nothing(tmp_path: Path) -> None:
    async def play() -> tuple[World, str]:
        late = asyncio.Event()

        async def answer(call: ToolCallUpdate, options: list[PermissionOption]) -> RequestPermissionResponse:
            await late.wait()
            return selected(options[0].option_id)

        world, editor = World([pay(), DONE]), Editor(answer)
        async with connected(world.surroundings(), editor) as agent:
            session = (await agent.new_session(cwd=str(tmp_path), mcp_servers=[])).session_id
            prompt = asyncio.ensure_future(agent.prompt(session_id=session, prompt=text("go")))
            await editor.until(lambda: bool(editor.asked))
            await agent.cancel(session_id=session)
            stop = (await prompt).stop_reason
            late.set()
            await agent.prompt(session_id=session, prompt=text("and now?"))  # all that was sent has been heard by then
        return world, stop

    world, stop = asyncio.run(play())
    assert (world.paid, stop) == ([], "cancelled")


@pytest.mark.parametrize(
    ("mode", "paid", "asked"), [("default", 1, 1), ("plan", 0, 0), ("headless", 0, 0), ("bypass", 1, 0)]
)
def test_a_mode_holds_from_the_moment_it_is_chosen(mode: str, paid: int, asked: int, tmp_path: Path) -> None:
    async def play(in_the_midst: bool) -> tuple[int, int]:
        world, editor = World([pay(), DONE, pay(), DONE]), Editor()
        async with connected(world.surroundings(), editor) as agent:
            session = (await agent.new_session(cwd=str(tmp_path), mcp_servers=[])).session_id
            if in_the_midst:
                await agent.prompt(session_id=session, prompt=text("go"))
                world.paid.clear()
                editor.asked.clear()
            await agent.set_session_mode(session_id=session, mode_id=mode)
            await agent.prompt(session_id=session, prompt=text("go"))
        return len(world.paid), len(editor.asked)

    assert asyncio.run(play(False)) == (paid, asked)
    assert asyncio.run(play(True)) == (paid, asked)


def test_an_editor_that_goes_away_has_said_nothing(tmp_path: Path) -> None:
    """The call waits in the log, and is asked about when the session is loaded."""

    async def play() -> World:
        world = World([pay(), DONE, DONE])
        never = asyncio.Event()

        async def answer(call: ToolCallUpdate, options: list[PermissionOption]) -> RequestPermissionResponse:
            await never.wait()
            return NO

        editor = Editor(answer)
        async with connected(world.surroundings(), editor) as agent:
            session = (await agent.new_session(cwd=str(tmp_path), mcp_servers=[])).session_id
            prompt = asyncio.ensure_future(agent.prompt(session_id=session, prompt=text("go")))
            await editor.until(lambda: bool(editor.asked))
            prompt.cancel()
        assert world.paid == []
        second = Editor()
        async with connected(world.surroundings(), second) as agent:
            await agent.load_session(session_id=session, cwd=str(tmp_path), mcp_servers=[])
            assert (world.paid, second.asked) == ([], [])  # looking at it lets nothing go on
            await agent.prompt(session_id=session, prompt=text("go on"))
        assert (len(world.paid), len(second.asked)) == (1, 1)
        return world

    asyncio.run(play())


def test_a_session_that_is_doubted_asks_anew_and_says_why(tmp_path: Path) -> None:
    """An approval for every call of the tool, in a log that others may have written, lets nothing run."""
    store, folder = tmp_path / "runs", tmp_path / "work"
    folder.mkdir()

    async def play() -> None:
        first, always = Editor(), choosing("allow_always", 1)
        world = World([pay(amount=1), pay(amount=2), DONE], place=JsonlFolder(store, Seals(tmp_path / "mine")))
        world.held = asyncio.Event()
        first.answering = always
        async with connected(world.surroundings(), first) as agent:
            session = (await agent.new_session(cwd=str(folder), mcp_servers=[])).session_id
            prompt = asyncio.ensure_future(agent.prompt(session_id=session, prompt=text("go")))
            await first.until(lambda: "in_progress" in first.statuses())
            prompt.cancel()
        other = World([DONE, pay(amount=3), DONE], place=JsonlFolder(store, Seals(tmp_path / "theirs")))
        second = Editor(choosing("reject_once"))
        async with connected(other.surroundings(), second) as agent:
            await agent.load_session(session_id=session, cwd=str(folder), mcp_servers=[])
            assert "is not believed, since" in second.texts()
            await agent.prompt(session_id=session, prompt=text("go on"))
        assert other.paid == []
        told = [call.content[0].content.text for call, _ in second.asked if call.content]
        assert len(told) == 2 and "is not believed, since" in told[0] and "not believed" not in told[1]

    asyncio.run(play())
