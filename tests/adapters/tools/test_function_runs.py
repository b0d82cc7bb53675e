"""Tools of typed functions when they run: how they are awaited, stopped, cut, and what they give back."""

import asyncio
import datetime
import functools
import importlib
import sys
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, assert_type

import pytest
from loopkernel.data.blocks import TextBlock
from loopkernel.data.json_text import Json
from loopkernel.data.tools import (
    EffectClass,
    ToolOutput,
)
from loopkernel_adapters.ports import RunContext, ToolError
from loopkernel_adapters.tools.functions import NO_OUTPUT, TypedTool, as_output, tool
from loopkernel_adapters.tools.output_bounds import MOST_CHARACTERS
from loopkernel_adapters.tools.registry import Registry
from loopkernel_adapters.tools.threads import Aborted

from tests.adapters.tools.functions_world import EVERYTHING, Colour, Found, Order, Point, Unknown, everything
from tests.adapters.tools.tools_world import Listener, refused, started, told

# --- the run ---


def test_an_async_function_is_awaited_and_gets_its_context() -> None:
    @tool
    async def asks_back(question: str, context: RunContext) -> str:
        await context.report_progress("asking")
        return str(await context.ask(question))

    listener = Listener()
    output = asyncio.run(Registry([asks_back]).run(started("asks_back", question="why?"), listener))
    assert output == ToolOutput(content=(TextBlock("None"),))
    assert listener.progress == ["asking"]
    assert "context" not in asks_back.tool.input_schema.text


def test_an_instance_with_an_async_call_is_awaited_as_well() -> None:
    class Asks:
        """Asks."""

        async def __call__(self, number: int) -> int:
            return number + 1

    assert told([tool(Asks())], "Asks", number=1) == "2"


def test_an_async_function_that_a_decorator_has_wrapped_is_awaited_as_well() -> None:
    async def more(number: int) -> int:
        return number + 1

    @functools.wraps(more)
    def wrapped(number: int) -> object:
        return more(number)

    assert told([tool(wrapped)], "more", number=1) == "2"


def test_a_blocking_function_is_told_of_its_abort_in_a_thread_of_its_own() -> None:
    begun, seen = threading.Event(), threading.Event()

    @tool
    def waits(aborted: Aborted, seconds: float = 60.0) -> str:
        begun.set()
        if aborted.wait(seconds):
            seen.set()
        return threading.current_thread().name

    async def aborted() -> None:
        run = asyncio.create_task(Registry([waits]).run(started("waits"), Listener()))
        await asyncio.to_thread(begun.wait, 60)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    asyncio.run(aborted())
    assert seen.is_set()
    assert told([waits], "waits", seconds=0.0) == "loopkernel the tool waits"


def test_what_a_function_raises_comes_through_without_pydantics_own_words() -> None:
    def fails(kind: str) -> str:
        if kind == "tool":
            raise ToolError("no such order; list them")
        return str(Order.model_validate({"number": "many"}))

    typed = tool(fails)
    assert refused([typed], "fails", kind="tool") == "no such order; list them"
    words = refused([typed], "fails", kind="other")
    assert words.startswith("fails met data that does not fit: ") and "http" not in words


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        (None, NO_OUTPUT),
        (Order(number=1), '{"number":1,"points":[]}'),
        ([Point(1)], '[{"x":1,"y":0.5}]'),
        (Found(Order(number=1), datetime.date(2020, 1, 2)), '{"order":{"number":1,"points":[]},"at":"2020-01-02"}'),
        ({"a": (1, {2}), "b": Colour.RED, "c": Path("x")}, '{"a":[1,[2]],"b":"red","c":"x"}'),
        (float("nan"), '"NaN"'),
        (b"\xff", '"_w=="'),
    ],
)
def test_what_is_returned_is_told_as_text(value: object, text: str) -> None:
    assert as_output(value) == text


def test_an_output_passes_and_what_json_cannot_say_is_an_error() -> None:
    final = ToolOutput(content=(TextBlock("x"),), final=True)
    assert as_output(final) is final
    for unspeakable_value in (Unknown(), {"a": Unknown()}, [threading.Lock()], "\ud800" and {"a": "\ud800"}):
        with pytest.raises(TypeError, match="cannot be told"):
            as_output(unspeakable_value)


@pytest.mark.rule("TOOL-11")
def test_a_flood_is_cut_before_it_is_recorded() -> None:
    @tool
    def floods() -> str:
        return "x" * (MOST_CHARACTERS * 3)

    @tool
    def fails() -> str:
        raise ToolError("y" * (MOST_CHARACTERS * 3))

    for text in (told([floods], "floods"), refused([fails], "fails")):
        assert len(text) < 50_000
        assert "(2960000 characters are left out here)" in text


def test_a_tool_is_made_with_and_without_brackets() -> None:
    assert isinstance(tool(everything), TypedTool)
    assert isinstance(tool()(everything), TypedTool)
    assert Json.of(EVERYTHING.tool.input_schema.value()) == EVERYTHING.tool.input_schema


def test_a_tool_is_called_as_its_function_also_by_a_type_checker() -> None:
    @tool
    def more(number: int) -> int:
        return number + 1

    @tool(effect=EffectClass.READ_ONLY)
    async def later(number: int) -> str:
        return str(number)

    assert assert_type(more(1), int) == 2
    assert asyncio.run(assert_type(later(number=2), Coroutine[Any, Any, str])) == "2"  # Any: as every coroutine has it
    with pytest.raises(TypeError):
        more("1", 2)  # type: ignore[call-arg, arg-type]  # the mistakes that a checker shall find


def test_without_the_extra_its_name_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic", None)
    monkeypatch.delitem(sys.modules, "loopkernel_adapters.tools.functions")
    with pytest.raises(ImportError, match=r"pip install 'loopkernel\[tools\]'"):
        importlib.import_module("loopkernel_adapters.tools.functions")
