"""Sessions of an editor: made, used one prompt at a time, changed, listed, loaded and left."""

import asyncio
import base64
from pathlib import Path

import pytest
from acp.core import RequestError
from acp.schema import (
    AudioContentBlock,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    SseMcpServer,
    TextContentBlock,
    TextResourceContents,
)
from loopkernel.data.blocks import MediaBlock, TextBlock
from loopkernel.data.messages import UserMessage
from loopkernel.data.model_deltas import ModelCompleted, ModelFailed, ModelText
from loopkernel.data.words import ErrorClass, StopReason
from loopkernel.replaying import replay
from loopkernel_adapters.acp.content import ContentBlock
from loopkernel_adapters.providers.scripted import ANY, ScriptedProvider, text_reply

from tests.adapters.acp.editor import Editor, connected, refusal, text
from tests.adapters.acp.world import DONE, World, pay

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(8)).decode()


def test_it_says_what_it_can_do(tmp_path: Path) -> None:
    async def play() -> None:
        async with connected(World([]).surroundings(), Editor()) as agent:
            said = await agent.initialize(protocol_version=7)
            assert said.protocol_version == 1
            can = said.agent_capabilities
            assert can is not None and can.load_session and can.prompt_capabilities and can.session_capabilities
            assert (can.prompt_capabilities.image, can.prompt_capabilities.audio) == (True, False)
            assert can.session_capabilities.list and can.session_capabilities.resume and can.session_capabilities.close

    asyncio.run(play())


def test_a_second_prompt_is_refused_while_one_is_under_way(tmp_path: Path) -> None:
    async def play() -> None:
        go_on = asyncio.Event()
        replies = [(ModelText(ANY, "One"), go_on, ModelCompleted(ANY, StopReason.END_TURN)), text_reply("Two")]
        world, editor = World(replies), Editor()
        async with connected(world.surroundings(), editor) as agent:
            session = (await agent.new_session(cwd=str(tmp_path), mcp_servers=[])).session_id
            first = asyncio.ensure_future(agent.prompt(session_id=session, prompt=text("go")))
            await editor.until(lambda: editor.texts() == "One")
            error = await refusal(agent.prompt(session_id=session, prompt=text("and this")))
            assert "a prompt is under way" in str(error)
            assert "is under way" in str(await refusal(agent.load_session(session_id=session, cwd=str(tmp_path))))
            go_on.set()
            assert (await first).stop_reason == "end_turn"
            assert (await agent.prompt(session_id=session, prompt=text("now"))).stop_reason == "end_turn"
        assert editor.texts() == "OneTwo"

    asyncio.run(play())


def test_a_cancel_ends_the_turn_and_the_next_prompt_goes_on(tmp_path: Path) -> None:
    async def play() -> None:
        never = asyncio.Event()
        world, editor = World([(ModelText(ANY, "One"), never), text_reply("Two")]), Editor()
        async with connected(world.surroundings(), editor) as agent:
            session = (await agent.new_session(cwd=str(tmp_path), mcp_servers=[])).session_id
            await agent.cancel(session_id=session)  # of nothing
            first = asyncio.ensure_future(agent.prompt(session_id=session, prompt=text("go")))
            await editor.until(lambda: editor.texts() == "One")
            await agent.cancel(session_id=session)
            assert (await first).stop_reason == "cancelled"
            assert (await agent.prompt(session_id=session, prompt=text("now"))).stop_reason == "end_turn"

    asyncio.run(play())


def test_what_the_editor_sends_becomes_the_message(tmp_path: Path) -> None:
    inside, outside = tmp_path / "notes.txt", Path("/etc/hostname")
    sent: list[ContentBlock] = [
        TextContentBlock(type="text", text="Look:"),
        ImageContentBlock(type="image", data=PNG, mime_type="image/anything"),
        ResourceContentBlock(type="resource_link", name="notes", uri=inside.as_uri()),
        ResourceContentBlock(type="resource_link", name="host", uri=outside.as_uri()),
        EmbeddedResourceContentBlock(
            type="resource", resource=TextResourceContents(uri=inside.as_uri(), text="buy milk, unsaved")
        ),
    ]
    world = World([DONE])

    async def play() -> str:
        async with connected(world.surroundings(), Editor()) as agent:
            session = (await agent.new_session(cwd=str(tmp_path), mcp_servers=[])).session_id
            await agent.prompt(session_id=session, prompt=sent)
            return session

    kept = replay(world.place.read(asyncio.run(play()))).session
    assert kept is not None
    message = next(iter(kept.thread))
    assert isinstance(message, UserMessage)
    assert message.content == (
        TextBlock("Look:"),
        MediaBlock("image/png", PNG),  # by its bytes
        TextBlock("[notes](notes.txt)"),  # as tools name it
        TextBlock(f"[host]({outside.as_uri()})"),  # named, and not read
        TextBlock("notes.txt:\nbuy milk, unsaved"),
    )


@pytest.mark.parametrize(
    "block",
    [
        AudioContentBlock(type="audio", data=PNG, mime_type="audio/wav"),
        ImageContentBlock(type="image", data="%%%", mime_type="image/png"),
        ImageContentBlock(type="image", data=base64.b64encode(b"<svg/>").decode(), mime_type="image/png"),
    ],
)
def test_what_no_message_can_hold_is_refused_in_words(block: ContentBlock, tmp_path: Path) -> None:
    async def play() -> None:
        async with connected(World([DONE]).surroundings(), Editor()) as agent:
            session = (await agent.new_session(cwd=str(tmp_path), mcp_servers=[])).session_id
            assert "; " in str(await refusal(agent.prompt(session_id=session, prompt=[block])))
            assert (await agent.prompt(session_id=session, prompt=text("go"))).stop_reason == "end_turn"

    asyncio.run(play())


def test_what_cannot_be_opened_is_refused_in_words(tmp_path: Path) -> None:
    sse = SseMcpServer(type="sse", name="old", url="http://localhost:1", headers=[])

    async def play() -> list[str]:
        async with connected(World([]).surroundings(), Editor()) as agent:
            new, load = agent.new_session, agent.load_session
            refused = [
                await refusal(new(cwd="relative", mcp_servers=[])),
                await refusal(new(cwd="/a\0b", mcp_servers=[])),
                await refusal(new(cwd=str(tmp_path / "missing"), mcp_servers=[])),
                await refusal(new(cwd=str(tmp_path), mcp_servers=[], additional_directories=["/tmp"])),
                await refusal(new(cwd=str(tmp_path), mcp_servers=[sse])),
                await refusal(load(cwd=str(tmp_path), session_id="no-such-run", mcp_servers=[])),
                await refusal(load(cwd=str(tmp_path), session_id="../a", mcp_servers=[])),
                await refusal(agent.prompt(session_id="no-such-run", prompt=text("go"))),
                await refusal(agent.set_session_mode(session_id="no-such-run", mode_id="plan")),
                await refusal(agent.list_sessions(cursor="-1")),
            ]
            return [str(error) for error in refused]

    told = asyncio.run(play())
    assert all(len(words.split()) > 3 and "Traceback" not in words for words in told), told


def test_models_and_modes_are_chosen_in_both_forms(tmp_path: Path) -> None:
    async def play() -> None:
        world, editor = World([DONE, DONE]), Editor()
        provider = world.provider
        assert isinstance(provider, ScriptedProvider)
        async with connected(world.surroundings(), editor) as agent:
            new = await agent.new_session(cwd=str(tmp_path), mcp_servers=[])
            assert new.modes is not None and new.modes.current_mode_id == "default"
            assert [option.id for option in new.config_options or []] == ["mode", "model"]
            session = new.session_id
            await agent.set_config_option(session_id=session, config_id="model", value="small")
            await agent.prompt(session_id=session, prompt=text("go"))
            await agent.set_config_option(session_id=session, config_id="model", value="large")
            await agent.prompt(session_id=session, prompt=text("go"))
            assert [request.model for request in provider.requests] == ["small", "large"]
            changed = await agent.set_config_option(session_id=session, config_id="mode", value="plan")
            assert changed.config_options[0].current_value == "plan"
            await agent.set_session_mode(session_id=session, mode_id="bypass")
            assert [update.session_update for update in editor.updates[-2:]] == [
                "current_mode_update",
                "config_option_update",
            ]
            for config, value in (("model", "huge"), ("mode", "root"), ("colour", "red")):
                error = await refusal(agent.set_config_option(session_id=session, config_id=config, value=value))
                assert "there is no" in str(error)

    asyncio.run(play())


def test_a_failure_of_the_model_is_the_answer_to_the_prompt(tmp_path: Path) -> None:
    failed = (ModelFailed(operation=ANY, error=ErrorClass.AUTH, message="the key is not valid"),)

    async def play() -> RequestError:
        async with connected(World([failed]).surroundings(), Editor()) as agent:
            session = (await agent.new_session(cwd=str(tmp_path), mcp_servers=[])).session_id
            return await refusal(agent.prompt(session_id=session, prompt=text("go")))

    assert "the key is not valid" in str(asyncio.run(play()))


def test_sessions_are_listed_loaded_and_closed(tmp_path: Path) -> None:
    async def play() -> None:
        world, first = World([text_reply("One"), pay(), text_reply("Two"), text_reply("Three")]), Editor()
        async with connected(world.surroundings(), first) as agent:
            session = (await agent.new_session(cwd=str(tmp_path), mcp_servers=[])).session_id
            await agent.prompt(session_id=session, prompt=text("What is it?"))
            await agent.prompt(session_id=session, prompt=text("Pay."))
            await agent.close_session(session_id=session)
            assert "is not open" in str(await refusal(agent.prompt(session_id=session, prompt=text("go"))))
            (listed,) = (await agent.list_sessions(cwd=str(tmp_path))).sessions
            assert (listed.session_id, listed.title, listed.cwd) == (session, "What is it?", str(tmp_path))
            assert (await agent.list_sessions(cwd="/elsewhere")).sessions == []
            unused = (await agent.new_session(cwd=str(tmp_path), mcp_servers=[])).session_id
        second = Editor()
        async with connected(world.surroundings(), second) as agent:
            await agent.load_session(session_id=unused, cwd=str(tmp_path), mcp_servers=[])  # nothing was said in it
            assert second.updates == []
            await agent.load_session(session_id=session, cwd=str(tmp_path), mcp_servers=[])
            assert second.texts() == "OneTwo"
            assert second.statuses() == ["pending", "completed"]
            await agent.load_session(session_id=session, cwd=str(tmp_path), mcp_servers=[])  # into another window
            await agent.prompt(session_id=session, prompt=text("And now?"))
            assert second.texts() == "OneTwoOneTwoThree"
        third = Editor()
        async with connected(world.surroundings(), third) as agent:
            await agent.resume_session(session_id=session, cwd=str(tmp_path), mcp_servers=[])
            assert third.updates == []  # the editor has it

    asyncio.run(play())
