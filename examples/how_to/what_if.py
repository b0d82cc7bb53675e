"""A recorded run under another policy: at which record would it have parted, and with what?"""

from attrs import evolve
from loopkernel import EffectClass, Json, LogRecord, Policy, deltas, event_to_text, fold
from loopkernel.events import Event
from loopkernel_adapters import Agent, MemoryRuns, ScriptedProvider, call_reply, text_reply, tool


@tool(effect=EffectClass.READ_ONLY)
def stock(article: str) -> int:
    """How many pieces there are."""
    return 7


def under(policy: Policy, log: tuple[LogRecord, ...]) -> tuple[LogRecord, ...]:
    """The same log, begun under another policy."""
    first = log[0].delta
    assert isinstance(first, deltas.Created)
    return (evolve(log[0], delta=evolve(first, policy=policy)), *log[1:])


runs = MemoryRuns()
model = ScriptedProvider([call_reply(("stock", Json.of({"article": "tea"}))), text_reply("Seven.")])
Agent(model, [stock], runs=runs).run_sync("What is there?", run="a")
log = runs.read("a")
for number, (was, would_be) in enumerate(zip(fold(log), fold(under(Policy(max_turns=1), log)), strict=True)):
    if was.effects != would_be.effects and number > 0:
        print(f"record {number}, {type(log[number].delta).__name__}, would have led to")
        print(*(event_to_text(effect) for effect in would_be.effects if isinstance(effect, Event)), sep="\n")
        break
