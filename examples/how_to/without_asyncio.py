"""A driver without an event loop: one thread that stores each delta, applies it, and carries out what comes of it."""

import time
from collections import deque
from secrets import token_hex

from loopkernel import LogRecord, Machine, deltas, effects, policy, project, replay, states, tools, waiting
from loopkernel_adapters import JsonlStore

PAY = tools.Tool(name="pay", profile=tools.ToolProfile(approval=policy.Decision.ASK))  # without it, nobody is asked
POLICY = policy.Policy(retry=policy.Retry(base_ms=20))


def carry_out(command: effects.Command) -> list[deltas.Delta]:
    match command:
        case effects.CallModel(operation=1):
            return [deltas.ModelFailed(1, error=deltas.ErrorClass.OVERLOADED, message="try later")]
        case effects.CallModel(operation=operation, request=request):  # ask a real model here, and wait for it
            if len(project(request.thread, request.model)) == 1:
                call = deltas.ModelCall(operation, provider_id="a", tool="pay", input={"euros": 12})
                return [call, deltas.ModelCompleted(operation, deltas.StopReason.TOOL_USE)]
            said = deltas.ModelText(operation, "It is paid.")
            return [said, deltas.ModelCompleted(operation, deltas.StopReason.END_TURN)]
        case effects.CheckCall(operation=operation):
            return [deltas.ToolChecked(operation, tools.ValidCall())]
        case effects.StartTool(operation=operation):  # `key` of it is the idempotency key of the payment
            return [deltas.ToolSucceeded(operation, tools.ToolOutput("paid 12 EUR"))]
    return []  # what is aborted has ended already: one thing at a time


class Driver:
    def __init__(self, path: str) -> None:
        self.store, self.inputs, self.timers = JsonlStore(path), deque[deltas.Delta](), dict[int, int]()
        records, nonce = self.store.load(), token_hex(8)
        self.machine = Machine(replay(records))
        created = deltas.Created(session_id=path, policy=POLICY, tools=(PAY,), nonce=nonce)
        self.tell(*([deltas.Resumed(nonce=nonce)] if records else [created, deltas.Acquired()]))

    def tell(self, *said: deltas.Delta) -> None:
        self.inputs.extend(said)
        while self.inputs or isinstance(self.machine.state, states.Backoff):
            self.step(self.inputs.popleft() if self.inputs else self.next_timer())

    def next_timer(self) -> deltas.TimerFired:
        operation, deadline_ms = min(self.timers.items(), key=lambda timer: timer[1])
        time.sleep(max(0, deadline_ms / 1000 - time.time()))
        return deltas.TimerFired(operation)

    def step(self, delta: deltas.Delta) -> None:
        now_ms = int(time.time() * 1000)
        self.store.append([LogRecord(delta, now_ms)], durable=True)  # before anything follows from it
        self.machine.deliver(delta, now_ms)
        print(type(delta).__name__, "->", type(self.machine.state).__name__)
        for command in self.machine.commands():
            match command:
                case effects.StartTimer(operation=operation, deadline_ms=deadline_ms):
                    self.timers[operation] = deadline_ms
                case effects.CancelTimer(operation=operation):
                    self.timers.pop(operation, None)
                case _:
                    self.inputs.extend(carry_out(command))


driver = Driver("run.jsonl")
driver.tell(deltas.Say("Pay Anna 12 euros."))
driver.store.close()  # the process may end here: the call waits in the log
driver = Driver("run.jsonl")
for call in waiting(driver.machine.state):
    print(call)
    driver.tell(deltas.Approve(call.call))
