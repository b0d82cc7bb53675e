"""The copies that records make of themselves by hand, for speed, are those of `evolve`: no field is forgotten."""

import inspect
from typing import Any

import pytest
from attrs import evolve, fields_dict
from loopkernel.data.hook_calls import CallHooks
from loopkernel.data.ids import MessageId
from loopkernel.data.ledgers import Ledger, LedgerEntry
from loopkernel.data.sessions import Counters, Course, OpenReply, Recovery, Session, Turn
from loopkernel.data.usage import Usage
from loopkernel.data.watches import Watch
from loopkernel.data.words import RequestReason


def filled(record: type, **given: object) -> Any:  # of any record: what a field holds does not matter to a copy
    """A record with another number in each field, or what is given."""
    return record(**{name: given.get(name, 100 + number) for number, name in enumerate(fields_dict(record))})


def parts(record: Any) -> dict[str, object]:  # as above
    """All that it holds: what is derived is no part of its equality."""
    return {name: getattr(record, name) for name in fields_dict(type(record))}


UPDATED = [(record, name) for record in (Session, Ledger) for name in inspect.signature(record.updated).parameters]


@pytest.mark.parametrize(("record", "name"), [(record, name) for record, name in UPDATED if name != "self"])
@pytest.mark.parametrize("value", [0, 7])
def test_an_update_of_a_field_changes_that_and_nothing_else(record: type, name: str, value: int) -> None:
    before = filled(record)
    given = {"entries": before.entries, "plan": before.plan} if record is Ledger else {}
    assert parts(before.updated(**{**given, name: value})) == parts(evolve(before, **{name: value}))


COUNTERS, COURSE, TURN, RECOVERY = filled(Counters), filled(Course), filled(Turn), Recovery(raised=9)
REPLY, USED = filled(OpenReply, usage=Usage(input=5, output=1)), Usage(input=5, output=3)
ENTRY = filled(LedgerEntry)
WATCH = filled(Watch, noted=("read",))


@pytest.mark.parametrize(
    ("copied", "expected"),
    [
        (COUNTERS.with_message(MessageId(7)), evolve(COUNTERS, messages=7)),
        (COURSE.with_call(writes=True), evolve(COURSE, calls=COURSE.calls + 1, writes=COURSE.writes + 1)),
        (COURSE.with_call(writes=False), evolve(COURSE, calls=COURSE.calls + 1)),
        (
            TURN.answered(7, 8, RECOVERY),
            evolve(TURN, replies=7, pauses=8, forcing=False, hook_retries=0, recovery=RECOVERY),
        ),
        (TURN.asking(RequestReason.NUDGE), evolve(TURN, reason=RequestReason.NUDGE)),
        (REPLY.used(Usage(output=3)), evolve(REPLY, usage=USED)),
        (ENTRY.with_hooks(CallHooks(retries=1)), evolve(ENTRY, hooks=CallHooks(retries=1))),
        (WATCH.marked(due=True), evolve(WATCH, due=True)),
        (WATCH.marked(due=False), evolve(WATCH, due=False)),
    ],
)
def test_a_copy_with_a_name_changes_what_it_tells_and_nothing_else(copied: object, expected: object) -> None:
    assert parts(copied) == parts(expected)
