"""Secrets: a tool may use them, and neither model, log nor screen ever has their values."""

from loopkernel import EffectClass, Json
from loopkernel.codec import record_to_text
from loopkernel_adapters import Agent, MemoryRuns, ScriptedProvider, call_reply, text_reply, tool

TOKEN = "correct-horse-battery-staple"


@tool(effect=EffectClass.READ_ONLY)
def balance(account: str) -> str:
    """Ask the bank, which tells more than it should."""
    return f"{account}: 12 EUR (asked with the token {TOKEN})"


runs = MemoryRuns()
model = ScriptedProvider([call_reply(("balance", Json.of({"account": "Anna"}))), text_reply("12 EUR")])
result = Agent(model, [balance], secrets={"BANK_TOKEN": TOKEN}, runs=runs).run_sync("How much?", run="a")
print(result.calls[0].content[0].text)
print(TOKEN in "".join(map(record_to_text, runs.read("a"))))
