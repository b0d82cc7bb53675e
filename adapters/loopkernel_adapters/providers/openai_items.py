"""The items of a response that are no messages and no calls of ours: which are kept, and which are shown as calls.

An item that is kept stands in the thread verbatim and goes back to its model. One that waits for an answer of the
client is not kept: nobody here answers it, and given back without an answer it would spoil the request.
"""

from loopkernel.data.json_text import JsonValue

from loopkernel_adapters.providers.openai_fields import JsonObject, text

REASONING = "reasoning"
_SPOKEN = frozenset({"message", "function_call", "function_call_output", "custom_tool_call"})
_OWED = frozenset({"computer_call", "local_shell_call", "shell_call", "apply_patch_call", "mcp_approval_request"})
_SHOWN_INPUT = ("server_label", "name", "action", "queries", "arguments", "code", "input", "status")
_SHOWN_RESULT = ("output", "outputs", "results", "error")


def is_kept(item: JsonObject) -> bool:
    """Whether the item goes back to its model. Reasoning does only when it is encrypted: the server stores none."""
    kind = text(item.get("type"))
    if kind == REASONING:
        return bool(text(item.get("encrypted_content")))
    return bool(kind) and kind not in _SPOKEN and kind not in _OWED


def is_server_call(item: JsonObject) -> bool:
    """Whether the item is a call that the provider runs itself, to be shown as one."""
    kind = text(item.get("type"))
    return kind == "mcp_approval_request" or (kind.endswith("_call") and kind not in _SPOKEN)


def shown_input(item: JsonObject) -> JsonValue:
    """What is shown as the input of such a call."""
    return {field: item[field] for field in _SHOWN_INPUT if item.get(field) is not None}


def shown_result(item: JsonObject) -> JsonValue:
    """What is shown as its result; None where it has none. A generated image is left to the item itself."""
    result: JsonObject = {field: item[field] for field in _SHOWN_RESULT if item.get(field) is not None}
    return result or None
