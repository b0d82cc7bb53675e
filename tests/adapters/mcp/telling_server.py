"""A server of the protocol in plain lines that says its argument wherever it can say something, behind so many letters.

Runs as a program: `telling_server.py SAID LETTERS`.
"""

import json
import sys
from typing import Any

SAID, LETTERS = sys.argv[1], int(sys.argv[2])
LONG = "a" * LETTERS + f"{SAID}b" * 200
Message = dict[str, Any]  # Any: JSON as it comes


def say(message: Message) -> None:
    """One message, as a line."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def result_of(request: Message) -> Message:
    """What answers the request."""
    match request["method"]:
        case "initialize":
            version, info = request["params"]["protocolVersion"], {"name": "tells", "version": "1"}
            return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}}
        case "tools/list":
            names = ("tells", "fails", "refuses")
            schema = {"type": "object"}
            return {"result": {"tools": [{"name": name, "description": LONG, "inputSchema": schema} for name in names]}}
        case "tools/call":
            token = request["params"]["_meta"]["progressToken"]
            say(
                {
                    "method": "notifications/progress",
                    "params": {"progressToken": token, "progress": 1, "message": LONG},
                }
            )
            name = request["params"]["name"]
            if name == "refuses":
                return {"error": {"code": -32602, "message": LONG}}
            return {"result": {"content": [{"type": "text", "text": LONG}], "isError": name == "fails"}}
        case _:
            return {"error": {"code": -32601, "message": LONG}}


for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        say({"id": asked["id"], **result_of(asked)})
