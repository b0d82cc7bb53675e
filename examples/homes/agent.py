"""One agent, for every home: a scripted clerk that needs no key, with a tool that reads and one that pays.

What its model says follows from the conversation alone, so whoever takes up a run can go on with it.
"""

from collections.abc import AsyncIterator

from loopkernel import EffectClass, Json
from loopkernel.deltas import ModelCall, ModelCompleted, ModelDelta, ModelText, StopReason
from loopkernel.effects import ModelOperation, Request
from loopkernel.messages import ResultMessage, text_of
from loopkernel_adapters import Agent, Provider, tool


@tool(effect=EffectClass.READ_ONLY)
def invoice(customer: str) -> str:
    """The open invoice of a customer."""
    return f"{customer} owes 12 EUR"


@tool(effect=EffectClass.DANGEROUS)
def pay(amount: int) -> str:
    """Pay that much. It asks a person first."""
    return f"paid {amount} EUR"


class Clerk(Provider):
    """Looks the invoice up, pays it, and says so."""

    async def stream(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        last = request.thread.messages[len(request.thread.messages) - 1]
        done = last.results[-1] if isinstance(last, ResultMessage) else None
        if done is not None and done.tool == "pay":
            yield ModelText(operation, f"Done: {text_of(done.content)}.")
            yield ModelCompleted(operation, StopReason.END_TURN)
            return
        name, given = ("invoice", Json.of({"customer": "Anna"})) if done is None else ("pay", Json.of({"amount": 12}))
        yield ModelCall(operation=operation, provider_id=f"call_{operation}", tool=name, input=given)
        yield ModelCompleted(operation, StopReason.TOOL_USE)


agent = Agent(Clerk(), [invoice, pay])
