"""Draws the scenario of a world from its seed: the same on every machine.

A scenario says all there is to it: what the model, the tools and a person do, and when the process dies.
"""

from collections.abc import Mapping
from random import Random

from attrs import Factory, define
from loopkernel.data.tools import AccessMode, Decision, EffectClass, FieldResource, ToolProfile
from loopkernel.data.usage import Usage
from loopkernel.data.words import ErrorClass, StopReason
from loopkernel.testing.scenarios.data import actions, world
from loopkernel.testing.scenarios.data.actions import At, TimedAction, UserAction, When
from loopkernel.testing.scenarios.data.scenario import PolicyChoice, Scenario
from loopkernel.testing.scenarios.data.world import JsonValue

TIMES_MS = (0, 0, 1, 20, 1_000, 30_000)
MOMENTS_MS = (0, 1, 20, 21, 999, 1_000, 5_000, 30_001, 200_000)
PATH = (FieldResource("path", AccessMode.WRITE),)
PROFILES = {
    "read": ToolProfile(effect=EffectClass.READ_ONLY, resources=(FieldResource("path", AccessMode.READ),)),
    "write": ToolProfile(effect=EffectClass.IDEMPOTENT, resources=PATH),
    "send": ToolProfile(effect=EffectClass.DANGEROUS, approval=Decision.ALLOW),
    "shell": ToolProfile(effect=EffectClass.DANGEROUS, approval=Decision.ASK),
}
SCHEMA: JsonValue = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
FAILURES = (ErrorClass.OVERLOADED, ErrorClass.RATE_LIMITED, ErrorClass.NETWORK, ErrorClass.SERVER, ErrorClass.UNKNOWN)
# What a driver of a few lines has no ports for stays off.
PLAIN: Mapping[str, JsonValue] = {"compaction": None, "clear_results": None}


def drawn(seed: int) -> Scenario:
    """The scenario of that seed."""
    return _Drawing(Random(seed)).scenario(seed)


@define
class _Drawing:
    """One scenario while it is drawn; `calls` are the names of its calls so far."""

    dice: Random
    calls: list[str] = Factory(list)

    def scenario(self, seed: int) -> Scenario:
        dice = self.dice
        model = tuple(self.entry() for _ in range(dice.randint(1, 6)))
        user = [TimedAction(timing=At(0), action=actions.Say("begin"))]
        user += [TimedAction(timing=At(dice.choice(MOMENTS_MS)), action=self.act()) for _ in range(dice.randint(0, 5))]
        user += [TimedAction(timing=When(pattern=f"ask {name}"), action=self.word(name)) for name in self.calls]
        if dice.random() < 0.3:
            user.append(TimedAction(timing=At(dice.choice(MOMENTS_MS)), action=actions.Crash()))
        if self.calls and dice.random() < 0.3:
            user.append(self.interruption(dice.choice(self.calls)))
        return Scenario(
            id=f"seed-{seed}",
            policy=PolicyChoice(options=self.options()),
            tools={name: self.tool(profile) for name, profile in PROFILES.items()},
            model=model,
            model_rest=world.ModelEntry(text="done"),
            user=tuple(user),
        )

    def interruption(self, name: str) -> TimedAction:
        """A run has begun, and somebody, or the machine, cuts it short."""
        dice = self.dice
        some = (actions.Cancel(None), actions.Cancel(name), actions.Say("stop that"), actions.Crash())
        when = When(pattern=f"tool {name} started", after_ms=dice.choice((0, 1, 10)))
        return TimedAction(timing=when, action=dice.choice(some))

    def options(self) -> dict[str, JsonValue]:
        dice = self.dice
        some: dict[str, JsonValue] = {
            "schedule": dice.choice(("serial", "batches", "all", "graph")),
            "on_busy": dice.choice(("queue", "reject", "interrupt")),
            "early_start": dice.choice(("never", "gated")),
            "on_reject": dice.choice(("continue", "skip_rest", "halt")),
            "on_tool_failure": dice.choice(("continue", "cancel_siblings")),
            "max_turns": dice.choice((2, 6)),
            "max_parallel": dice.choice((1, 2)),
            "tool_timeout_ms": dice.choice((1_000, 60_000)),
            "max_tool_calls": dice.choice((1, 3)),
        }
        return {**PLAIN, **{name: value for name, value in some.items() if dice.random() < 0.3}}

    def tool(self, profile: ToolProfile) -> world.ToolScript:
        runs = tuple(self.behaviour() for _ in range(self.dice.randint(0, 2)))
        return world.ToolScript(profile=profile, input_schema=SCHEMA, runs=runs)

    def behaviour(self) -> world.Behaviour:
        outcome: world.ToolOutcome = world.ToolReturns("found it")
        if self.dice.random() < 0.3:
            outcome = world.ToolFails("no such thing")
        return world.Behaviour(takes_ms=self.dice.choice(TIMES_MS), outcome=outcome)

    def entry(self) -> world.ModelEntry:
        """A reply: mostly one that is complete, with calls or text."""
        dice = self.dice
        calls = tuple(self.call() for _ in range(dice.choice((0, 0, 1, 1, 2, 3))))
        takes_ms = dice.choice(TIMES_MS)
        text = "so be it" if not calls or dice.random() < 0.3 else ""
        pieces: list[world.Piece] = [world.TextPiece(0, text[:3])] if text and dice.random() < 0.5 else []
        pieces += [world.CallPiece(takes_ms // 2, call.name) for call in calls if dice.random() < 0.5]
        return world.ModelEntry(
            text=text,
            calls=calls,
            takes_ms=takes_ms,
            pieces=tuple(pieces),
            usage=Usage(input=10, output=dice.choice((0, 7))),
            ending=self.ending(bool(calls)),
        )

    def ending(self, calls: bool) -> world.ModelEnding:
        roll = self.dice.random()
        if roll < 0.1:
            return world.ModelFails(self.dice.choice(FAILURES), self.dice.choice((None, 0, 5_000)))
        if roll < 0.15:
            return world.ModelEndsEarly()
        if roll < 0.2:
            return world.ModelCompletes(StopReason.MAX_TOKENS)
        return world.ModelCompletes(StopReason.TOOL_USE if calls else StopReason.END_TURN)

    def call(self) -> world.ScriptedCall:
        dice = self.dice
        name = f"c{len(self.calls) + 1}"
        self.calls.append(name)
        raw = '{"pa' if dice.random() < 0.05 else None
        given: JsonValue = {"path": dice.choice("ab")} if dice.random() < 0.9 else {"path": 3}
        tool = dice.choice(("read", "read", "write", "send", "shell", "nothing"))
        provider_id = "c1" if dice.random() < 0.05 else name  # ids repeat
        return world.ScriptedCall(id=provider_id, name=name, tool=tool, input={} if raw else given, raw=raw)

    def act(self) -> UserAction:
        dice = self.dice
        of_a_call = actions.Cancel(dice.choice(self.calls)) if self.calls else actions.Cancel(None)
        some: tuple[UserAction, ...] = (
            actions.Say("now this"),
            actions.Say("and that"),
            actions.Enqueue("later"),
            actions.Steer("mind this"),
            actions.Cancel(None),
            of_a_call,
            actions.RetryNow(),
            actions.DismissError(),
            actions.Discard(None),
        )
        return dice.choice(some)

    def word(self, name: str) -> UserAction:
        """What a person says to a call that asks."""
        some: tuple[UserAction, ...] = (
            actions.Approve(call=name),
            actions.Approve(call=name, remember=actions.Remember.TOOL),
            actions.Reject(call=name, why="no"),
            actions.Correct(call=name, input={"path": "c"}),
        )
        return self.dice.choice(some)
