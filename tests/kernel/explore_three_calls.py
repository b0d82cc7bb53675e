"""Three calls under each schedule, with conflicts, dependencies and approvals."""

from itertools import product

from attrs import evolve
from loopkernel.data.choices import (
    OnBusy,
    Schedule,
)
from loopkernel.testing.explorer.scope import OfferedCall

from tests.kernel.explore_world import ENDS, ONE_TURN, Case, plain


def three_calls(
    schedule: Schedule, max_parallel: int | None, offers: tuple[tuple[OfferedCall, ...], ...], name: str
) -> Case:
    """Three calls with conflicts, dependencies and approvals, one cancel, in every order of completion."""
    goals = [
        "a call starts by an approval",
        "a call is rejected",
        "a call cannot be reached",
        "references are resolved",
        "a running call is cancelled",
        "a waiting call is cancelled",
        "a call waits for a run that has not stopped",
        "a cancel leads to rest",
        *(["two calls wait for a person"] if schedule not in (Schedule.SERIAL, Schedule.READ_RUNS) else []),
        *(
            ["two calls run at once", "a call runs while another waits for a person"]
            if schedule is not Schedule.SERIAL
            else []
        ),
        *(["a call waits for a slot"] if schedule is not Schedule.SERIAL and max_parallel == 2 else []),
    ]
    if schedule is Schedule.ALL:
        goals.remove("a call waits for a run that has not stopped")
    return Case(
        name=f"{name}, {schedule.value}",
        policy=plain(schedule=schedule, max_parallel=max_parallel, queue_limit=0, on_busy=OnBusy.REJECT),
        scope=evolve(ONE_TURN, offers=offers, ends=ENDS, cancels=1, strays=False),
        goals=tuple(goals),
    )


FEW = (
    (OfferedCall(tool="wa"), OfferedCall(tool="qwa"), OfferedCall(tool="r")),
    (OfferedCall(tool="ra"), OfferedCall(tool="qwa"), OfferedCall(tool="qr", after=(0,)), OfferedCall(tool="r")),
    (
        OfferedCall(tool="wa"),
        OfferedCall(tool="qwa", after=(1,)),
        OfferedCall(tool="ra", uses=0),
        OfferedCall(tool="r", after=(0, 1)),
        OfferedCall(tool="qr"),
    ),
)
DEPENDENCIES = (
    (OfferedCall(tool=""),),
    (OfferedCall(tool=""), OfferedCall(tool="", after=(0,)), OfferedCall(tool="", uses=0)),
    (
        OfferedCall(tool=""),
        OfferedCall(tool="", after=(0,)),
        OfferedCall(tool="", after=(1,)),
        OfferedCall(tool="", after=(0, 1)),
        OfferedCall(tool="", uses=1),
    ),
)
ALL_TOOLS = ("r", "ra", "wa", "qr", "qra", "qwa")
MANY = tuple(tuple(evolve(call, tool=tool) for tool, call in product(ALL_TOOLS, calls)) for calls in DEPENDENCIES)
SCHEDULES = tuple(three_calls(schedule, 2, FEW, "three calls") for schedule in Schedule)
