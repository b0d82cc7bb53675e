"""The copies that records make of themselves by hand, for speed, are those of `evolve`: no field is forgotten."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest
from attrs import evolve, fields_dict
from loopkernel.data.blocks import ToolResult
from loopkernel.data.hook_calls import NO_HOOKS, CallHooks
from loopkernel.data.ids import CallId, MessageId, ModelOperation, RunOperation
from loopkernel.data.ledgers import ApprovalWait, Ledger, LedgerEntry, Person
from loopkernel.data.plans import Plan
from loopkernel.data.sessions import Counters, Course, OpenReply, Recovery, Session, Turn
from loopkernel.data.tools import EffectClass, UnknownTool
from loopkernel.data.usage import Usage
from loopkernel.data.watches import Watch
from loopkernel.data.words import CallStatus, RequestReason


def filled(record: type, **given: object) -> Any:  # of any record: what a field holds does not matter to a copy
    """A record with another number in each field, or what is given."""
    return record(**{name: given.get(name, 100 + number) for number, name in enumerate(fields_dict(record))})


def parts(record: Any) -> dict[str, object]:  # as above
    """All that it holds: what is derived is not part of its equality."""
    return {name: getattr(record, name) for name in fields_dict(type(record))}


UPDATED = [
    (record, name) for record in (Session, Ledger, Plan) for name in inspect.signature(record.updated).parameters
]


@pytest.mark.parametrize(("record", "name"), [(record, name) for record, name in UPDATED if name != "self"])
@pytest.mark.parametrize("value", [0, 7])
def test_an_update_of_a_field_changes_that_and_nothing_else(record: Any, name: str, value: int) -> None:  # as above
    before = filled(record)
    given = {"entries": before.entries, "plan": before.plan} if record is Ledger else {}
    expected = parts(evolve(before, **{name: value}))
    for updated in (record.updated, inspect.unwrap(record.updated)):  # as it is written out, and as the source has it
        after = updated(before, **{**given, name: value})
        assert parts(after) == expected
        with pytest.raises(AttributeError):
            setattr(after, name, value)


COUNTERS, COURSE, TURN, RECOVERY = filled(Counters), filled(Course), filled(Turn), Recovery(raised=9)
REPLY, USED = filled(OpenReply, usage=Usage(input=5, output=1)), Usage(input=5, output=3)
ENTRY = filled(LedgerEntry, person=Person(approved=True, wait=ApprovalWait()))
RESULT = ToolResult(call=CallId(ModelOperation(1), 1), provider_id="1", tool="read", status=CallStatus.DONE)
WATCH = filled(Watch, noted=("read",))


@pytest.mark.parametrize(
    ("copied", "expected"),
    [
        (COUNTERS.with_message(MessageId(7)), evolve(COUNTERS, messages=7)),
        (COURSE.with_call(writes=True), evolve(COURSE, calls=COURSE.calls + 1, writes=COURSE.writes + 1)),
        (COURSE.with_call(writes=False), evolve(COURSE, calls=COURSE.calls + 1)),
        (
            TURN.answered(7, 5, 8, 6, RECOVERY),
            evolve(TURN, replies=7, nudges=5, pauses=8, missing=6, forcing=False, hook_retries=0, recovery=RECOVERY),
        ),
        (TURN.asking(RequestReason.NUDGE), evolve(TURN, reason=RequestReason.NUDGE)),
        (REPLY.used(Usage(output=3)), evolve(REPLY, usage=USED)),
        (ENTRY.with_hooks(CallHooks(retries=1)), evolve(ENTRY, hooks=CallHooks(retries=1))),
        (
            ENTRY.judged(UnknownTool()),
            evolve(ENTRY, verdict=UnknownTool(), check=None, result=None, output=None, child=None),
        ),
        (
            ENTRY.started(RunOperation(7), None, EffectClass.READ_ONLY),
            evolve(
                ENTRY,
                status=CallStatus.IN_PROGRESS,
                operation=RunOperation(7),
                runs=ENTRY.runs + 1,
                effect=EffectClass.READ_ONLY,
                **dict.fromkeys(("timer", "check", "result", "output", "child")),
            ),
        ),
        (
            ENTRY.ended(RESULT),
            evolve(
                ENTRY,
                status=CallStatus.DONE,
                result=RESULT,
                person=Person(approved=True),
                hooks=NO_HOOKS,
                **dict.fromkeys(("timer", "check", "output")),
            ),
        ),
        (WATCH.marked(due=True), evolve(WATCH, due=True)),
        (WATCH.marked(due=False), evolve(WATCH, due=False)),
    ],
)
def test_a_copy_with_a_name_changes_what_it_tells_and_nothing_else(copied: object, expected: object) -> None:
    assert parts(copied) == parts(expected)


COPIES = {
    Session: {"updated", "with_operations"},
    Ledger: {"updated", "put"},
    LedgerEntry: {"judged", "started", "with_hooks", "ended"},
    Counters: {"with_message"},
    Course: {"with_call"},
    Turn: {"answered", "asking"},
    OpenReply: {"used"},
    Watch: {"marked"},
}


@pytest.mark.parametrize("record", COPIES, ids=lambda record: record.__name__)
def test_every_copy_that_a_record_makes_of_itself_is_held_here(record: type) -> None:
    made = {name for name, found in vars(record).items() if inspect.isfunction(found) and _copies(found, record)}
    assert made == COPIES[record]


def _copies(function: Callable[..., object], record: type) -> bool:
    return str(inspect.signature(function).return_annotation) == record.__name__
