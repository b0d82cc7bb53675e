"""A policy of your own: a preset with other values, rules for approvals, and why a call was refused."""

from attrs import evolve
from loopkernel import EffectClass, Json, preset
from loopkernel.policy import ApprovalRule, Decision, FieldPattern
from loopkernel_adapters import Agent, ScriptedProvider, call_reply, text_reply, tool


@tool(effect=EffectClass.DANGEROUS)
def refund(customer: str, euros: int) -> str:
    """Give money back."""
    return f"{customer} got {euros} EUR"


policy = evolve(
    preset("claude"),
    max_tool_calls=20,
    approval_rules=(
        ApprovalRule(decision=Decision.DENY, tool="refund", input=(FieldPattern("customer", "mallory*"),)),
        ApprovalRule(decision=Decision.ALLOW, tool="refund"),
    ),
)
model = ScriptedProvider(
    [
        call_reply(
            ("refund", Json.of({"customer": "anna", "euros": 5})),
            ("refund", Json.of({"customer": "mallory", "euros": 5})),
        ),
        text_reply("Anna has her money."),
    ]
)
result = Agent(model, [refund], policy=policy).run_sync("Refund both")
for call in result.calls:
    print(call.status.value, *(block.text for block in call.content))
print(result.text)
