"""How long the calls of a run took, and how long they would take under another policy, which runs others together.

The calls of each reply are played once more with their recorded durations, in virtual time, by the kernel under the
policy; whoever is asked approves at once, and nothing else takes time. The critical path is a reply's longest chain:
its longest call, or, where calls depend on others, the chain of these.
"""

import heapq
from collections.abc import Iterable, Sequence

from attrs import evolve, field, frozen
from loopkernel.data import effects as commands
from loopkernel.data.ids import RunOperation
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import Ledger
from loopkernel.data.model_deltas import ModelCall, ModelCompleted
from loopkernel.data.policy import Policy
from loopkernel.data.records import StepRecord
from loopkernel.data.thread_deltas import Acquired, Created
from loopkernel.data.tool_deltas import ToolChecked, ToolFailed, ToolLost, ToolStopped, ToolSucceeded
from loopkernel.data.tools import Tool, ValidCall
from loopkernel.data.user_deltas import Approve, Say
from loopkernel.data.words import StopReason
from loopkernel.machine import Machine
from loopkernel.views.waiting import waiting

ENDS = (ToolSucceeded, ToolFailed, ToolStopped, ToolLost)


@frozen(kw_only=True)
class TimedCall:
    """A call that ran: from when to when, in milliseconds, and what was known of it."""

    tool: str
    input: Json
    provider_id: str
    after: tuple[str, ...]
    verdict: ValidCall
    from_ms: int
    to_ms: int


@frozen(kw_only=True)
class Round:
    """The calls of one reply that ran, in the order of the reply, and the tools that were offered."""

    calls: tuple[TimedCall, ...]
    tools: tuple[Tool, ...] = field(repr=False)

    @property
    def took_ms(self) -> int:
        """For how long at least one of them ran: what lies between, as waiting for a person, is not theirs."""
        return covered_ms(self.calls)

    def one_by_one(self) -> "Round":
        """The same as if no two had run at once, as may be where only their ends are recorded.

        Each time belongs to the call that ended first of those under way; so all of them take as long as they took.
        """
        calls = [*self.calls]
        ended: list[TimedCall] = []
        for place, call in sorted(enumerate(self.calls), key=lambda each: each[1].to_ms):
            own_ms = covered_ms([*ended, call]) - covered_ms(ended)
            calls[place] = evolve(call, from_ms=call.to_ms - own_ms)
            ended.append(call)
        return evolve(self, calls=tuple(calls))


def covered_ms(calls: Iterable[TimedCall]) -> int:
    """For how long at least one of the calls ran."""
    covered = until_ms = 0
    for call in sorted(calls, key=lambda call: call.from_ms):
        covered += max(0, call.to_ms - max(call.from_ms, until_ms))
        until_ms = max(until_ms, call.to_ms)
    return covered


def rounds_of(steps: Iterable[StepRecord]) -> tuple[Round, ...]:
    """The replies of a run with calls that ran and ended; a call of a sub-agent is not among them."""
    begun: dict[RunOperation, tuple[commands.StartTool, StepRecord, int]] = {}
    found: dict[int, list[tuple[int, TimedCall]]] = {}
    tools: dict[int, tuple[Tool, ...]] = {}
    for step in steps:
        for effect in step.effects:
            if isinstance(effect, commands.StartTool):
                begun[effect.operation] = (effect, step, step.after.stamp.now_ms)
        delta = step.context.delta
        if isinstance(delta, ENDS) and delta.operation in begun:
            start, at, from_ms = begun.pop(delta.operation)
            timed = _timed(start, at, from_ms, max(step.after.stamp.now_ms, from_ms))
            if timed is not None:
                found.setdefault(start.call.reply, []).append((start.call.position, timed))
                session = at.after.session
                tools[start.call.reply] = () if session is None else session.settings.tools
    return tuple(
        Round(calls=tuple(call for _, call in sorted(calls, key=lambda each: each[0])), tools=tools[reply])
        for reply, calls in found.items()
    )


def _timed(start: commands.StartTool, at: StepRecord, from_ms: int, to_ms: int) -> TimedCall | None:
    for state in (at.after, at.before):
        ledger = getattr(state, "ledger", None)  # which only some phases have
        for entry in ledger.entries if isinstance(ledger, Ledger) else ():
            if entry.call.id == start.call:
                verdict = entry.verdict if isinstance(entry.verdict, ValidCall) else ValidCall()
                return TimedCall(
                    tool=start.tool,
                    input=start.input,
                    provider_id=entry.call.provider_id,
                    after=entry.call.after,
                    verdict=verdict,
                    from_ms=from_ms,
                    to_ms=to_ms,
                )
    return None


def span_ms(one: Round, policy: Policy) -> int:
    """How long the calls of the reply would take under what the policy says about running calls together."""
    if len(one.calls) == 1:
        return one.took_ms
    machine = Machine()
    machine.deliver(Created(session_id="timing", policy=_scheduling(policy), tools=_offered(one)), 0)
    machine.deliver(Acquired(), 0)
    machine.deliver(Say("..."), 0)
    (request,) = (command for command in machine.commands() if isinstance(command, commands.CallModel))
    for place, call in enumerate(one.calls):
        named = call.provider_id or f"call {place}"
        machine.deliver(
            ModelCall(request.operation, provider_id=named, tool=call.tool, input=call.input, after=call.after), 0
        )
    machine.deliver(ModelCompleted(request.operation, StopReason.TOOL_USE), 0)
    return _played(machine, one.calls)


def _offered(one: Round) -> tuple[Tool, ...]:
    """The tools that were offered, and any that ran all the same."""
    known = {tool.name for tool in one.tools}
    return (
        *one.tools,
        *(Tool(name=name) for name in dict.fromkeys(call.tool for call in one.calls) if name not in known),
    )


def _played(machine: Machine, calls: Sequence[TimedCall]) -> int:
    """Each call ends when its time is over; the time at which the last of them has."""
    now_ms, ends, left = 0, list[tuple[int, RunOperation]](), machine.commands()
    while True:
        for command in left:
            match command:
                case commands.CheckCall():
                    machine.deliver(ToolChecked(command.operation, calls[command.call.position - 1].verdict), now_ms)
                case commands.StartTool():
                    call = calls[command.call.position - 1]
                    heapq.heappush(ends, (now_ms + call.to_ms - call.from_ms, command.operation))
                case commands.CallModel():
                    return now_ms
                case _:
                    pass
        for wait in waiting(machine.state):
            machine.deliver(Approve(call=wait.call), now_ms)
        if left := machine.commands():
            continue
        if not ends:
            return now_ms
        now_ms, operation = heapq.heappop(ends)
        machine.deliver(ToolSucceeded(operation), now_ms)
        left = machine.commands()


def _scheduling(policy: Policy) -> Policy:
    """Of the policy what it says about which calls run together."""
    return Policy(
        schedule=policy.schedule,
        max_parallel=policy.max_parallel,
        no_profile=policy.no_profile,
        write_conflict=policy.write_conflict,
        run_calls=policy.run_calls,
        approval_mode=policy.approval_mode,
        no_profile_approval=policy.no_profile_approval,
        max_turns=None,
        loop=None,
        silence_ms=None,
        tool_timeout_ms=None,
        compaction=None,
        clear_results=None,
    )


def together(one: Round) -> int:
    """How long they would take at least: all that depend on no other at once, each chain to its end."""
    ends: dict[str, int] = {}
    for call in one.calls:
        before = max((ends.get(name, 0) for name in call.after), default=0)
        ends[call.provider_id] = max(ends.get(call.provider_id, 0), before + call.to_ms - call.from_ms)
    return max(ends.values())
