"""An agent behind Starlette, or FastAPI: turns as server-sent events, and a person who answers by a request."""

import json
from collections.abc import AsyncIterator

from loopkernel import EffectClass, Json, events
from loopkernel_adapters import (
    Agent,
    ScriptedProvider,
    SqliteRuns,
    StoreLocked,
    WaitingCall,
    call_reply,
    text_reply,
    tool,
)
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route
from starlette.testclient import TestClient


@tool(effect=EffectClass.DANGEROUS)
def pay(euros: int) -> str:
    """Pay that much."""
    return f"paid {euros} EUR"


model = ScriptedProvider([call_reply(("pay", Json.of({"euros": 12}))), text_reply("It is paid.")])
agent = Agent(model, [pay], runs=SqliteRuns("runs.sqlite"))


def message(kind: str, data: object) -> str:
    return f"event: {kind}\ndata: {json.dumps(data)}\n\n"


def shown(call: WaitingCall) -> dict[str, object]:
    return {"call": "/".join(map(str, call.path)), "tool": call.tool, "input": call.input.text}


async def told(run: str, body: dict[str, object]) -> AsyncIterator[str]:
    try:
        async with agent.session(run) as session:
            for call in session.waiting:  # a yes is for exactly what was shown
                if json.dumps(shown(call)) == json.dumps(body.get("approve")):
                    await session.answer(call, True)
            async with session.say(str(body["text"])) if "text" in body else session.go_on() as turn:
                async for event in turn:  # whoever goes away has the turn cancelled
                    match event:
                        case events.ReplyGrew(text=text):
                            yield message("text", text)
                        case events.ToolEnded(result=result):
                            yield message("tool", [result.tool, result.status.value])
            yield message("end", [shown(call) for call in turn.result.waiting] or turn.result.problem)
    except StoreLocked as locked:
        yield message("busy", str(locked))


async def speak(request: Request) -> StreamingResponse:
    return StreamingResponse(told(request.path_params["run"], await request.json()), media_type="text/event-stream")


app = Starlette(routes=[Route("/runs/{run}", speak, methods=["POST"])])  # uvicorn behind_starlette:app

if __name__ == "__main__":
    client = TestClient(app)
    print(first := client.post("/runs/a", json={"text": "Pay Anna"}).text, end="")
    (call,) = json.loads(first.partition("data: ")[2])
    print(client.post("/runs/a", json={"approve": call}).text.rstrip())
