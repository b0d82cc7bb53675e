"""A tool out of a typed function: what the schema lets through is checked, told apart, converted and given."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import attrs
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.errors import Fault
from loopkernel.data.json_text import JsonValue
from loopkernel.data.tools import (
    AccessMode,
    Claim,
    Decision,
    EffectClass,
    FieldResource,
    InvalidCall,
    ToolProfile,
    ValidCall,
)
from loopkernel_adapters.ports import RunContext
from loopkernel_adapters.tools.docstrings import described
from loopkernel_adapters.tools.functions import ToolSignatureError, tool
from loopkernel_adapters.tools.input_schema import JsonObject
from loopkernel_adapters.tools.threads import Aborted

from tests.adapters.tools.functions_world import EVERYTHING, GOOD, SCHEMA, Unknown, everything
from tests.adapters.tools.tools_world import told, verdict

SCALARS: st.SearchStrategy[JsonValue] = st.sampled_from(
    [None, True, False, 0, 1, -1, 3, 0.5, 2.0, "", "a", "red", "3", "true", "[1]", "x"]
)
VALUES: st.SearchStrategy[JsonValue] = SCALARS | st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["x", "y", "number", "deep", "points"]), inner, max_size=2)
    ),
    max_leaves=4,
)


# --- the schema and the check ---


@given(st.dictionaries(st.sampled_from([*GOOD, "either", "most", "other"]), VALUES, max_size=3))
def test_what_the_schema_lets_through_the_check_lets_through(changed: JsonObject) -> None:
    given_input = {**GOOD, **changed}
    faults = EVERYTHING.judge(given_input) if EVERYTHING.judge is not None else ()
    fits = not list(SCHEMA.faults(given_input))
    if fits:
        assert not faults
    if faults:
        assert all(fault.path.startswith("$") and "pydantic" not in fault.problem for fault in faults)
    elif not fits:  # more is let through in two cases alone: JSON in a text, and a whole number as 3.0
        assert any(isinstance(value, str | float | list | dict) for value in changed.values())
    if not faults and changed.keys() <= {"sure"}:
        assert isinstance(json.loads(told([EVERYTHING], "everything", **given_input))[3], bool)


def test_a_whole_input_is_converted() -> None:
    assert told([EVERYTHING], "everything", **GOOD) == '[3, 1.0, "n", true, "red", 1, 2, [1, "b"], 3]'


@pytest.mark.parametrize(
    ("given_input", "words"),
    [
        ({"count": "three"}, '$.count: should be a valid integer, and is "three"'),
        ({"sure": "3"}, "$.sure: should be a valid boolean, and is 3"),
        ({"sure": 1}, "$.sure: should be a valid boolean, and is 1"),
        ({"name": 5}, "$.name: should be a valid string, and is 5"),
        ({"colour": "green"}, "$.colour: should be 'red' or 'blue', and is \"green\""),
        ({"most": 10}, "$.most: should be less than or equal to 9, and is 10"),
        ({"point": {}}, "$.point.x: is needed, and is not given"),
        (
            {"order": {"number": 1, "points": [{"x": "a"}]}},
            '$.order.points[0].x: should be a valid integer, and is "a"',
        ),
        ({"point": {"x": 1, "z": 2}}, "$.point.z: is not a field"),
        ({"others": 1}, '$.others: is not a field; the fields are "count", "share"'),
        ({"name": "x" * 3, "numbers": ["y" * 500]}, '$.numbers[0]: should be a valid integer, and is "yyy'),
    ],
)
def test_what_does_not_fit_is_told_with_field_value_and_what_is_wanted(given_input: JsonObject, words: str) -> None:
    judged = verdict([EVERYTHING], "everything", **{**GOOD, **given_input})
    assert isinstance(judged, InvalidCall)
    assert words in judged.why
    assert "https" not in judged.why and len(judged.why) < 400


def test_a_field_that_is_missing_is_named() -> None:
    lacking = {name: value for name, value in GOOD.items() if name != "count"}
    assert verdict([EVERYTHING], "everything", **lacking) == InvalidCall("$.count: is needed, and is not given")


@pytest.mark.parametrize(
    ("name", "given_value", "meant"),
    [
        ("count", "3", 3),
        ("count", 3.0, 3),
        ("sure", "false", False),
        ("numbers", "[1, 2.0]", [1, 2]),
        ("point", '{"x": "4"}', {"x": 4}),
        ("either", "null", "null"),  # a text fits, so it is one
        ("name", "3", "3"),
    ],
)
def test_json_in_a_text_is_read_where_a_text_does_not_fit(name: str, given_value: JsonValue, meant: JsonValue) -> None:
    seen = told([EVERYTHING], "everything", **{**GOOD, name: given_value})
    assert seen == told([EVERYTHING], "everything", **{**GOOD, name: meant})


def test_names_that_pydantic_has_for_itself_are_names_like_others() -> None:
    @tool
    def odd(model_config: int, schema: int, copy: int, json: int, _private: int = 4) -> int:
        """Odd names."""
        return model_config + schema + copy + json + _private

    assert told([odd], "odd", model_config=1, schema=1, copy=1, json=1) == "8"


def test_the_schema_says_what_signature_and_docstring_say() -> None:
    @tool
    def find(customer: str, most: Annotated[int, pydantic.Field(description="how many", gt=0)] = 10) -> str:
        """Find the latest orders
        of a customer.

        A longer story.

        Args:
            customer (str): the number
                on the card
            most: not this, since the type says it
        """
        return customer

    assert find.tool.description == "Find the latest orders of a customer."
    assert find.tool.input_schema.value() == {
        "type": "object",
        "properties": {
            "customer": {"type": "string", "description": "the number on the card"},
            "most": {"type": "integer", "description": "how many", "exclusiveMinimum": 0, "default": 10},
        },
        "required": ["customer"],
        "additionalProperties": False,
    }
    assert find("x") == "x"


@pytest.mark.parametrize(
    ("docstring", "first", "of_parameters"),
    [
        ("", "", {}),
        ("One.\n\nTwo.", "One.", {}),
        (
            "One.\n\nArgs:\n    a: x\n    *b: y: z\n\n        more\nReturns:\n    c: no",
            "One.",
            {"a": "x", "b": "y: z more"},
        ),
        ("One.\nArguments:\n  a (int): x\n  Returns:\n  b: no", "One.", {"a": "x"}),
        ("One.\n:param a: x\n  more\n:param int b: y\n:returns: no", "One.", {"a": "x more", "b": "y"}),
    ],
)
def test_two_forms_of_docstrings_are_read(docstring: str, first: str, of_parameters: dict[str, str]) -> None:
    assert described(docstring) == (first, of_parameters)


@given(st.text("ab:( )*\n\targs", max_size=60))
def test_any_docstring_can_be_read(docstring: str) -> None:
    described(docstring)


# --- what cannot be a tool ---


def many(*values: int) -> None: ...
def named(**values: int) -> None: ...
def unnamed(value: int, /) -> None: ...
def untyped(value) -> None: ...  # type: ignore[no-untyped-def]  # that is what is refused
def unknown(value: Unknown) -> None: ...
def unresolved(value: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821  # that is what is refused
def callback(value: Callable[[], int]) -> None: ...
def false_default(value: int = None) -> None: ...  # type: ignore[assignment]  # noqa: RUF013  # that is what is refused
def unspeakable(value: float = float("nan")) -> None: ...
def asks(context: RunContext) -> None: ...
async def looks(aborted: Aborted) -> None: ...


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (many, "takes any number of values"),
        (named, "takes any number of values"),
        (unnamed, "no name that can be given"),
        (untyped, "the parameter value has no type; annotate it"),
        (unknown, "a type that cannot be checked"),
        (unresolved, "annotations cannot be read"),
        (callback, "JSON cannot say"),
        (false_default, "a default does not fit the type of its parameter"),
        (unspeakable, "nothing that JSON can say"),
        (asks, "use async def"),
        (looks, "cancelled where it awaits"),
    ],
)
def test_what_can_be_no_tool_is_refused_when_it_is_made(function: Callable[..., object], why: str) -> None:
    with pytest.raises(ToolSignatureError, match=why) as refusal:
        tool(function)
    assert str(refusal.value).startswith(f"{function.__name__}: ")
    assert "arbitrary_types_allowed" not in str(refusal.value)


def test_a_resource_has_to_be_a_parameter() -> None:
    with pytest.raises(ToolSignatureError, match="the resource path is not a parameter"):
        tool(everything, effect=EffectClass.READ_ONLY, resources=[FieldResource("path", AccessMode.READ)])


# --- the profile ---


@pytest.mark.rule("TOOL-1")
def test_settings_are_the_profile_and_no_setting_is_none() -> None:
    assert EVERYTHING.tool.profile is None
    assert tool(everything, serial=True).tool.profile == ToolProfile(serial=True, approval=Decision.ASK)
    read = tool(everything, effect=EffectClass.READ_ONLY, timeout_ms=5, early=True).tool.profile
    assert read == ToolProfile(effect=EffectClass.READ_ONLY, timeout_ms=5, early=True)
    allowed = tool(everything, effect=EffectClass.DANGEROUS, approval=Decision.ALLOW, name="other", description="words")
    assert (allowed.tool.name, allowed.tool.description) == ("other", "words")
    assert allowed.tool.profile == ToolProfile()


@pytest.mark.rule("TOOL-2", "TOOL-18")
def test_what_is_put_right_is_what_is_claimed() -> None:
    @tool(effect=EffectClass.IDEMPOTENT, resources=[FieldResource("paths", AccessMode.WRITE)])
    def touch(paths: list[str]) -> None:
        """Touch files."""

    claimed = ValidCall((Claim("a", AccessMode.WRITE), Claim("b", AccessMode.WRITE)))
    assert verdict([touch], "touch", paths=["a", "b"]) == claimed
    assert verdict([touch], "touch", paths='["a", "b"]') == claimed


@pytest.mark.rule("ASK-1")
def test_a_parameter_may_hold_a_command() -> None:
    def run(line: str) -> str:
        return line

    assert tool(run, commands=["line"]).tool.profile == ToolProfile(approval=Decision.ASK, commands=("line",))
    with pytest.raises(ToolSignatureError, match="the command cmd is not a parameter"):
        tool(run, commands=["cmd"])


@pytest.mark.rule("TOOL-18")
def test_a_search_claims_all_that_lies_within() -> None:
    @tool(resources=[FieldResource("folder", AccessMode.READ, tree=True)])
    def look(folder: str = ".") -> str:
        return folder

    assert verdict([look], "look") == ValidCall((Claim(".", AccessMode.READ, tree=True),))


@pytest.mark.rule("TOOL-18")
def test_resources_are_claimed_also_by_a_default() -> None:
    @tool(effect=EffectClass.READ_ONLY, resources=[FieldResource("path", AccessMode.READ)], resource_key=str.lower)
    def look(path: Path = Path("Home")) -> str:
        return str(path)

    assert verdict([look], "look") == ValidCall((Claim("home", AccessMode.READ),))
    assert verdict([look], "look", path="A/B") == ValidCall((Claim("a/b", AccessMode.READ),))
    assert told([look], "look") == "Home"


def test_a_tool_that_is_given_another_judge_or_function_goes_by_it() -> None:
    """Although the text of the input fits the signature as it is."""

    @tool
    async def look(path: str) -> str:
        """Look."""
        return path

    async def other(given_input: JsonObject, context: RunContext) -> str:
        return "other"

    assert isinstance(verdict([look], "look", path="a"), ValidCall)
    assert told([look], "look", path="a") == "a"
    judged = attrs.evolve(look, judge=lambda given_input: [Fault("$.path", "is not for you")])
    assert verdict([judged], "look", path="a") == InvalidCall("$.path: is not for you")
    assert told([attrs.evolve(look, function=other)], "look", path="a") == "other"


def test_a_default_is_of_the_type_that_the_schema_says() -> None:
    @tool
    async def show(value: float = 1) -> str:
        """Show."""
        return repr(value)

    assert told([show], "show") == told([show], "show", value=1) == "1.0"
