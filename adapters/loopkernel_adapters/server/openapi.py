"""The description of the server, as OpenAPI has it, made of the operations that its routes are made of."""

from loopkernel.data.json_text import JsonValue

from loopkernel_adapters.server.operations import ERROR, OPERATIONS, RUN_ID, Operation

VERSION = "3.1.0"
FAULTS = {
    "400": "The request is not as it is described.",
    "401": "The token is missing, or another one.",
    "403": "A page of an origin that may not use this server.",
    "404": "There is no such run.",
    "409": "It was refused, or it is not what waits any more.",
    "413": "The body is too large.",
    "415": "The body is not JSON.",
    "421": "The server goes by another name.",
    "503": "The server is full, or the log cannot be written now.",
}


def openapi_document(version: str) -> dict[str, JsonValue]:
    """The whole of it; `version` is that of this package."""
    paths: dict[str, JsonValue] = {}
    for operation in OPERATIONS:
        at = paths.setdefault(operation.path, {})
        assert isinstance(at, dict)  # made in the line above
        at[operation.method.lower()] = _described(operation)
    return {
        "openapi": VERSION,
        "info": {"title": "loopkernel", "version": version, "description": "Runs of an agent."},
        "paths": paths,
        "components": {
            "schemas": {"Error": ERROR},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _described(operation: Operation) -> JsonValue:
    answer, kind = operation.answer, "application/json"
    schema: JsonValue = {"type": "string"} if isinstance(answer, str) else answer
    if isinstance(answer, str):
        kind = answer
    faults: dict[str, JsonValue] = {status: _fault(words) for status, words in FAULTS.items()}
    described: dict[str, JsonValue] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": _parameters(operation),
        "responses": {
            str(operation.status): {"description": operation.summary, "content": {kind: {"schema": schema}}},
            **faults,
        },
    }
    if operation.body is not None:
        described["requestBody"] = {"content": {"application/json": {"schema": operation.body}}}
    return described


def _parameters(operation: Operation) -> list[JsonValue]:
    found: list[JsonValue] = []
    if "{run}" in operation.path:
        found.append({"name": "run", "in": "path", "required": True, "schema": RUN_ID})
    for name, schema in operation.query.items():
        found.append({"name": name, "in": "query", "required": False, "schema": schema})
    for name, words in operation.headers.items():
        found.append(
            {"name": name, "in": "header", "required": False, "description": words, "schema": {"type": "string"}}
        )
    return found


def _fault(words: str) -> JsonValue:
    content: JsonValue = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {"description": words, "content": content}
