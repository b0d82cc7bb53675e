"""Draws the plan of a world from its seed."""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

from loopkernel.data.tools import AccessMode, Decision, EffectClass, FieldResource, ToolProfile
from loopkernel.data.usage import Usage
from loopkernel.data.words import ErrorClass, StopReason
from loopkernel.testing.scenarios.data import world
from loopkernel.testing.scenarios.data.world import JsonValue, ToolScript

from tests.adapters.simulation.plan import (
    Act,
    Answer,
    Check,
    Crash,
    Item,
    Jump,
    Onlooker,
    Plan,
    Reply,
    Run,
    StoreFault,
)

Choice = TypeVar("Choice")

TIMES_MS = (0, 0, 0, 1, 5, 5, 20, 100, 1_000, 5_000, 30_000)
LONG_MS = (60_000, 200_000, 700_000, 2_000_000)
FAILURES = tuple(error for error in ErrorClass if error is not ErrorClass.MAX_TOKENS)
RETRY_AFTER_MS = (None, None, 0, 1, 5_000, 10**9, 10**15, -1)
# Half of a pair of surrogates, a separator that is a line break to some, a right-to-left override, an escape sequence.
ODD_TEXT = "a\ud800b\u2028c\x85d\u202ee\x1b[2Jf\x00g\ufeff"
REPLY_ODDITIES = (
    *("garbage", "wrong operation", "duplicate", "foreign", "timeout", "lost", "exit"),
    *("close raises", "odd text", "late report", "after the end", "many pieces"),
)
RUN_ODDITIES = (
    *("raises after cancel", "finishes while cancelled", "foreign", "garbage", "huge", "odd text", "exit"),
    *("asks and goes", "cancels itself", "background twice", "claims background"),
)
ANSWER_ODDITIES = ("foreign", "garbage", "hangs", "empty", "exit")
ACTS = (
    *("say",) * 6,
    *("enqueue", "enqueue", "steer", "steer", "discard", "edit", "edit", "cancel", "cancel", "cancel call"),
    *("approve",) * 6,
    *("reject", "correct", "swap", "answer", "answer", "answer", "after crash", "after crash"),
    *(
        "retry",
        "dismiss",
        "compact",
        "compact",
        "mode",
        "permit",
        "forget",
        "handoff",
        "tools",
        "fork",
        "fork",
        "fork",
        "same key",
    ),
)
READS = (FieldResource("path", AccessMode.READ),)
WRITES = (FieldResource("path", AccessMode.WRITE),)
TOOLS = {
    "read": ToolProfile(effect=EffectClass.READ_ONLY, resources=READS, early=True),
    "write": ToolProfile(effect=EffectClass.IDEMPOTENT, resources=WRITES),
    "shell": ToolProfile(effect=EffectClass.DANGEROUS, approval=Decision.ASK),
    "send": ToolProfile(effect=EffectClass.DANGEROUS, approval=Decision.ALLOW),
    "sub": ToolProfile(effect=EffectClass.READ_ONLY, child=True),
}
HOOK_POINTS = ("before_invocation", "before_model", "after_model", "before_tool", "after_tool", "stop")
YEAR_MS = 365 * 86_400_000
JUMPS_MS = (-YEAR_MS, -3_600_000, -60_000, -1, 1, 60_000, 86_400_000, YEAR_MS)


def plan_of(seed: int, lively: bool) -> Plan:
    """The world of that seed."""
    return _Drawing(Random(seed * 2 + lively), seed, lively).plan()


class _Drawing:
    """One world while it is drawn."""

    def __init__(self, chance: Random, seed: int, lively: bool) -> None:
        self.chance = chance
        self.seed = seed
        self.lively = lively
        self.trouble = chance.choice((0.1, 0.3, 0.5))  # how likely something goes wrong
        self.ends_ms = chance.choice((600_000, 1_800_000, 3_600_000, 7_200_000))
        self.faults_until_ms = self.ends_ms // 2 if lively else self.ends_ms

    def plan(self) -> Plan:
        chance = self.chance
        items: list[Item] = [
            *(self.reply() for _ in range(chance.randint(3, 9))),
            *(self.run() for _ in range(chance.randint(2, 8))),
            *(self.answer() for _ in range(chance.randint(0, 5))),
            *(Check(oddity=chance.choice(("foreign", "garbage"))) for _ in range(self.often(0.1))),
            *(Onlooker(nth=chance.randint(1, 30)) for _ in range(self.often(0.3))),
            Act(at_ms=0, what="say", text="begin"),
            *(Act(at_ms=self.moment(), what="dispose") for _ in range(self.often(0.05))),
            *(self.act() for _ in range(chance.randint(3, 12))),
        ]
        items += [
            Crash(
                at_ms=self.moment(),
                down_ms=chance.choice((0, 0, 1_000, 400_000)),
                keep=chance.randint(0, 3),
                hand=chance.choice(("", "", "", "", "none", "words")),
            )
            for _ in range(self.often(0.4))
        ]
        if items and isinstance(items[-1], Crash) and chance.random() < 0.3:
            items.append(Crash(at_ms=items[-1].at_ms, keep=chance.randint(0, 1)))  # and once more, at once
        if chance.random() < 0.06:  # the machine dies while the log still holds what no disk does
            many = Reply(entry=world.ModelEntry(text="on and on"), oddity="many pieces")
            items = [many, *items, Crash(at_ms=chance.choice((1, 500)), keep=chance.randint(0, 64))]
        faults = ("fails", "dies before", "dies within", "dies after")
        items += [
            StoreFault(nth=chance.randint(1, 40), what=chance.choice(faults), keep=chance.randint(0, 2))
            for _ in range(self.often(0.5))
        ]
        items += [Jump(at_ms=self.moment(), by_ms=chance.choice(JUMPS_MS)) for _ in range(self.often(0.2))]
        return Plan(
            seed=self.seed,
            lively=self.lively,
            preset=chance.choice(("default", "default", "amp", "amodal", "claude", "strands", "calls")),
            options=self.options(),
            tools={name: ToolScript(profile=profile) for name, profile in TOOLS.items()},
            ends_ms=self.ends_ms,
            faults_until_ms=self.faults_until_ms,
            late_timers_ms=chance.choice((0, 0, 0, 7, 5_000)),
            attentive=self.attentive(),
            reader_ms=chance.choice((0, 0, 3, 20_000)),
            attention_ms=chance.choice((0, 1, 1_000, 30_000)),
            disk_ms=chance.choice((None, 0, 3, 50)),
            items=tuple(items),
        )

    def attentive(self) -> tuple[str, ...]:
        words = (
            "approve",
            "approve",
            "approve",
            "answer",
            "answer",
            "reject",
            "correct",
            "swap",
            "after crash",
            "cancel",
        )
        return tuple(self.chance.choice(words) for _ in range(self.chance.choice((0, 1, 3, 5))))

    def often(self, chance: float) -> int:
        """How many of a kind: mostly none."""
        return 0 if self.chance.random() >= chance else self.chance.choice((1, 1, 2))

    def moment(self) -> int:
        """A time with something to meet: early and late, and now and then very close to the beginning."""
        near = self.chance.choice((0, 1, 5, 21, 100, 1_000, 5_001, 30_000))
        return self.chance.choice((near, near, self.chance.randrange(self.faults_until_ms)))

    def odd(self, oddities: Sequence[str]) -> str:
        return self.chance.choice(oddities) if self.chance.random() < self.trouble else ""

    def takes_ms(self) -> int:
        return self.chance.choice(LONG_MS if self.chance.random() < 0.1 else TIMES_MS)

    def options(self) -> dict[str, JsonValue]:
        """What of the policy is another: short limits and short times, so that they matter."""
        chance = self.chance
        some: dict[str, JsonValue] = {
            "schedule": chance.choice(("serial", "batches", "read_runs", "all", "graph")),
            "on_busy": chance.choice(("queue", "reject", "interrupt")),
            "early_start": chance.choice(("never", "gated")),
            "on_reject": chance.choice(("continue", "skip_rest", "halt")),
            "on_tool_failure": chance.choice(("continue", "cancel_siblings")),
            "approval_timeout_ms": chance.choice((60_000, 900_000)),
            "max_turns": chance.choice((2, 6, 20)),
        }
        kept: dict[str, JsonValue] = {key: value for key, value in some.items() if chance.random() < 0.5}
        kept["lifetime"] = "task" if chance.random() < 0.15 else "session"
        kept["tool_timeout_ms"] = chance.choice((1_000, 60_000, 600_000))
        kept["silence_ms"] = chance.choice((4_000, 60_000))
        kept["hook_timeout_ms"] = chance.choice((1_000, 30_000))
        if chance.random() < 0.4:
            kept["hooks"] = {point: "gated" for point in HOOK_POINTS if chance.random() < 0.3}
        if chance.random() < 0.2:
            kept["approval_mode"] = "bypass"
        if chance.random() < 0.2:
            kept["course_correction"] = {"after_calls": 1, "after_writes": 1}
        if chance.random() < 0.3:
            kept["compaction"] = {"strategy": "summarise", "trigger_tokens": 60, "keep_turns": 1}
        if chance.random() < 0.3:
            kept["result_limit"] = {"chars": 2_000, "head": 500, "tail": 500}
        return kept

    def reply(self) -> Reply:
        """A reply: mostly one that is complete, with calls or text."""
        chance = self.chance
        calls = tuple(self.call(number) for number in range(1, chance.choice((0, 1, 1, 2, 2, 3)) + 1))
        text = chance.choice(("", "so be it", "a word\nand another"))
        takes = self.takes_ms()
        pieces: list[world.Piece] = []
        if text and chance.random() < 0.5:
            pieces.append(world.TextPiece(at_ms=chance.randint(0, takes), text=text[:3]))
        pieces += [world.CallPiece(chance.randint(0, takes), call.name) for call in calls if chance.random() < 0.4]
        usage = Usage(input=chance.choice((0, 10, 150)), output=chance.choice((0, 7, 60)))
        return Reply(
            entry=world.ModelEntry(
                text=text if calls else text or "done",
                calls=calls,
                usage=usage,
                takes_ms=takes,
                pieces=tuple(pieces),
                ending=self.ending(bool(calls)),
            ),
            oddity=self.odd(REPLY_ODDITIES),
        )

    def ending(self, calls: bool) -> world.ModelEnding:
        chance = self.chance
        if chance.random() < self.trouble:
            return chance.choice(
                (
                    world.ModelFails(chance.choice(FAILURES), chance.choice(RETRY_AFTER_MS)),
                    world.ModelFails(chance.choice(FAILURES), chance.choice(RETRY_AFTER_MS)),
                    world.ModelHangs(),
                    world.ModelEndsEarly(),
                    world.ModelCompletes(StopReason.MAX_TOKENS),
                )
            )
        return world.ModelCompletes(StopReason.TOOL_USE if calls else StopReason.END_TURN)

    def call(self, number: int) -> world.ScriptedCall:
        chance = self.chance
        name = f"c{number}"
        tool = chance.choice((*("read", "write", "send") * 3, "shell", "shell", "sub", "sub", "nothing"))
        raw = '{"pa' if chance.random() < 0.05 else None
        path = chance.choice(("a", "b"))
        given: JsonValue = {"path": path, "prompt": "look"} if raw is None else {}
        return world.ScriptedCall(id=name, name=name, tool=tool, input=given, raw=raw)

    def run(self) -> Run:
        chance = self.chance
        outcome: world.ToolOutcome = world.ToolReturns("found it")
        if chance.random() < self.trouble:
            outcome = chance.choice((world.ToolFails("no such thing"), world.ToolHangs(), world.ToolFails("")))
        takes = self.takes_ms()
        asks = chance.random() < 0.15
        background = not asks and chance.random() < 0.1
        if background and self.lively and isinstance(outcome, world.ToolHangs):
            outcome = world.ToolReturns("found it")  # nothing bounds a run in the background, which holds what it uses
        progress = tuple(world.Progress(chance.randint(0, takes), "so far") for _ in range(self.often(0.3)))
        behaviour = world.Behaviour(
            takes_ms=takes,
            outcome=outcome,
            progress=progress,
            ignores_abort=chance.random() < self.trouble / 2,
            asks=world.ToolQuestion(chance.randint(0, takes), "which one?") if asks else None,
            background=background,
            final=chance.random() < 0.03,
            stops_loop=chance.random() < 0.03,
        )
        return Run(behaviour=behaviour, oddity=self.odd(RUN_ODDITIES))

    def answer(self) -> Answer:
        kinds = world.HookAnswerKind
        outcome = self.chance.choice(
            (
                world.HookReplies(),
                world.HookReplies(answer=kinds.BLOCK, why="not now"),
                world.HookReplies(answer=kinds.MODIFY, text="mind this"),
                world.HookReplies(answer=kinds.RETRY),
                world.HookFails("broken"),
            )
        )
        return Answer(outcome=outcome, takes_ms=self.takes_ms(), oddity=self.odd(ANSWER_ODDITIES))

    def act(self) -> Act:
        chance = self.chance
        return Act(
            at_ms=self.moment(),
            what=chance.choice(ACTS),
            pick=chance.randrange(4),
            text=chance.choice(("go on", "now this", ODD_TEXT)),
            within=chance.random() < 0.1,
        )
