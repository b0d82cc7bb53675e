"""Before an upgrade to a release with new rules: keep the state of each run, from which the new release goes on."""

from contextlib import closing

from loopkernel import EffectClass, Json, replay, waiting
from loopkernel.states import Initial
from loopkernel_adapters import Agent, ScriptedProvider, SqliteRuns, StoreLocked, call_reply, text_reply, tool


@tool(effect=EffectClass.DANGEROUS)
def pay(euros: int) -> str:
    """Pay that much."""
    return f"paid {euros} EUR"


model = ScriptedProvider([call_reply(("pay", Json.of({"euros": 12}))), text_reply("Hello.")])
agent = Agent(model, [pay], runs=SqliteRuns("runs.sqlite"))
agent.run_sync("Pay the invoice", run="invoice")
agent.run_sync("Good morning", run="greeting")

runs = SqliteRuns("runs.sqlite")
for entry in runs.entries():
    try:
        store = runs.open(entry.run)
    except StoreLocked as locked:
        print(locked)  # its process is still at work: end that first
        continue
    with closing(store):
        restored = store.restore()
        if restored.doubt is not None:
            print(entry.run, "is left as it is:", restored.doubt)
            continue
        state = replay(restored.records, restored.state or Initial())
        store.vouch()  # no doubt: the state is sealed as the log is
        store.save_snapshot(state)
        print(entry.run, "is kept:", type(state).__name__, *map(str, waiting(state)))
