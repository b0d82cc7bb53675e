"""A registered secret in every mouth, plain and encoded and cut in pieces: nothing that is kept or shown holds it."""

import asyncio
import base64
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.codec import effects_to_text
from loopkernel.data.effects import StartTool
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelCall, ModelCompleted, ModelInput, ModelReasoning, ModelText
from loopkernel.data.policy import Policy
from loopkernel.data.tools import ToolOutput
from loopkernel.data.words import ErrorClass, StopReason
from loopkernel_adapters.ports import RunContext, ToolError
from loopkernel_adapters.providers.scripted import ANY, Reply, text_reply
from loopkernel_adapters.secrets import Secrets, handle
from loopkernel_adapters.stores.jsonl import JsonlStore

from tests.adapters.driver.driver_world import FunctionTools, World, complaints_of, said, say
from tests.adapters.security.canaries import CANARY, ENCODINGS, holds_canary

SECRETS = Secrets({"KEY": CANARY})


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_the_look_out_finds_every_canary(encoding: str) -> None:
    assert holds_canary(f"before {ENCODINGS[encoding](CANARY)} behind")
    assert not holds_canary(f"before {ENCODINGS[encoding]('incorrect horse, battery and staple')} behind")


@pytest.mark.rule("TOOL-12")
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_no_encoding_gets_through_and_none_comes_back(encoding: str) -> None:
    text = f"before {ENCODINGS[encoding](CANARY)} behind"
    hidden = SECRETS.hide(text)
    assert not holds_canary(hidden)
    assert "{{secret:KEY" in hidden
    assert SECRETS.hide(hidden) == hidden
    # Where the value was encoded, what stands in its place is not a handle: a tool would be given something else.
    revealed = SECRETS.reveal(Json.of(hidden)).value()
    assert revealed == (text if handle("KEY") in hidden else hidden)


@given(value=st.text(min_size=6, max_size=12), before=st.binary(max_size=5), behind=st.binary(max_size=5))
@pytest.mark.rule("TOOL-12")
def test_base64_gives_away_no_value_wherever_it_stands(value: str, before: bytes, behind: bytes) -> None:
    try:
        secrets = Secrets({"KEY": value})
    except ValueError:
        return
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        text = encode(before + value.encode() + behind).decode()
        assert SECRETS.hide(text) == text or value == CANARY
        assert secrets.hide(text) != text
        assert not holds_canary(secrets.hide(text), value.encode().decode("latin-1"))


class TellsAll:
    """Says the canary in every encoding, wherever a tool can say something, and fails with it."""

    def __init__(self, size: int) -> None:
        self._size = size

    async def __call__(self, command: StartTool, context: RunContext) -> ToolOutput:
        for encode in ENCODINGS.values():
            text = encode(CANARY)
            for begin in range(0, len(text), self._size):
                await context.report_progress(text[begin : begin + self._size])
            await context.report_progress(" and ")
        if command.input == Json.of({}):
            raise ToolError(" or ".join(encode(CANARY) for encode in ENCODINGS.values()))
        return said(" or ".join(encode(CANARY) for encode in ENCODINGS.values()))


def reply_that_tells(size: int) -> Reply:
    """Reasoning, text and arguments with each form of the canary, in pieces of that size, and two calls of the tool."""
    forms = " and ".join(encode(CANARY) for encode in ENCODINGS.values())
    pieces = [forms[begin : begin + size] for begin in range(0, len(forms), size)]
    return (
        *(ModelReasoning(ANY, piece) for piece in pieces),
        *(ModelText(ANY, piece) for piece in pieces),
        *(ModelInput(ANY, piece) for piece in pieces),
        ModelCall(operation=ANY, provider_id="a", tool="tells_all", input=Json.of({"key": forms})),
        ModelCall(operation=ANY, provider_id="b", tool="tells_all", input=Json.of({})),
        ModelCompleted(ANY, StopReason.TOOL_USE),
    )


@pytest.mark.rule("TOOL-12")
@pytest.mark.parametrize("size", [1, 7, 1_000])
def test_no_log_no_event_and_no_error_holds_the_canary(size: int, tmp_path: Path) -> None:
    async def run() -> None:
        complaints = complaints_of(asyncio.get_running_loop())
        forms = " ".join(encode(CANARY) for encode in ENCODINGS.values())
        failing = (ConnectionError(forms),)
        world = World(
            [reply_that_tells(size), failing, text_reply("b")],
            tools=FunctionTools(tells_all=TellsAll(size)),
            store=JsonlStore(tmp_path / "log.jsonl"),
            secrets=SECRETS,
            policy=Policy(retry=None),
        )

        def breaks(event: object) -> None:
            raise ValueError(forms)

        async with await world.open(breaks) as driver:
            await driver.send(say(f"use {forms}"))
            await driver.rest()
            shown = [repr(driver), repr(driver.state), repr(SECRETS), effects_to_text(tuple(world.events))]
        assert driver.state.session is not None and driver.state.session.error is not None
        assert driver.state.session.error.error is ErrorClass.NETWORK
        assert len(complaints) > 0
        for text in (*shown, *complaints):
            assert not holds_canary(text)
        for file in tmp_path.iterdir():
            assert not holds_canary(file.read_bytes().decode("latin-1"))
        assert [status for status, _ in world.results()] == ["done", "error"]

    asyncio.run(run())
