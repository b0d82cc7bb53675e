"""What passes between a run, its activities and whoever talks to it: frozen values, and their texts in a history.

Nothing here has side effects: the workflow uses it from within its sandbox.
"""

from functools import cache

from attrs import frozen
from loopkernel.codec.structure import Codec
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import Command, StartTimer
from loopkernel.data.events import Refused
from loopkernel.data.ids import OperationKind
from loopkernel.data.json_text import Json
from loopkernel.data.outside_deltas import ChildAsks, ChildEnded, ChildProgress
from loopkernel.data.thread_deltas import RULES_VERSION, Created, Disposed, Forked
from loopkernel.data.user_deltas import UserDelta

from loopkernel_adapters.driver.failures import Errand

# A history is replayed by the rules that it was made under, so a worker of other rules must not find it.
RUN = f"loopkernel.run.rules-{RULES_VERSION}"
CARRY_OUT = "loopkernel.carry_out"
WORKER_STOPPED = "loopkernel.worker_stopped"  # the type of an activity's failure: the process ends, not the work

# What a person, or a program, may send to a run.
Input = UserDelta | Forked | Disposed
ChildSays = ChildProgress | ChildAsks
JobKey = tuple[OperationKind, int]


@frozen(kw_only=True)
class Pace:
    """How often is said what.

    `heartbeat_seconds`: a worker that is silent for so long has died. `report_seconds`: what a reply under way has said
    is part of the run at the latest so much later (a watcher sees it at once). `most_events`: a history that is longer
    goes on as a new one; Temporal ends a run whose history has 51,200.
    """

    heartbeat_seconds: float = 30.0
    report_seconds: float = 10.0
    most_events: int = 8_000


@frozen
class Answered:
    """An input that was taken: the id of its update, and why the kernel refused it, if it did."""

    update: str
    refused: Refused | None


@frozen(kw_only=True)
class Carried:
    """What a history begins with: a run that is `created`, or the `state` that an earlier history of it has led to.

    `task` is what a sub-agent is told first. `timers` are under way, and `held` are the commands that were not begun
    any more. `answered` are the last inputs that were taken: the server knows an update within one history alone, so
    who asks again behind the end of it is answered from here.
    """

    pace: Pace = Pace()
    created: Created | None = None
    task: str | None = None
    state: str | None = None
    timers: tuple[StartTimer, ...] = ()
    held: tuple[Command, ...] = ()
    answered: tuple[Answered, ...] = ()


@frozen(kw_only=True)
class Order:
    """What an activity is to do. `model` writes the summaries; reports are due every `report_seconds`."""

    command: Errand
    model: str
    report_seconds: float


@frozen(kw_only=True)
class Batch:
    """Reports of an activity: the `number`-th time, from 1, that it says something."""

    number: int
    kind: OperationKind
    operation: int
    deltas: tuple[Delta, ...]

    @property
    def key(self) -> JobKey:
        """The operation that reports."""
        return (self.kind, self.operation)


@frozen
class ChildWords:
    """What the sub-agent of that session says to its parent. The parent knows the operation."""

    session_id: str
    report: ChildSays


# Each codec is made when it is first needed.


@cache
def carried() -> Codec[Carried]:
    """What a history begins with, as the argument of a workflow."""
    return Codec.of(Carried)


@cache
def orders() -> Codec[Order]:
    """An order, as the argument of an activity."""
    return Codec.of(Order)


@cache
def batches() -> Codec[tuple[Batch, ...]]:
    """What an activity has to say, as its result or in a signal of it."""
    return Codec.of(tuple[Batch, ...])


@cache
def inputs() -> Codec[Input]:
    """What somebody wants of a run, as the argument of an update."""
    return Codec.of(Input)


@cache
def child_words() -> Codec[ChildWords]:
    """What a sub-agent says, in a signal to its parent."""
    return Codec.of(ChildWords)


@cache
def endings() -> Codec[ChildEnded]:
    """How a run has ended, as the result of its workflow."""
    return Codec.of(ChildEnded)


@cache
def refusals() -> Codec[Refused | None]:
    """Why an input was not taken, as the result of an update; None: it was."""
    return Codec.of(Refused | None)


@cache
def answers() -> Codec[Json | None]:
    """What a person has answered to a tool, as the result of an update."""
    return Codec.of(Json | None)
