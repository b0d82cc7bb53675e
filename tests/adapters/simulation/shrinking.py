"""Makes a failing plan small: fewer events, as long as it fails alike. And a scenario, where one can say it.

A scenario file knows nothing of broken ports, disks and clocks. A plan that fails without those is written as one.
"""

import re
from collections.abc import Callable, Sequence

from attrs import evolve
from loopkernel.data.words import HookPoint
from loopkernel.testing.scenarios.data import actions
from loopkernel.testing.scenarios.data.actions import At, TimedAction
from loopkernel.testing.scenarios.data.scenario import PolicyChoice, Scenario
from loopkernel.testing.scenarios.data.world import HookReplies, HookScript, ModelEntry, ModelFails

from tests.adapters.simulation.plan import Act, Answer, Crash, Item, Plan, Reply, Run

Fails = Callable[[Plan], bool]
MOST_RUNS = 600


def likeness(fault: str) -> str:
    """What a fault is called whatever the numbers in it."""
    return re.sub(r"\d+", "N", fault)


def shrunk(plan: Plan, fails: Fails) -> Plan:
    """The smallest plan found that still fails: parts of the list are left out, then single events made plain."""
    runs = 0

    def still(candidate: Plan) -> bool:
        nonlocal runs
        runs += 1
        return runs <= MOST_RUNS and fails(candidate)

    part = max(len(plan.items) // 2, 1)
    while True:
        place, smaller = 0, False
        while place < len(plan.items):
            candidate = plan.with_items(plan.items[:place] + plan.items[place + part :])
            if still(candidate):
                plan, smaller = candidate, True
            else:
                place += part
        if part == 1 and not smaller:
            break
        part = max(part // 2, 1)
    for simpler in _simpler_worlds(plan):
        if still(simpler):
            plan = simpler
    return _plainer(plan, still)


def _simpler_worlds(plan: Plan) -> Sequence[Plan]:
    plain = evolve(plan, late_timers_ms=0, attentive=(), reader_ms=0, disk_ms=None)
    return (
        evolve(plan, late_timers_ms=0),
        evolve(plan, disk_ms=None),
        plain,
        evolve(plain, options={}, preset="default"),
    )


def _plainer(plan: Plan, still: Fails) -> Plan:
    """Each event as plain as it can be."""
    for place in range(len(plan.items)):
        for plainer in _plainer_items(plan.items[place]):
            candidate = plan.with_items((*plan.items[:place], plainer, *plan.items[place + 1 :]))
            if still(candidate):
                plan = candidate
    return plan


def _plainer_items(item: Item) -> Sequence[Item]:
    match item:
        case Reply():
            return (
                Reply(entry=ModelEntry(text="done")),
                evolve(item, oddity=""),
                evolve(item, entry=evolve(item.entry, pieces=())),
                evolve(item, entry=evolve(item.entry, usage=None)),
            )
        case Run():
            return (evolve(item, oddity=""), evolve(item, behaviour=evolve(item.behaviour, progress=())))
        case Act():
            return (evolve(item, within=False), evolve(item, text="x"), evolve(item, pick=0))
        case Crash():
            return (evolve(item, hand=""), evolve(item, hand="none" if item.hand else ""))
        case _:
            return ()


def scenario_of(plan: Plan) -> Scenario | None:
    """The plan as a scenario; None where it has what no scenario can say.

    It is played on the pure kernel and, by `scenario_driver`, on the real one; whoever keeps it writes what to expect.
    """
    if plan.late_timers_ms or plan.attentive or not all(map(_can_be_said, plan.items)):
        return None
    tools = dict(plan.tools)
    runs = tuple(item.behaviour for item in plan.items if isinstance(item, Run))
    tools = {name: evolve(tool, runs=runs) for name, tool in tools.items()}
    return Scenario(
        id=f"simulated-{plan.seed}{'-lively' if plan.lively else ''}",
        about="Found by the simulation; say here what it shows, and below what to expect.",
        policy=PolicyChoice(preset=plan.preset, options=plan.options),
        tools=tools,
        model=tuple(item.entry for item in plan.items if isinstance(item, Reply)),
        model_rest=ModelEntry(text="done"),
        hooks=tuple(_hook(item) for item in plan.items if isinstance(item, Answer)),
        user=tuple(timed for item in plan.items if (timed := _timed(item)) is not None),
    )


def _can_be_said(item: Item) -> bool:
    match item:
        case Reply():
            ending = item.entry.ending
            early = isinstance(ending, ModelFails) and (ending.retry_after_ms or 0) < 0
            return not (item.oddity or early or any(call.tool == "sub" for call in item.entry.calls))
        case Run() | Answer():
            return not item.oddity
        case Act():
            return not item.within and item.what in _ACTIONS and item.text.isprintable()
        case Crash():
            return item.hand != "words"
        case _:
            return False


def _hook(item: Answer) -> HookScript:
    outcome = item.outcome if not isinstance(item.outcome, HookReplies) or item.outcome.input is None else HookReplies()
    return HookScript(point=HookPoint.BEFORE_TOOL, outcome=outcome, takes_ms=item.takes_ms)


def _timed(item: Item) -> TimedAction | None:
    if isinstance(item, Crash):
        return TimedAction(timing=At(item.at_ms), action=actions.Crash(down_ms=item.down_ms, doubted=bool(item.hand)))
    if isinstance(item, Act):
        return TimedAction(timing=At(item.at_ms), action=_ACTIONS[item.what](item))
    return None


# In a scenario a word is about a call by its name: whoever keeps the scenario looks whether it is the right one.
_ACTIONS: dict[str, Callable[[Act], actions.UserAction]] = {
    "say": lambda act: actions.Say(act.text),
    "enqueue": lambda act: actions.Enqueue(act.text),
    "steer": lambda act: actions.Steer(act.text),
    "discard": lambda act: actions.Discard(None),
    "edit": lambda act: actions.Edit(act.pick + 1, act.text),
    "cancel": lambda act: actions.Cancel(None),
    "cancel call": lambda act: actions.Cancel(f"c{act.pick + 1}"),
    "approve": lambda act: actions.Approve(call=f"c{act.pick + 1}"),
    "reject": lambda act: actions.Reject(call=f"c{act.pick + 1}", why=act.text),
    "retry": lambda act: actions.RetryNow(),
    "dismiss": lambda act: actions.DismissError(),
    "compact": lambda act: actions.CompactNow(),
    "handoff": lambda act: actions.StartHandoff("another day"),
    "dispose": lambda act: actions.Dispose(),
}
