"""What the scopes of the explorer share: the tools, and what a case is."""

from collections.abc import Iterable
from typing import Any

from attrs import evolve, frozen
from loopkernel.data.policy import Policy
from loopkernel.data.states import State
from loopkernel.data.thread_deltas import Acquired, Created
from loopkernel.data.tools import (
    AccessMode,
    Decision,
    EffectClass,
    FixedResource,
    Tool,
    ToolProfile,
)
from loopkernel.judging import check_step
from loopkernel.replaying import LogRecord, fold
from loopkernel.testing.explorer.explore import Laws
from loopkernel.testing.explorer.moves import moves
from loopkernel.testing.explorer.scope import EndOfRun, Move, Scope
from loopkernel.testing.explorer.views import View, outline

READS_A = (FixedResource("a", AccessMode.READ),)
WRITES_A = (FixedResource("a", AccessMode.WRITE),)
READ_ONLY, IDEMPOTENT, DANGEROUS = EffectClass.READ_ONLY, EffectClass.IDEMPOTENT, EffectClass.DANGEROUS
# Their names: r, w, d for the class; a for what they touch; q for those that a person is asked about, e for early; k is
# a sub-agent.
TOOLS = (
    Tool(name="r", profile=ToolProfile(effect=READ_ONLY)),
    Tool(name="w", profile=ToolProfile(effect=IDEMPOTENT)),
    Tool(name="n"),
    Tool(name="d", profile=ToolProfile(effect=DANGEROUS)),
    Tool(name="ra", profile=ToolProfile(effect=READ_ONLY, resources=READS_A)),
    Tool(name="wa", profile=ToolProfile(effect=IDEMPOTENT, resources=WRITES_A)),
    Tool(name="da", profile=ToolProfile(effect=DANGEROUS, resources=WRITES_A)),
    Tool(name="qr", profile=ToolProfile(effect=READ_ONLY, approval=Decision.ASK)),
    Tool(name="qra", profile=ToolProfile(effect=READ_ONLY, approval=Decision.ASK, resources=READS_A)),
    Tool(name="qwa", profile=ToolProfile(effect=IDEMPOTENT, approval=Decision.ASK, resources=WRITES_A)),
    Tool(name="qd", profile=ToolProfile(effect=DANGEROUS, approval=Decision.ASK)),
    Tool(name="era", profile=ToolProfile(effect=READ_ONLY, early=True, resources=READS_A)),
    Tool(name="ewa", profile=ToolProfile(effect=IDEMPOTENT, early=True, resources=WRITES_A)),
    Tool(name="never", profile=ToolProfile(approval=Decision.DENY)),
    Tool(name="out", profile=ToolProfile(effect=READ_ONLY)),
    Tool(name="k", profile=ToolProfile(effect=READ_ONLY, child=True)),
)


@frozen(kw_only=True)
class Case:
    """A scope, and the goals that some step within it must meet."""

    name: str
    policy: Policy
    scope: Scope
    goals: tuple[str, ...]
    view: View = outline
    laws: Laws = check_step

    @property
    def beginning(self) -> tuple[LogRecord, ...]:
        created = Created(session_id="s", policy=self.policy, tools=TOOLS)
        return LogRecord(created, 0), LogRecord(Acquired(), 0)

    @property
    def start(self) -> State:
        return fold(self.beginning)[-1].after

    def moves(self, state: State) -> Iterable[Move]:
        return moves(state, self.scope)


def plain(**options: Any) -> Policy:  # Any: the options of a policy
    """A policy under which nothing is tried again, times out by itself, is cleared, compacted or watched."""
    return evolve(Policy(retry=None, silence_ms=None, loop=None, clear_results=None, compaction=None), **options)


ONE_TURN = Scope(rounds=1, turns=1, waiting=0, texts=False, verdicts=(), held=1)
ENDS = (EndOfRun.RETURNS, EndOfRun.FAILS)
