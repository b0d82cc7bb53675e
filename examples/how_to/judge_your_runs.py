"""A test of your agent: every run that it made, held against the laws that any run has to keep."""

from loopkernel import EffectClass, Json, check_trace, fold
from loopkernel_adapters import Agent, MemoryRuns, ScriptedProvider, call_reply, text_reply, tool


@tool(effect=EffectClass.READ_ONLY)
def stock(article: str) -> int:
    """How many pieces there are."""
    return 7


runs = MemoryRuns()
model = ScriptedProvider(
    [
        call_reply(("stock", Json.of({"article": "tea"})), ("stock", Json.of({"article": "milk"}))),
        text_reply("Seven each."),
    ]
)
Agent(model, [stock], runs=runs).run_sync("What is there?", run="a")
report = check_trace(fold(runs.read("a")))
print(report)
