"""What may be long in a run: one reply of many blocks, calls, tools or sub-agents, and many rounds or inputs.

Each shape is a run of its own kind at any size: as the log that a world outside and the kernel make together, as a
recording of another agent, or as a script for the driver.
"""

import json
from collections import deque
from collections.abc import Callable, Iterator

from attrs import Factory, define, evolve, frozen
from loopkernel.data.blocks import TextBlock
from loopkernel.data.choices import EarlyStart, NoProfileApproval, OnBusy, OnToolFailure, Schedule
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import AbortTool, AskHook, CallModel, CheckCall, Command, StartChild, StartTool
from loopkernel.data.events import ApprovalAsked
from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelCall, ModelCompleted, ModelDelta, ModelReasoning, ModelText
from loopkernel.data.outside_deltas import ChildEnded, HookAnswered, HookContinue
from loopkernel.data.policy import Compaction, Hook, Policy
from loopkernel.data.thread_deltas import Acquired, Created
from loopkernel.data.tool_deltas import ToolChecked, ToolFailed, ToolStopped, ToolSucceeded
from loopkernel.data.tools import (
    AccessMode,
    Claim,
    Decision,
    EffectClass,
    InvalidCall,
    Tool,
    ToolOutput,
    ToolProfile,
    ValidCall,
    Verdict,
)
from loopkernel.data.usage import Usage
from loopkernel.data.user_deltas import Approve, Enqueue, Say, Steer, UserDelta
from loopkernel.data.words import HookPoint, StopReason, TurnEndReason
from loopkernel.machine import Machine
from loopkernel.replaying import LogRecord

ANY = ModelOperation(0)  # stands for the operation that is known only when the model is asked
HELLO = (TextBlock("Go on."),)
READ = ToolProfile(effect=EffectClass.READ_ONLY)
WRITE = ToolProfile(effect=EffectClass.IDEMPOTENT)
# Nothing is limited; what is measured is how much there is of one thing.
OPEN = Policy(
    max_turns=None,
    max_parallel=None,
    schedule=Schedule.ALL,
    no_profile_approval=NoProfileApproval.ALLOW,
    loop=None,
    tool_timeout_ms=None,
    queue_limit=1_000_000,
    compaction=Compaction(window_tokens=1_000_000_000),
    clear_results=None,
)
Reply = tuple[ModelDelta, ...]


@frozen(kw_only=True)
class Script:
    """A run of one session: its settings, what the model answers, in turn, and what the user does while it is busy.

    `writes`: calls of tools that write use the resource that their input names. `fails`: each run does. `invalid`: no
    check finds a call valid.
    """

    replies: tuple[Reply, ...]
    policy: Policy = OPEN
    tools: tuple[Tool, ...] = (Tool(name="look", profile=READ),)
    busy: tuple[UserDelta, ...] = ()
    fails: bool = False
    invalid: bool = False


@define
class Outside:
    """The world outside of a script: it does what the kernel asks, in the order in which it asks."""

    script: Script
    machine: Machine = Factory(Machine)
    records: list[LogRecord] = Factory(list)
    owed: deque[Command | ApprovalAsked] = Factory(deque)
    requests: int = 0

    def deliver(self, delta: Delta) -> None:
        """One delta; what it asks for waits."""
        self.records.append(LogRecord(delta, 0))
        asked = [event for event in self.machine.deliver(delta, 0) if isinstance(event, ApprovalAsked)]
        self.owed.extend((*self.machine.commands(), *asked))

    def play(self) -> tuple[LogRecord, ...]:
        """The log of the run."""
        script = self.script
        self.deliver(Created(session_id="s", policy=script.policy, tools=script.tools))
        self.deliver(Acquired())
        self.deliver(Say(content=HELLO))
        for said in script.busy:
            self.deliver(said)
        while self.owed:
            for delta in self._answers(self.owed.popleft()):
                self.deliver(delta)
        return tuple(self.records)

    def _answers(self, asked: Command | ApprovalAsked) -> Iterator[Delta]:
        if isinstance(asked, CallModel):
            yield from self._reply(asked)
        elif isinstance(asked, CheckCall):
            yield ToolChecked(asked.operation, self._verdict(asked))
        elif isinstance(asked, StartTool):
            output = ToolOutput(content=(TextBlock(f"did {asked.call}"),))
            failed = self.script.fails
            yield ToolFailed(asked.operation, output) if failed else ToolSucceeded(asked.operation, output)
        elif isinstance(asked, StartChild):
            yield ChildEnded(operation=asked.operation, reason=TurnEndReason.MODEL_STOP, text="It is done.")
        elif isinstance(asked, AskHook):
            yield HookAnswered(asked.operation, HookContinue())
        elif isinstance(asked, AbortTool):
            yield ToolStopped(asked.operation)
        elif isinstance(asked, ApprovalAsked):
            yield Approve(call=asked.call)

    def _reply(self, asked: CallModel) -> Iterator[Delta]:
        replies, self.requests = self.script.replies, self.requests + 1
        reply = replies[self.requests - 1] if self.requests <= len(replies) else (ModelText(ANY, "Done."),)
        yield from (evolve(piece, operation=asked.operation) for piece in reply)
        stop = StopReason.TOOL_USE if isinstance(reply[-1], ModelCall) else StopReason.END_TURN
        yield ModelCompleted(asked.operation, stop, Usage(input=10, output=2))

    def _verdict(self, check: CheckCall) -> Verdict:
        if self.script.invalid:
            return InvalidCall("it cannot be so")
        given = check.input.value()
        key = given.get("path") if isinstance(given, dict) else None
        mode = AccessMode.READ if check.tool == "look" else AccessMode.WRITE
        return ValidCall((Claim(key, mode),) if isinstance(key, str) else ())


def call(number: int, tool: str = "look", path: str | None = None, after: tuple[str, ...] = ()) -> ModelCall:
    """A call, which names its own file, or that one."""
    given = Json.of({"path": f"file-{number}" if path is None else path})
    return ModelCall(ANY, provider_id=f"c{number}", tool=tool, input=given, after=after)


def calls(count: int, tool: str = "look") -> Reply:
    """A reply of so many calls."""
    return tuple(call(number, tool) for number in range(count))


def scheduled(schedule: Schedule, tool: str = "look") -> Callable[[int], Script]:
    """A reply of many calls of one tool under a schedule."""
    tools = (Tool(name="look", profile=READ), Tool(name="write", profile=WRITE))
    return lambda count: Script(replies=(calls(count, tool),), policy=evolve(OPEN, schedule=schedule), tools=tools)


def _tools(count: int) -> tuple[Tool, ...]:
    return tuple(Tool(name=f"tool_{number}", profile=READ) for number in range(count))


def _early(count: int) -> Script:
    tool = Tool(name="look", profile=ToolProfile(effect=EffectClass.READ_ONLY, early=True))
    policy = evolve(OPEN, early_start=EarlyStart.GATED, on_tool_failure=OnToolFailure.CANCEL_SIBLINGS)
    return Script(replies=(calls(count),), policy=policy, tools=(tool,))


def _chain(count: int) -> Script:
    made = (call(number, after=(f"c{number - 1}",) if number else ()) for number in range(count))
    return Script(replies=(tuple(made),), policy=evolve(OPEN, schedule=Schedule.GRAPH))


def _fan(count: int) -> Script:
    made = (call(number, after=("c0",) if number else ()) for number in range(count))
    return Script(replies=(tuple(made),), policy=evolve(OPEN, schedule=Schedule.GRAPH))


def _references(count: int) -> Script:
    made = (
        ModelCall(ANY, provider_id=f"c{number}", tool="look", input=Json.of({"of": {"$result": f"c{number - 1}"}}))
        for number in range(1, count)
    )
    return Script(replies=((call(0), *made),), policy=evolve(OPEN, schedule=Schedule.GRAPH))


def _one_file(count: int) -> Script:
    made = tuple(call(number, "write", "the file") for number in range(count))
    tools = (Tool(name="write", profile=WRITE),)
    return Script(replies=(made,), policy=evolve(OPEN, schedule=Schedule.GRAPH), tools=tools)


def _asked(count: int) -> Script:
    tool = Tool(name="look", profile=ToolProfile(effect=EffectClass.READ_ONLY, approval=Decision.ASK))
    return Script(replies=(calls(count),), tools=(tool,))


def _children(count: int) -> Script:
    tool = Tool(name="look", profile=ToolProfile(effect=EffectClass.READ_ONLY, child=True))
    made = (
        ModelCall(ANY, provider_id=f"c{number}", tool="look", input=Json.of({"prompt": f"Do part {number}."}))
        for number in range(count)
    )
    return Script(replies=(tuple(made),), tools=(tool,))


def _sharing(count: int) -> Script:
    script = _children(count)
    return evolve(script, policy=evolve(OPEN, max_total_tokens=100_000_000))


def _rounds(count: int) -> Script:
    return Script(replies=tuple((call(number),) for number in range(count)))


def _rounds_of_tools(count: int) -> Script:
    return Script(replies=tuple((call(number, f"tool_{number}"),) for number in range(count)), tools=_tools(count))


def _said(number: int) -> tuple[TextBlock, ...]:
    return (TextBlock(f"And then part {number}."),)


# By their names: what there is many of, in a run.
SHAPES: dict[str, Callable[[int], Script]] = {
    "text blocks": lambda count: Script(
        replies=(tuple((ModelReasoning(ANY, "so"), ModelText(ANY, "it is"))[at % 2] for at in range(count)),)
    ),
    "reasoning blocks": lambda count: Script(replies=((*(ModelReasoning(ANY, "so") for _ in range(count)),),)),
    "calls": lambda count: Script(replies=(calls(count),)),
    "calls, graph": scheduled(Schedule.GRAPH),
    "calls, one file": _one_file,
    "calls, serial": scheduled(Schedule.SERIAL),
    "calls, read runs": scheduled(Schedule.READ_RUNS),
    "writes, read runs": scheduled(Schedule.READ_RUNS, "write"),
    "calls, batches": scheduled(Schedule.BATCHES),
    "calls, slots": lambda count: Script(
        replies=(calls(count),), policy=evolve(OPEN, schedule=Schedule.GRAPH, max_parallel=10)
    ),
    "calls, timed": lambda count: Script(replies=(calls(count),), policy=evolve(OPEN, tool_timeout_ms=1_000)),
    "calls, early": _early,
    "calls, output": lambda count: Script(replies=(calls(count),), policy=evolve(OPEN, output_tool="say")),
    "calls that fail": lambda count: Script(replies=(calls(count),), fails=True),
    "invalid calls": lambda count: Script(replies=(calls(count),), invalid=True),
    "calls of nothing": lambda count: Script(replies=(calls(count, "nothing"),)),
    "approvals": _asked,
    "hooks": lambda count: Script(
        replies=(calls(count),), policy=evolve(OPEN, hooks=(Hook(name="h", point=HookPoint.BEFORE_TOOL, gated=True),))
    ),
    "tools": lambda count: Script(
        replies=(tuple(call(number, f"tool_{number}") for number in range(count)),), tools=_tools(count)
    ),
    "chain": _chain,
    "fan": _fan,
    "references": _references,
    "sub-agents": _children,
    "sub-agents that share": _sharing,
    "rounds": _rounds,
    "rounds, other tools": _rounds_of_tools,
    "queued inputs": lambda count: Script(
        replies=(), busy=tuple(Enqueue(content=_said(number)) for number in range(count))
    ),
    "steers": lambda count: Script(
        replies=(),
        policy=evolve(OPEN, on_busy=OnBusy.QUEUE),
        busy=tuple(Steer(content=_said(number)) for number in range(count)),
    ),
}


def log_of(shape: str, count: int) -> tuple[LogRecord, ...]:
    """The log of a run of the shape with so many."""
    return Outside(SHAPES[shape](count)).play()


# --- recordings -----------------------------------------------------------------------------------------


def _uses(count: int, of: Callable[[int], str]) -> list[object]:
    return [{"type": "tool_use", "id": f"c{at}", "name": of(at), "input": {"command": f"{at}"}} for at in range(count)]


def _results(of: range, text: str = "It is done.") -> object:
    return _user([{"type": "tool_result", "tool_use_id": f"c{at}", "content": text} for at in of])


def _user(content: object) -> dict[str, object]:
    return {"role": "user", "content": content}


def _reply(name: str, content: list[object]) -> dict[str, object]:
    return {"id": name, "type": "message", "role": "assistant", "model": "m", "content": content}


def _of_rounds(count: int, tool: Callable[[int], str]) -> list[object]:
    found: list[object] = []
    for at, made in enumerate(_uses(count, tool)):
        found += [_reply(f"m{at}", [made]), _results(range(at, at + 1))]
    return found


# By their names: what there is many of, in a recording of Claude Code.
RECORDINGS: dict[str, Callable[[int], list[object]]] = {
    "text blocks": lambda count: [_reply("m", [{"type": "text", "text": f"part {at}"} for at in range(count)])],
    "reasoning blocks": lambda count: [
        _reply("m", [{"type": "thinking", "thinking": f"so {at}", "signature": "c2ln"} for at in range(count)])
    ],
    "blocks by lines": lambda count: [_reply("m", [{"type": "text", "text": f"part {at}"}]) for at in range(count)],
    "calls": lambda count: [_reply("m", _uses(count, lambda _: "Bash")), _results(range(count))],
    "calls by lines": lambda count: [
        *(_reply("m", [made]) for made in _uses(count, lambda _: "Bash")),
        *(_results(range(at, at + 1)) for at in range(count)),
    ],
    "results backwards": lambda count: [_reply("m", _uses(count, lambda _: "Bash")), _results(range(count)[::-1])],
    "rejected calls": lambda count: [
        _reply("m", _uses(count, lambda _: "Bash")),
        _results(range(count), "The user doesn't want to proceed with this tool use"),
    ],
    "no results": lambda count: [_reply("m", _uses(count, lambda _: "Bash"))],
    "tools": lambda count: [_reply("m", _uses(count, lambda at: f"tool_{at}")), _results(range(count))],
    "rounds": lambda count: _of_rounds(count, lambda _: "Bash"),
    "rounds, other tools": lambda count: _of_rounds(count, lambda at: f"tool_{at}"),
    "user blocks": lambda count: [_user([{"type": "text", "text": f"part {at}"} for at in range(count)])],
}


def recording_of(shape: str, count: int) -> str:
    """The lines of a recording of the shape with so many."""
    messages = [_user("Go on."), *RECORDINGS[shape](count), _user("And then?")]
    lines = []
    for number, message in enumerate(messages, start=1):
        assert isinstance(message, dict)
        record = {
            "parentUuid": f"u{number - 1}" if number > 1 else None,
            "isSidechain": False,
            "sessionId": "s",
            "type": message["role"],
            "message": message,
            "uuid": f"u{number}",
        }
        lines.append(json.dumps(record) + "\n")
    return "".join(lines)
