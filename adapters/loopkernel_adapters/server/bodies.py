"""What clients send: bounded, in time, JSON, and as the description says; all else is refused in words."""

import asyncio
from collections.abc import Mapping

from loopkernel.data.errors import CodecError
from loopkernel.data.json_text import JsonValue, parse_json
from starlette.requests import Request

from loopkernel_adapters.tools.input_schema import InputSchema

PATIENCE = 30.0  # seconds for a body to come whole
MOST_FAULTS = 5  # that are told

Object = dict[str, JsonValue]


class Wrong(Exception):
    """A request cannot be taken: `status` and `error` tell programs why, the message tells people."""

    def __init__(self, status: int, error: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.error = error


async def body_of(request: Request, schema: InputSchema, most_bytes: int) -> Object:
    """The object that was sent; without a body, one without fields. Raises Wrong."""
    text = await _text_of(request, most_bytes)
    try:
        value = parse_json(text) if text.strip() else {}
    except CodecError as error:
        raise Wrong(400, "body", f"the body is not JSON that is understood: {error}") from error
    faults = [fault for _, fault in zip(range(MOST_FAULTS), schema.faults(value), strict=False)]
    if faults or not isinstance(value, dict):
        told = "; ".join(f"{fault.path} {fault.problem}" for fault in faults)
        raise Wrong(400, "body", f"the body is not as /openapi.json describes it: {told}")
    return value


async def _text_of(request: Request, most_bytes: int) -> str:
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise Wrong(415, "media-type", "send JSON, as Content-Type: application/json")
    received = bytearray()
    try:
        async with asyncio.timeout(PATIENCE):
            async for chunk in request.stream():
                received += chunk
                if len(received) > most_bytes:
                    raise Wrong(413, "too-large", f"the body is larger than {most_bytes} bytes")
    except TimeoutError:
        raise Wrong(408, "slow", f"the body did not come within {PATIENCE:g} s") from None
    try:
        return received.decode()
    except UnicodeDecodeError as error:
        raise Wrong(400, "body", f"the body is not UTF-8 at byte {error.start}") from error


def text_in(body: Mapping[str, JsonValue], name: str) -> str:
    """The text of that field; what is not there is empty."""
    value = body.get(name, "")
    return value if isinstance(value, str) else ""


def number_in(body: Mapping[str, JsonValue], name: str) -> int:
    """The number of that field, which is there by its schema."""
    value = body.get(name)
    assert isinstance(value, int)  # the body was judged by its schema
    return value
