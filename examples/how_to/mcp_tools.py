"""Tools from a server of the Model Context Protocol. This file is the server too: with an argument it serves."""

import asyncio
import sys

from loopkernel import Json
from loopkernel_adapters import Agent, ScriptedProvider, StdioServer, call_reply, open_servers, text_reply


def serve() -> None:
    from mcp.server import MCPServer

    server = MCPServer("stock")

    @server.tool()
    def pieces(article: str) -> int:
        """How many pieces of an article there are."""
        return {"tea": 7}.get(article, 0)

    server.run("stdio")


async def main() -> None:
    server = StdioServer(name="stock", command=[sys.executable, __file__, "serve"])
    async with open_servers([server]) as tools:
        name = tools.offered()[0].name
        model = ScriptedProvider([call_reply((name, Json.of({"article": "tea"}))), text_reply("Seven.")])
        result = await Agent(model, tools, approve=lambda call: True).run("How much tea is there?")
        print(name, "->", result.calls[0].content[0].text)
        print(result.text)


if len(sys.argv) > 1:
    serve()
else:
    asyncio.run(main())
