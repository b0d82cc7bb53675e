"""A driver in trio: what is under way is a task with a cancel scope of its own, which an abort cancels."""

import math
import time
from collections.abc import Callable

import trio
from loopkernel import EffectClass, LogRecord, Machine, Tool, ToolOutput, ToolProfile, deltas, states, tools
from loopkernel.effects import AbortModel, AbortTool, CallModel, CancelTimer, CheckCall, Command, StartTimer, StartTool
from loopkernel_adapters import JsonlStore

TOOLS = tuple(Tool(name=name, profile=ToolProfile(effect=EffectClass.READ_ONLY)) for name in ("quick", "endless"))
AT_REST = (states.Idle, states.Confirming, states.Cancelled, states.Done)
STOPS = {AbortModel: CallModel, AbortTool: StartTool, CancelTimer: StartTimer}  # ids are unique within a kind


async def carry_out(command: Command, tell: Callable[[deltas.Delta], None]) -> None:
    match command:
        case CallModel(operation=operation):  # ask a real model here, and tell what it says as it comes
            for name in ("quick", "endless"):
                tell(deltas.ModelCall(operation, provider_id=name, tool=name, input={}))
            tell(deltas.ModelCompleted(operation, deltas.StopReason.TOOL_USE))
        case CheckCall(operation=operation):
            tell(deltas.ToolChecked(operation, tools.ValidCall()))
        case StartTool(operation=operation, tool="quick"):
            text = await trio.to_thread.run_sync(lambda: "what blocks runs in a thread")
            tell(deltas.ToolSucceeded(operation, ToolOutput(text)))
            tell(deltas.CancelAll())  # as a person would who has seen enough
        case StartTool(operation=operation):
            try:
                await trio.sleep_forever()
            finally:
                tell(deltas.ToolStopped(operation))
        case StartTimer(operation=operation, deadline_ms=deadline_ms):
            await trio.sleep(max(0, deadline_ms / 1000 - time.time()))
            tell(deltas.TimerFired(operation))


async def drive(path: str, *inputs: deltas.Delta) -> None:
    """Until the loop is at rest, and nothing is under way."""
    machine, store, scopes = Machine(), JsonlStore(path), dict[tuple[type, int], trio.CancelScope]()
    sending, incoming = trio.open_memory_channel[deltas.Delta | None](math.inf)

    async def job(command: Command, scope: trio.CancelScope) -> None:
        with scope:
            await carry_out(command, sending.send_nowait)
        del scopes[type(command), command.operation]
        sending.send_nowait(None)  # nothing to apply: a job has ended

    for delta in inputs:
        sending.send_nowait(delta)
    async with trio.open_nursery() as nursery:
        async for delta in incoming:
            if delta is not None:
                now_ms = int(time.time() * 1000)
                await trio.to_thread.run_sync(store.append, [LogRecord(delta, now_ms)], True)
                print(type(delta).__name__, *(type(event).__name__ for event in machine.deliver(delta, now_ms)))
            for command in machine.commands():
                if stopped := STOPS.get(type(command)):
                    scopes.get((stopped, command.operation), trio.CancelScope()).cancel()
                else:
                    scope = scopes[type(command), command.operation] = trio.CancelScope()
                    nursery.start_soon(job, command, scope)
            if isinstance(machine.state, AT_REST) and not scopes and not incoming.statistics().current_buffer_used:
                break
    store.close()


trio.run(drive, "run.jsonl", deltas.Created(session_id="run", tools=TOOLS), deltas.Acquired(), deltas.Say("Look"))
