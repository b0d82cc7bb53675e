"""A typed answer: the model gives it by a call, it is checked, and what does not fit is told to the model."""

from loopkernel import Json
from loopkernel_adapters import Agent, ScriptedProvider, call_reply
from pydantic import BaseModel, Field


class Invoice(BaseModel):
    customer: str
    euros: int = Field(ge=0)


model = ScriptedProvider(
    [
        call_reply(("give_output", Json.of({"customer": "Anna", "euros": -12}))),
        call_reply(("give_output", Json.of({"customer": "Anna", "euros": 12}))),
    ]
)
result = Agent(model, output_type=Invoice).run_sync("Read the invoice")
print(result.output_or_raise())
