"""What OpenAI's two APIs demand of a request, by their rules and not by the adapters: a checker for each."""

import json
import re
from collections.abc import Mapping
from typing import Any

Body = Mapping[str, Any]  # Any: JSON, judged here

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_IMAGE = re.compile(r"https?://\S+|data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}")
_FILE = re.compile(r"data:application/pdf;base64,[A-Za-z0-9+/]+={0,2}")


def demand_chat(body: Body) -> None:
    """Raises AssertionError where the chat completions API, or a strict server like it, would refuse the request."""
    _demand_document(body)
    _demand_tools([tool["function"] for tool in body.get("tools", ()) if tool["type"] == "function"], body)
    if "tool_choice" in body:
        assert body["tool_choice"]["function"]["name"] in {tool["function"]["name"] for tool in body["tools"]}
    limits = [body[name] for name in ("max_tokens", "max_completion_tokens") if name in body]
    assert len(limits) <= 1
    assert all(limit >= 1 for limit in limits)
    messages = body["messages"]
    assert messages
    seen: set[str] = set()
    awaited: list[str] = []
    for place, message in enumerate(messages):
        if awaited:
            assert message["role"] == "tool", f"message {place} stands between a call and its result"
        match message["role"]:
            case "system" | "developer":
                assert place == 0
                assert _says(message["content"])
            case "user":
                _demand_user_content(message["content"])
            case "assistant":
                calls = message.get("tool_calls")
                assert calls is None or calls, "an empty list of calls"
                assert (
                    _says(message["content"])
                    if calls is None
                    else message["content"] is None or _says(message["content"])
                )
                for call in calls or ():
                    assert call["type"] == "function"
                    _demand_call(call["id"], call["function"]["name"], call["function"]["arguments"], seen, 40)
                    awaited.append(call["id"])
            case "tool":
                assert awaited, f"message {place} answers no call"
                assert message["tool_call_id"] == awaited.pop(0)
                assert _says(message["content"])
            case role:
                raise AssertionError(role)
    assert not awaited, "calls without results"
    assert any(message["role"] not in ("system", "developer") for message in messages)


def _demand_user_content(content: object) -> None:
    if isinstance(content, str):
        assert _says(content)
        return
    assert isinstance(content, list)
    assert content
    for part in content:
        match part["type"]:
            case "text":
                assert _says(part["text"])
            case "image_url":
                assert _IMAGE.fullmatch(part["image_url"]["url"])
            case "file":
                assert part["file"]["filename"]
                assert _FILE.fullmatch(part["file"]["file_data"])
            case kind:
                raise AssertionError(kind)


def demand_responses(body: Body) -> None:
    """Raises AssertionError where the Responses API would refuse the request, made with nothing stored there."""
    _demand_document(body)
    _demand_tools([tool for tool in body.get("tools", ()) if tool["type"] == "function"], body)
    if "tool_choice" in body:
        assert body["tool_choice"]["name"] in {tool["name"] for tool in body["tools"]}
    assert body["store"] is False
    assert "previous_response_id" not in body
    assert body.get("max_output_tokens", 16) >= 16
    assert "instructions" not in body or _says(body["instructions"])
    assert body["input"]
    call_ids: set[str] = set()
    item_ids: list[str] = []
    awaited: list[str] = []
    reasoned = False
    for place, item in enumerate(body["input"]):
        own = item["type"] not in ("message", "function_call", "function_call_output")
        item_ids += [item["id"]] if own and isinstance(item.get("id"), str) and item["id"] else []
        by_user = item["type"] == "function_call_output" or item.get("role") == "user"
        assert not (reasoned and by_user), f"the reasoning before item {place} leads to nothing"
        assert not awaited or not by_user or item["type"] == "function_call_output", (
            f"item {place} comes before a result"
        )
        reasoned = item["type"] == "reasoning"
        match item["type"]:
            case "message" if item["role"] == "user":
                assert item["content"]
                for part in item["content"]:
                    _demand_part(part)
            case "message":
                assert item["role"] == "assistant"
                assert _says(item["content"])
            case "function_call":
                _demand_call(item["call_id"], item["name"], item["arguments"], call_ids, 64)
                awaited.append(item["call_id"])
            case "function_call_output":
                assert awaited, f"item {place} answers no call"
                assert item["call_id"] == awaited.pop(0)
                if isinstance(item["output"], str):
                    assert _says(item["output"])
                else:
                    assert item["output"]
                    for part in item["output"]:
                        _demand_part(part)
            case kind:
                assert isinstance(kind, str)
                assert kind != "reasoning" or item["encrypted_content"]
                assert not kind.startswith("mcp_approval")
    assert not awaited, "calls without results"
    assert not reasoned, "the reasoning at the end leads to nothing"
    assert len(item_ids) == len(set(item_ids)), "an item stands twice"


def _demand_part(part: Body) -> None:
    match part["type"]:
        case "input_text":
            assert _says(part["text"])
        case "input_image":
            assert _IMAGE.fullmatch(part["image_url"])
        case "input_file" if "file_url" in part:
            assert part["file_url"].startswith("http")
        case "input_file":
            assert part["filename"]
            assert _FILE.fullmatch(part["file_data"])
        case kind:
            raise AssertionError(kind)


def _demand_document(body: Body) -> None:
    """Valid JSON in valid Unicode, written as the vendor's client writes it."""
    written = json.dumps(body, ensure_ascii=False, allow_nan=False).encode("utf-8")
    assert json.loads(written) == body
    assert body["stream"] is True
    assert body["model"]


def _demand_tools(tools: list[Body], body: Body) -> None:
    assert "tools" not in body or body["tools"]
    names = [tool["name"] for tool in tools]
    assert len(names) == len(set(names)), "two tools of one name"
    for tool in tools:
        assert _NAME.fullmatch(tool["name"])
        assert isinstance(tool["description"], str)
        assert tool["parameters"]["type"] == "object"
        assert isinstance(tool["parameters"]["properties"], dict)
        assert not {"anyOf", "oneOf", "allOf", "enum", "not"} & set(tool["parameters"])


def _demand_call(call_id: str, name: str, arguments: str, seen: set[str], longest: int) -> None:
    assert 1 <= len(call_id) <= longest
    assert call_id.isprintable()
    assert call_id not in seen, f"the id {call_id} stands twice"
    seen.add(call_id)
    assert _NAME.fullmatch(name)
    assert isinstance(json.loads(arguments), dict)


def _says(text: object) -> bool:
    return isinstance(text, str) and bool(text.strip())
