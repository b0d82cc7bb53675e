"""What a dialect, further fields, a model's name and a schema change in a request to OpenAI or a server like it."""

import pytest
from loopkernel.data.blocks import (
    MediaBlock,
)
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.tools import Tool
from loopkernel_adapters.providers.json_fields import JsonObject
from loopkernel_adapters.providers.openai.chat import ChatDialect
from loopkernel_adapters.providers.openai.responses import reasons
from loopkernel_adapters.providers.shown_media import ShownImage, ShownText, shown

from tests.adapters.providers.openai_threads import PNG, ROUND, chat, responses
from tests.adapters.providers.openai_world import MODEL, READ, asking

# --- settings -----------------------------------------------------------------------------------------


def test_a_dialect_says_how_a_server_differs() -> None:
    dialect = ChatDialect(
        limit_field="max_tokens",
        instructions_role="developer",
        asks_for_usage=False,
        reasoning_field="reasoning_content",
    )
    body = chat(asking(*ROUND, instructions="Be brief.", max_output_tokens=9), dialect)
    assert "stream_options" not in body
    assert body["max_tokens"] == 9
    messages = body["messages"]
    assert isinstance(messages, list)
    assert messages[0] == {"role": "developer", "content": "Be brief."}
    assert messages[2]["reasoning_content"] == "Hm."  # type: ignore[index,call-overload]  # JSON


def test_further_fields_go_along_and_take_nothing_away() -> None:
    search: JsonObject = {"type": "web_search"}
    body = responses(asking(), model="other", reasoning={"effort": "low"}, tools=[search], include=["x"])
    assert body["model"] == MODEL
    assert body["reasoning"] == {"effort": "low"}
    assert body["include"] == ["x", "reasoning.encrypted_content"]
    tools = body["tools"]
    assert isinstance(tools, list)
    assert tools[0] == search
    assert len(tools) == 2
    assert chat(asking(), reasoning_effort="low", stream=False)["stream"] is True
    assert responses(asking(tools=()), tools=[search])["tools"] == [search]


@pytest.mark.parametrize(
    ("model", "expected"),
    [("gpt-5", True), ("o3", True), ("gpt-4o", False), ("gpt-4.1-mini", False), ("gpt-oss", True)],
)
def test_only_models_that_reason_are_asked_for_their_reasoning(model: str, expected: bool) -> None:
    assert reasons(model) is expected
    assert ("include" in responses(asking(model=model), encrypted=reasons(model))) is expected


CHOICES: JsonValue = {"anyOf": [{"required": ["a"]}], "oneOf": [{}], "allOf": [{}], "not": {"required": ["b"]}}


@pytest.mark.parametrize("schema", [{}, True, [], {"type": "string"}, {"type": "object"}, {"properties": []}, CHOICES])
def test_any_schema_is_one_of_an_object(schema: JsonValue) -> None:
    request = asking(tools=(Tool(name="t", input_schema=Json.of(schema)), READ, READ))
    chat(request)
    responses(request)


def test_an_address_with_data_in_it_says_itself_what_the_data_is() -> None:
    address = f"data:image/png;base64,{PNG}"
    for label in ("application/pdf", "image/jpeg", "text/plain", ""):
        assert shown(MediaBlock(label, address)) == ShownImage(address)
    assert shown(MediaBlock("image/png", "data:text/plain;base64,aGk=")) == ShownText("hi")
