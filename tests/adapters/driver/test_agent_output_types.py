"""An agent whose answers have a Python type: whatever fits comes out as a value of it, and what does not is told."""

import dataclasses
import json

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.messages import ResultMessage
from loopkernel.data.words import CallStatus, TurnEndReason
from loopkernel_adapters.agent import Agent, NoAnswer
from loopkernel_adapters.providers.scripted import ScriptedProvider, call_reply, text_reply
from loopkernel_adapters.tools.functions_outputs import OUTPUT_TOOL, OutputType
from typing_extensions import TypedDict


class Town(pydantic.BaseModel):
    name: str
    people: int = pydantic.Field(ge=0)


@dataclasses.dataclass
class Place:
    town: Town
    open: bool = True


class Pair(TypedDict):
    left: int
    right: list[str]


def asked(kind: type[object], *inputs: JsonValue) -> Agent[object]:
    replies = [call_reply((OUTPUT_TOOL, Json.of(each))) for each in inputs]
    return Agent(ScriptedProvider(replies), output_type=kind)


@pytest.mark.parametrize(
    ("kind", "given_input", "value"),
    [
        (Town, {"name": "Ulm", "people": 3}, Town(name="Ulm", people=3)),
        (Place, {"town": {"name": "Ulm", "people": 3}}, Place(Town(name="Ulm", people=3))),
        (Pair, {"left": 1, "right": ["a"]}, Pair(left=1, right=["a"])),
        (list[int], {"value": [1, 2]}, [1, 2]),
        (str, {"value": "yes"}, "yes"),
        (int, {"value": "7"}, 7),  # what models often do is put right
    ],
)
def test_the_output_is_a_value_of_the_type(kind: type[object], given_input: JsonValue, value: object) -> None:
    result = asked(kind, given_input).run_sync("go")
    assert (result.reason, result.output, result.problem) == (TurnEndReason.OUTPUT, value, None)
    assert result.output_or_raise() == value


@given(st.builds(Town, name=st.text(max_size=8), people=st.integers(0, 10**6)))
def test_what_the_type_writes_it_reads(town: Town) -> None:
    value: JsonValue = json.loads(town.model_dump_json())
    assert OutputType(Town).read(Json.of(value)) == town


@pytest.mark.rule("CALL-5")
def test_what_does_not_fit_is_told_and_given_again() -> None:
    result = asked(Town, {"name": "Ulm", "people": -1}, {"name": "Ulm", "people": 1}).run_sync("go")
    assert result.output == Town(name="Ulm", people=1)
    session = result.state.session
    assert session is not None
    wrong, right = (
        message.results[0] for message in session.thread if isinstance(message, ResultMessage) and message.results
    )
    assert (wrong.status, right.status) == (CallStatus.ERROR, CallStatus.DONE)
    assert "people" in str(wrong.content)
    assert "greater than or equal to 0" in str(wrong.content)


def test_a_turn_without_an_output_is_not_taken_for_one() -> None:
    agent = Agent(ScriptedProvider([text_reply("It is Ulm."), text_reply("Ulm, as I said.")]), output_type=Town)
    result = agent.run_sync("go")
    assert (result.reason, result.output) == (TurnEndReason.ERROR, None)
    with pytest.raises(NoAnswer, match=r"failed \(invalid output\)"):
        result.output_or_raise()


def test_the_type_is_known_to_a_type_checker() -> None:
    """mypy reads this file; what it does not know of the output is an error of `make check`."""
    agent = Agent(
        ScriptedProvider([call_reply((OUTPUT_TOOL, Json.of({"name": "Ulm", "people": 3})))]), output_type=Town
    )
    town = agent.run_sync("go").output_or_raise()
    assert town.people + 1 == 4
    untyped: Json | None = Agent(ScriptedProvider([text_reply("hello")])).run_sync("go").output
    assert untyped is None


def test_an_output_of_an_older_log_that_does_not_fit_is_told() -> None:
    with pytest.raises(ValueError, match="people: is needed"):
        OutputType(Town).read(Json.of({"name": "Ulm"}))


def test_a_type_that_json_cannot_say_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="not a type that JSON can say"):
        Agent(ScriptedProvider([]), output_type=ScriptedProvider)
