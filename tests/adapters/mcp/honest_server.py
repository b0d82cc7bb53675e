"""A server made with the official library, over standard streams or HTTP. Runs as a program; HTTP tells its port."""

import socket
import sys

import uvicorn
from mcp.server import MCPServer

server = MCPServer("files")


@server.tool()
def read(path: str) -> str:
    """Read a file."""
    return {"notes.txt": "buy milk"}[path]


@server.tool()
def shout(text: str) -> str:
    """Say it louder."""
    return text.upper()


@server.tool()
def breaks(text: str) -> str:
    """Fail."""
    raise ValueError("no such thing")


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        listening = socket.create_server(("127.0.0.1", 0))
        print(listening.getsockname()[1], flush=True)
        application = server.streamable_http_app()
        uvicorn.Server(uvicorn.Config(application, log_level="error")).run(sockets=[listening])
