"""The provider on loopback: which requests are the conversation, which are for a summary, and which are beside both."""

import json
from urllib.request import Request, urlopen

import pytest
from loopkernel.data.json_text import JsonValue
from loopkernel_adapters.conform.provider import SUMMARY, Provider
from loopkernel_adapters.conform.script import said
from loopkernel_adapters.conform.shell import ShellHint

SHELL: JsonValue = {
    "name": "bash",
    "description": "Run a command",
    "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
}


@pytest.mark.parametrize(
    ("words", "tools", "told"),
    [
        ("say-1: go", [SHELL], "done"),
        ("Summarise what was said", [SHELL], SUMMARY),
        ("What came before was replaced by a summary", [SHELL], "done"),
        ("Your summary will take its place", [], SUMMARY),
        ("A title for this", [], "aside"),
    ],
)
def test_a_request_is_answered_by_what_it_is_for(words: str, tools: list[JsonValue], told: str) -> None:
    with Provider((said("done"),), "effects", ShellHint(), None) as provider:
        asked = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": words}], "tools": tools}
        with urlopen(Request(f"{provider.url}/v1/messages", json.dumps(asked).encode())) as answer:  # on loopback
            assert json.load(answer)["content"] == [{"type": "text", "text": told}]
    assert len(provider.exchanges) == (told == "done")
    assert provider.summaries == ([0] if told == SUMMARY else [])
    assert provider.asides == (told == "aside")
