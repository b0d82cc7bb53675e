"""Several tools ports as one."""

import asyncio

import pytest
from loopkernel.data.blocks import text_of
from loopkernel.data.effects import CheckCall, StartTool
from loopkernel.data.ids import CallId, CheckOperation, ModelOperation, RunOperation
from loopkernel.data.json_text import Json
from loopkernel.data.tools import ToolOutput, UnknownTool, ValidCall
from loopkernel_adapters.ports import RunContext, ToolError
from loopkernel_adapters.tools.registry import CombinedTools

from tests.adapters.driver.driver_world import FunctionTools, said
from tests.adapters.driver.silent_context import SILENT

CALL = CallId(ModelOperation(1), 1)
EMPTY = Json.of({})


async def first(command: StartTool, context: RunContext) -> ToolOutput:
    return said("first")


async def second(command: StartTool, context: RunContext) -> ToolOutput:
    return said("second")


COMBINED = CombinedTools([FunctionTools(a=first, b=first), FunctionTools(c=second)])


@pytest.mark.parametrize(("tool", "spoken"), [("a", "first"), ("b", "first"), ("c", "second")])
def test_each_call_goes_to_the_part_that_offers_its_tool(tool: str, spoken: str) -> None:
    assert [offered.name for offered in COMBINED.offered()] == ["a", "b", "c"]
    check = CheckCall(operation=CheckOperation(1), call=CALL, tool=tool, input=EMPTY)
    assert isinstance(COMBINED.check(check), ValidCall)
    start = StartTool(operation=RunOperation(1), call=CALL, run=1, tool=tool, input=EMPTY, key="k")
    assert text_of(asyncio.run(COMBINED.run(start, SILENT)).content) == spoken


def test_what_no_part_offers_is_unknown() -> None:
    check = CheckCall(operation=CheckOperation(1), call=CALL, tool="d", input=EMPTY)
    assert COMBINED.check(check) == UnknownTool()
    start = StartTool(operation=RunOperation(1), call=CALL, run=1, tool="d", input=EMPTY, key="k")
    with pytest.raises(ToolError, match="there is no tool d here"):
        asyncio.run(COMBINED.run(start, SILENT))


def test_names_are_unique_across_the_parts() -> None:
    with pytest.raises(ValueError, match="two tools are named a"):
        CombinedTools([FunctionTools(a=first), FunctionTools(a=second)])
