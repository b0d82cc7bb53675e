"""The registry: an input is judged by the tool's own schema, resources get one key each, and a run is one call."""

import asyncio
import threading
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.blocks import TextBlock, text_of
from loopkernel.data.effects import CheckCall, StartTool
from loopkernel.data.errors import CodecError
from loopkernel.data.ids import CallId, CheckOperation, ModelOperation, RunOperation
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.tools import (
    AccessMode,
    Claim,
    FieldResource,
    FixedResource,
    InvalidCall,
    ResourceRule,
    Tool,
    ToolOutput,
    ToolProfile,
    UnknownTool,
    ValidCall,
    Verdict,
)
from loopkernel_adapters.ports import RunContext, ToolError
from loopkernel_adapters.tools.input_schema import demand_schema, with_defaults
from loopkernel_adapters.tools.registry import MOST_FAULTS, Function, FunctionTool, Registry

from tests.adapters.driver.silent_context import SILENT

JsonObject = dict[str, JsonValue]

CALL = CallId(ModelOperation(1), 1)
SCALARS: st.SearchStrategy[JsonValue] = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from([0.5, 1.0, 2.0]), st.text("ab", max_size=3)
)
VALUES: st.SearchStrategy[JsonValue] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
    max_leaves=6,
)
SMALL = st.integers(0, 3)
TYPES = st.sampled_from(["object", "array", "string", "number", "integer", "boolean", "null"])
LEAVES: st.SearchStrategy[JsonObject] = st.fixed_dictionaries(
    {},
    optional={
        "type": TYPES | st.lists(TYPES, min_size=1, max_size=2, unique=True),
        "enum": st.lists(VALUES, min_size=1, max_size=4),
        "const": VALUES,
        "minLength": SMALL,
        "maxLength": SMALL,
        "minItems": SMALL,
        "maxItems": SMALL,
        "minimum": SMALL,
        "maximum": SMALL,
        "pattern": st.sampled_from(["a", "^b", "b$"]),
        "required": st.lists(st.sampled_from("xyz"), max_size=2, unique=True),
        "description": st.just("some words"),
    },
)
SCHEMAS: st.SearchStrategy[JsonObject] = st.recursive(
    LEAVES,
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": TYPES,
            "required": st.lists(st.sampled_from("xyz"), max_size=2, unique=True),
            "properties": st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
            "additionalProperties": st.booleans() | inner,
            "items": inner,
            "anyOf": st.lists(inner, min_size=1, max_size=2),
        },
    ),
    max_leaves=5,
)


def check(registry: Registry, tool: str, given_input: JsonValue) -> Verdict:
    command = CheckCall(operation=CheckOperation(1), call=CALL, tool=tool, input=Json.of(given_input))
    return registry.check(command)


def started(tool: str, given_input: JsonValue) -> StartTool:
    return StartTool(operation=RunOperation(1), call=CALL, run=1, tool=tool, input=Json.of(given_input), key="k")


def text_tool(
    function: Function,
    *resources: ResourceRule,
    schema: JsonObject | None = None,
    resource_key: Callable[[str], str] = str.lower,
) -> FunctionTool:
    schema = {"type": "object"} if schema is None else schema
    tool = Tool(name="tool", input_schema=Json.of(schema), profile=ToolProfile(resources=resources))
    return FunctionTool(tool=tool, function=function, resource_key=resource_key)


def echo(given_input: JsonObject, context: RunContext) -> str:
    return Json.of(given_input).text


# --- the schema ---


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"properties": {"a": {"minlength": 1}}}, "$.properties.a.minlength"),
        ({"required": ["a", "a"]}, "$.required"),
        ({"$ref": "#/x"}, '$["$ref"]'),
        ({"type": "text"}, "$.type"),
        ({"type": []}, "$.type"),
        ({"anyOf": [{}, {"items": 3}]}, "$.anyOf[1].items"),
        ({"anyOf": [3]}, "$.anyOf[0]"),
        ({"required": ["a", 1]}, "$.required[1]"),
        ({"additionalProperties": "no"}, "$.additionalProperties"),
        ({"minLength": -1}, "$.minLength"),
        ({"maxItems": True}, "$.maxItems"),
        ({"minimum": "1"}, "$.minimum"),
        ({"pattern": "("}, "$.pattern"),
        ({"pattern": 1}, "$.pattern"),
        ([], "$"),
    ],
)
def test_a_schema_that_is_not_understood_is_refused_with_its_place(schema: JsonValue, path: str) -> None:
    with pytest.raises(CodecError) as refusal:
        demand_schema(schema)
    assert [fault.path for fault in refusal.value.faults] == [path]


def test_all_faults_of_a_schema_are_told_at_once() -> None:
    with pytest.raises(CodecError) as refusal:
        demand_schema({"type": "text", "properties": {"a": {"not": 1}, "b": 1}})
    assert len(refusal.value.faults) == 3


@given(st.dictionaries(st.sampled_from("xyz"), SCALARS), st.dictionaries(st.sampled_from("xyz"), SCALARS))
def test_a_default_stands_in_only_for_a_field_that_is_not_given(given_input: JsonObject, defaults: JsonObject) -> None:
    schema: JsonObject = {"properties": {name: {"default": value} for name, value in defaults.items()}}
    complete = with_defaults(schema, given_input)
    assert {name: complete[name] for name in given_input} == given_input
    assert complete == {**defaults, **given_input}


# --- the verdict ---


@pytest.mark.rule("TOOL-18")
def test_a_tool_that_is_not_there_is_unknown() -> None:
    assert check(Registry([]), "tool", {}) == UnknownTool()


@pytest.mark.rule("TOOL-18")
def test_an_invalid_call_says_what_is_wrong_and_where() -> None:
    schema: JsonObject = {
        "type": "object",
        "properties": {"path": {"enum": ["a.txt", "b.txt"]}, "lines": {"type": "integer"}},
        "required": ["path"],
        "additionalProperties": False,
    }
    registry = Registry([text_tool(echo, schema=schema)])
    verdict = check(registry, "tool", {"path": "c.txt", "lines": "3", "more": 1})
    assert isinstance(verdict, InvalidCall)
    for told in ('$.path: must be one of "a.txt", "b.txt"', "$.lines: must be of type integer", "$.more"):
        assert told in verdict.why
    missing = check(registry, "tool", {})
    assert isinstance(missing, InvalidCall)
    assert 'lacks "path"' in missing.why


@given(st.integers(1, 50))
def test_many_faults_stay_one_short_answer(count: int) -> None:
    registry = Registry([text_tool(echo, schema={"additionalProperties": False})])
    verdict = check(registry, "tool", {f"field{number}": 1 for number in range(count)})
    assert isinstance(verdict, InvalidCall)
    assert verdict.why.count("is not a field") == min(count, MOST_FAULTS)
    assert (f"and {count - MOST_FAULTS} more" in verdict.why) == (count > MOST_FAULTS)


@given(VALUES.filter(lambda value: not isinstance(value, dict)))
def test_an_input_that_is_no_object_is_invalid_even_where_the_schema_lets_it_pass(value: JsonValue) -> None:
    assert isinstance(check(Registry([text_tool(echo, schema={})]), "tool", value), InvalidCall)


@pytest.mark.rule("TOOL-18")
def test_claims_are_the_canonical_keys_of_the_profile() -> None:
    resources = (FieldResource("path", AccessMode.WRITE), FixedResource("network", AccessMode.READ))
    registry = Registry([text_tool(echo, *resources)])
    network = Claim("network", AccessMode.READ)
    assert check(registry, "tool", {"path": "A"}) == ValidCall((Claim("a", AccessMode.WRITE), network))
    several = (Claim("a", AccessMode.WRITE), Claim("b", AccessMode.WRITE), network)
    assert check(registry, "tool", {"path": ["A", "b"]}) == ValidCall(several)


@pytest.mark.parametrize("given_input", [{}, {"path": None}, {"path": 3}, {"path": ["a", 3]}])
def test_a_resource_that_is_not_named_is_not_known(given_input: JsonObject) -> None:
    registry = Registry([text_tool(echo, FieldResource("path", AccessMode.READ))])
    assert check(registry, "tool", given_input) == ValidCall(None)


def test_a_default_names_a_resource_too() -> None:
    schema: JsonObject = {"properties": {"path": {"type": "string", "default": "Home"}}}
    registry = Registry([text_tool(echo, FieldResource("path", AccessMode.READ), schema=schema)])
    assert check(registry, "tool", {}) == ValidCall((Claim("home", AccessMode.READ),))


def test_a_tool_without_a_profile_claims_what_is_not_known() -> None:
    assert check(Registry([FunctionTool(tool=Tool(name="tool"), function=echo)]), "tool", {}) == ValidCall(None)


def test_a_resource_that_cannot_be_is_an_invalid_call() -> None:
    def refuse(name: str) -> str:
        raise ValueError(f"there can be no {name}")

    entry = text_tool(echo, FieldResource("path", AccessMode.READ), resource_key=refuse)
    assert check(Registry([entry]), "tool", {"path": "x"}) == InvalidCall("there can be no x")


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two tools are named tool"):
        Registry([text_tool(echo), text_tool(echo)])


def test_a_tool_whose_schema_is_not_understood_is_refused() -> None:
    with pytest.raises(CodecError):
        Registry([text_tool(echo, schema={"minlength": 1})])


def test_the_tools_are_offered_in_their_order() -> None:
    tools = [Tool(name=name) for name in ("b", "a", "c")]
    assert Registry(FunctionTool(tool=tool, function=echo) for tool in tools).offered() == tuple(tools)


# --- the run ---


def test_a_function_gets_its_input_with_defaults_and_its_text_is_the_output() -> None:
    schema: JsonObject = {"properties": {"path": {"default": "."}}}
    output = asyncio.run(Registry([text_tool(echo, schema=schema)]).run(started("tool", {"a": 1}), SILENT))
    assert Json.parse(text_of(output.content)).value() == {"path": ".", "a": 1}


def test_an_output_is_passed_on_as_it_is() -> None:
    wanted = ToolOutput(content=(TextBlock("x"),), final=True)

    async def later(given_input: JsonObject, context: RunContext) -> ToolOutput:
        return wanted

    for function in (later, lambda given_input, context: wanted):
        assert asyncio.run(Registry([text_tool(function)]).run(started("tool", {}), SILENT)) == wanted


def test_what_a_function_raises_comes_through() -> None:
    def fail(given_input: JsonObject, context: RunContext) -> str:
        raise ToolError("no such thing")

    with pytest.raises(ToolError, match="no such thing"):
        asyncio.run(Registry([text_tool(fail)]).run(started("tool", {}), SILENT))
    with pytest.raises(ToolError, match="there is no tool other"):
        asyncio.run(Registry([text_tool(fail)]).run(started("other", {}), SILENT))


def test_a_reference_that_nothing_has_resolved_is_judged_by_no_schema_and_never_run() -> None:
    tools = Registry([text_tool(echo, schema={"type": "object", "properties": {"n": {"type": "integer"}}})])
    given: JsonValue = {"n": {"$result": "c1"}}
    assert check(tools, "tool", given) == ValidCall(None)
    with pytest.raises(ToolError, match="which is not there; give the value itself"):
        asyncio.run(tools.run(started("tool", given), SILENT))


def test_a_blocking_function_does_not_stop_the_loop_and_an_abort_waits_for_its_end() -> None:
    begun, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def blocks(given_input: JsonObject, context: RunContext) -> str:
        begun.set()
        assert may_end.wait(60)
        ended.set()
        raise ToolError("this comes too late for anyone")

    async def aborted() -> None:
        run = asyncio.create_task(Registry([text_tool(blocks)]).run(started("tool", {}), SILENT))
        await asyncio.to_thread(begun.wait, 60)  # the loop is free, or this would never return
        run.cancel()
        await asyncio.sleep(0)
        assert not run.done()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert ended.is_set()

    asyncio.run(aborted())


def test_an_async_function_is_cancelled_at_once() -> None:
    cancelled = False

    async def waits(given_input: JsonObject, context: RunContext) -> str:
        nonlocal cancelled
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled = True
            raise
        raise AssertionError("nobody sets this event")

    async def aborted() -> None:
        run = asyncio.create_task(Registry([text_tool(waits)]).run(started("tool", {}), SILENT))
        await asyncio.sleep(0)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    asyncio.run(aborted())
    assert cancelled
