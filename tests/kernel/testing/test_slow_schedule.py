"""The slow schedule against cases judged by hand, and what holds for any reply, whatever happens to it in any order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DataObject
from loopkernel.data.choices import NoProfile, OnReject, OnToolFailure, Schedule, WriteConflict
from loopkernel.data.tools import AccessMode, Claim, Decision, EffectClass
from loopkernel.data.words import CallStatus, CancelReason
from loopkernel.testing.slow_schedule import Followed, SlowCall, SlowReply, SlowRules

from tests.kernel.test_second_opinion import answering_move, apply, next_move, over, replies, rules, vain_moves

READ_ONLY, DANGEROUS = EffectClass.READ_ONLY, EffectClass.DANGEROUS
DONE, ERROR, CANCELLED, REJECTED = (
    CallStatus.DONE,
    CallStatus.ERROR,
    CallStatus.CANCELLED,
    CallStatus.REJECTED_BY_USER,
)
USER, SIBLING, TIMEOUT = CancelReason.USER_CANCELLED, CancelReason.SIBLING, CancelReason.TIMEOUT

# --- what holds always ----------------------------------------------------------------------------------


def clash(one: Claim, other: Claim) -> bool:
    """Whether two claims are of one resource, by lists of segments."""

    def path(key: str) -> list[str]:
        return ["/" if key.startswith("/") else "."] + [part for part in key.split("/") if part not in ("", ".")]

    mine, theirs = path(one.key), path(other.key)
    shared = min(len(mine), len(theirs))
    return mine[:shared] == theirs[:shared] and AccessMode.WRITE in (one.mode, other.mode)


def may_overlap(one: SlowCall, other: SlowCall, rules: SlowRules) -> bool:
    """Whether nothing forbids that two calls hold what they use at one time."""
    if rules.schedule is Schedule.ALL:
        return True
    if one.serial or other.serial:
        return False
    used: list[tuple[Claim, ...]] = []
    for call in (one, other):
        if not call.profile and rules.no_profile is NoProfile.CONFLICT:
            return False
        if call.profile and call.claims is None:
            return False
        used.append(call.claims if call.profile and call.claims is not None else ())
    last_write = rules.write_conflict is WriteConflict.LAST_WRITE
    return not any(
        clash(mine, theirs) and not (last_write and mine.mode is theirs.mode) for mine in used[0] for theirs in used[1]
    )


@given(replies(), rules, st.data())
def test_any_play(calls: list[SlowCall], chosen: SlowRules, data: DataObject) -> None:
    reply = SlowReply(calls, chosen)
    seen = reply.begin()
    for _ in range(data.draw(st.integers(0, 15))):
        move = next_move(data, reply)
        vain = move in vain_moves(reply)
        followed = apply(reply, move)
        assert not (vain and followed)
        seen += followed
        holding = [call for call in reply.calls if call.running or call.leased]
        for index, one in enumerate(holding):
            assert all(may_overlap(one, other, chosen) for other in holding[index + 1 :])
        assert chosen.max_parallel is None or sum(call.running for call in reply.calls) <= chosen.max_parallel
    while not over(reply):
        seen += apply(reply, answering_move(reply))
    for call in reply.calls:
        mine = [event[0] for event in seen if event[1] == call.place]
        assert mine.count("ended") == 1
        assert mine.count("started") <= 1
        assert "started" not in mine or (call.decision is not Decision.DENY and call.valid)
        assert "started" not in mine or call.decision is Decision.ALLOW or call.approved
        assert "started" not in mine or all(reply.calls[source].status is DONE for source in call.sources)
        assert mine[mine.index("ended") + 1 :] in ([], ["lease broken"])


# --- cases ----------------------------------------------------------------------------------------------


def writes(*keys: str) -> tuple[Claim, ...]:
    return tuple(Claim(key, AccessMode.WRITE) for key in keys)


def reads(*keys: str) -> tuple[Claim, ...]:
    return tuple(Claim(key, AccessMode.READ) for key in keys)


def reply_of(*calls: SlowCall, rules: SlowRules | None = None) -> SlowReply:
    return SlowReply(calls, rules or SlowRules())


def started(*places: int) -> list[Followed]:
    return [("started", place) for place in places]


def ended(place: int, status: CallStatus = DONE, reason: CancelReason | None = None) -> Followed:
    return ("ended", place, status, reason)


def mixed() -> list[SlowCall]:
    """Two reads of one file, a write of it, a read of another, and a write of that."""
    return [
        SlowCall(place=0, effect=READ_ONLY, claims=reads("a")),
        SlowCall(place=1, effect=READ_ONLY, claims=reads("a")),
        SlowCall(place=2, claims=writes("a")),
        SlowCall(place=3, effect=READ_ONLY, claims=reads("b")),
        SlowCall(place=4, claims=writes("b")),
    ]


@pytest.mark.rule("TOOL-3")
@pytest.mark.parametrize(
    ("schedule", "waves"),
    [
        (Schedule.SERIAL, [[0], [1], [2], [3], [4]]),
        (Schedule.BATCHES, [[0, 1], [], [2, 3], [], [4]]),
        (Schedule.READ_RUNS, [[0, 1], [], [2], [3], [4]]),
        (Schedule.GRAPH, [[0, 1, 3], [], [2], [], [4]]),
        (Schedule.ALL, [[0, 1, 2, 3, 4], [], [], [], []]),
    ],
)
def test_each_schedule_in_waves(schedule: Schedule, waves: list[list[int]]) -> None:
    reply = SlowReply(mixed(), SlowRules(schedule=schedule))
    seen = [reply.begin(), *([event for event in reply.succeed(place) if event[0] == "started"] for place in range(4))]
    assert seen == [started(*wave) for wave in waves]


@pytest.mark.rule("TOOL-3")
@pytest.mark.parametrize(
    ("schedule", "before", "after"),
    [
        (Schedule.SERIAL, [], [1]),
        (Schedule.BATCHES, [1], []),
        (Schedule.READ_RUNS, [], [1]),
        (Schedule.GRAPH, [1, 3], []),
        (Schedule.ALL, [1, 2, 3], []),
    ],
)
def test_a_call_that_waits_for_a_person_holds_others_back(
    schedule: Schedule, before: list[int], after: list[int]
) -> None:
    calls = [
        SlowCall(place=0, claims=writes("a"), decision=Decision.ASK),
        SlowCall(place=1, claims=writes("b")),
        SlowCall(place=2, claims=writes("a/b")),
        SlowCall(place=3, claims=writes("c")),
    ]
    reply = SlowReply(calls, SlowRules(schedule=schedule))
    assert reply.begin() == [("asked", 0), *started(*before)]
    assert reply.approve(0) == started(0)
    assert reply.approve(0) == []
    assert reply.succeed(0)[1:] == started(*after, *([2] if schedule is Schedule.GRAPH else []))


def test_a_person_is_asked_though_no_slot_is_free_and_slots_go_in_the_models_order() -> None:
    calls = [SlowCall(place=place, decision=Decision.ASK if place == 2 else Decision.ALLOW) for place in range(4)]
    reply = SlowReply(calls, SlowRules(max_parallel=1))
    assert reply.begin() == [("started", 0), ("asked", 2)]
    assert reply.approve(2) == []
    assert [reply.succeed(0), reply.succeed(1)] == [[ended(0), *started(1)], [ended(1), *started(2)]]
    assert [reply.succeed(2), reply.succeed(3)] == [[ended(2), *started(3)], [ended(3)]]


def test_a_denied_call_is_answered_when_the_schedule_would_let_it_start() -> None:
    calls = [SlowCall(place=0), SlowCall(place=1, claims=None, decision=Decision.DENY), SlowCall(place=2)]
    reply = reply_of(*calls)
    assert reply.begin() == started(0)
    assert reply.succeed(0) == [ended(0), ended(1, ERROR), *started(2)]


@pytest.mark.rule("CALL-1")
@pytest.mark.rule("CALL-3")
def test_sources() -> None:
    calls = [
        SlowCall(place=0),
        SlowCall(place=1, sources=(0,)),
        SlowCall(place=2, sources=(1,)),
        SlowCall(place=3, sources=(3,)),
        SlowCall(place=4, sources=(0,)),
        SlowCall(place=5, sources=(7,)),
    ]
    reply = reply_of(*calls)
    assert reply.begin() == [ended(3, ERROR), ended(5, ERROR), *started(0)]
    assert reply.succeed(0) == [ended(0), *started(1, 4)]
    assert reply.fail(1) == [ended(1, ERROR), ended(2, ERROR)]


def test_a_call_that_refers_is_checked_again_and_may_then_claim_something_else() -> None:
    for before, first, checked in ((None, [0], [1, 2]), (writes("a"), [0, 2], [])):
        calls = [
            SlowCall(place=0),
            SlowCall(place=1, sources=(0,), refers=True, claims=before, resolved_claims=writes("b")),
            SlowCall(place=2, claims=writes("c")),
            SlowCall(place=3, claims=writes("b")),
        ]
        reply = SlowReply(calls[:3] if before is None else calls, SlowRules())
        assert reply.begin() == started(*first, *([] if before is None else [3]))
        assert reply.succeed(0) == [ended(0), ("checking", 1)]
        assert reply.check(1, valid=True) == started(*checked)


def test_a_call_whose_input_does_not_fit_in_the_end_never_runs() -> None:
    reply = reply_of(SlowCall(place=0), SlowCall(place=1, sources=(0,), refers=True))
    assert [*reply.begin(), *reply.succeed(0)] == [*started(0), ended(0), ("checking", 1)]
    assert reply.check(1, valid=False) == [ended(1, ERROR)]


def test_nothing_passes_by_a_call_that_is_not_checked_yet() -> None:
    for schedule, first in ((Schedule.GRAPH, [0]), (Schedule.ALL, [0, 2])):
        calls = [SlowCall(place=0), SlowCall(place=1, checked=False), SlowCall(place=2)]
        assert SlowReply(calls, SlowRules(schedule=schedule)).begin() == started(*first)
    reply = reply_of(SlowCall(place=0, checked=False), SlowCall(place=1))
    assert (reply.begin(), reply.check(0, valid=False)) == ([], [ended(0, ERROR), *started(1)])


def test_batches_pass_over_what_is_invalid_and_are_not_redrawn() -> None:
    calls = [
        SlowCall(place=0, claims=reads("a")),
        SlowCall(place=1, claims=writes("a"), valid=False),
        SlowCall(place=2, claims=reads("a")),
        SlowCall(place=3, claims=writes("a"), decision=Decision.ASK),
        SlowCall(place=4, claims=reads("b")),
        SlowCall(place=5, claims=reads("a")),
    ]
    reply = SlowReply(calls, SlowRules(schedule=Schedule.BATCHES))
    assert reply.begin() == [ended(1, ERROR), *started(0, 2)]
    assert reply.cancel(3) == [ended(3, CANCELLED, USER)]
    assert [reply.succeed(0), reply.succeed(2)] == [[ended(0)], [ended(2), *started(4)]]
    assert reply.succeed(4) == [ended(4), *started(5)]


def test_a_call_whose_resources_are_not_known_is_in_a_batch_alone_also_when_they_are_known_later() -> None:
    calls = [SlowCall(place=0), SlowCall(place=1, sources=(0,), refers=True, claims=None), SlowCall(place=2)]
    reply = SlowReply(calls, SlowRules(schedule=Schedule.BATCHES))
    assert reply.begin() == started(0)
    assert reply.succeed(0) == [ended(0), ("checking", 1)]
    assert (reply.check(1, valid=True), reply.succeed(1)) == (started(1), [ended(1), *started(2)])


def test_runs_of_reads_start_one_after_the_other_and_go_by_the_tools_class() -> None:
    calls = [
        SlowCall(place=0, effect=READ_ONLY),
        SlowCall(place=1, effect=READ_ONLY, valid=False),
        SlowCall(place=2, effect=READ_ONLY),
        SlowCall(place=3, effect=READ_ONLY, decision=Decision.ASK),
        SlowCall(place=4, effect=READ_ONLY),
        SlowCall(place=5, effect=EffectClass.IDEMPOTENT, claims=reads("a")),
    ]
    reply = SlowReply(calls, SlowRules(schedule=Schedule.READ_RUNS))
    assert reply.begin() == [ended(1, ERROR), *started(0, 2), ("asked", 3)]
    assert reply.approve(3) == started(3, 4)
    assert [reply.succeed(place)[1:] for place in (0, 2, 3, 4)] == [[], [], [], started(5)]


@pytest.mark.rule("TOOL-17")
def test_a_cancelled_run_holds_its_resources_until_it_has_stopped() -> None:
    for last_word in ("stopped", "succeed", "fail"):
        reply = reply_of(SlowCall(place=0, claims=writes("a")), SlowCall(place=1, claims=reads("a/b")))
        assert reply.begin() == started(0)
        assert reply.cancel(0) == [("aborted", 0, USER), ended(0, CANCELLED, USER)]
        assert apply(reply, (last_word, (0,))) == started(1)
    held = SlowCall(place=0, claims=writes("a"), status=CANCELLED, leased=True)
    reply = SlowReply([SlowCall(place=0, claims=reads("a"))], SlowRules(), earlier=[held])
    assert (reply.begin(), reply.earlier_stopped(0)) == ([], started(0))


def test_what_does_not_stop_in_time_loses_its_resources() -> None:
    reply = reply_of(SlowCall(place=0, claims=None), SlowCall(place=1))
    assert [*reply.begin(), *reply.time_out(0)] == [*started(0), ("aborted", 0, TIMEOUT), ended(0, ERROR, TIMEOUT)]
    assert reply.grace_over(0) == [("lease broken", 0), *started(1)]
    assert reply.grace_over(0) == []


def test_a_corrected_call_stands_behind_what_has_started() -> None:
    calls = [
        SlowCall(place=0, claims=writes("a"), decision=Decision.ASK),
        SlowCall(place=1, claims=writes("b")),
        SlowCall(place=2, claims=writes("a")),
    ]
    reply = reply_of(*calls)
    assert reply.begin() == [("asked", 0), *started(1)]
    assert reply.correct(0, writes("b")) == started(2)
    assert reply.succeed(1) == [ended(1), *started(0)]


@pytest.mark.rule("CALL-6")
def test_two_writers_may_overlap_by_policy_but_no_reader_with_a_writer() -> None:
    calls = [SlowCall(place=0, claims=writes("a")), SlowCall(place=1, claims=writes("a"))]
    calls += [SlowCall(place=2, claims=reads("a")), SlowCall(place=3, claims=writes("b"), serial=True)]
    reply = SlowReply(calls, SlowRules(write_conflict=WriteConflict.LAST_WRITE))
    assert reply.begin() == started(0, 1)


@pytest.mark.parametrize(("choice", "first"), [(NoProfile.CONFLICT, [0]), (NoProfile.NO_CONFLICT, [0, 1])])
def test_a_tool_without_a_profile(choice: NoProfile, first: list[int]) -> None:
    calls = [SlowCall(place=0, claims=writes("a")), SlowCall(place=1, profile=False, claims=writes("a"))]
    assert SlowReply(calls, SlowRules(no_profile=choice)).begin() == started(*first)


@pytest.mark.rule("ASK-7")
@pytest.mark.parametrize("choice", [OnReject.SKIP_REST, OnReject.HALT])
def test_a_rejection_by_policy(choice: OnReject) -> None:
    calls = [
        SlowCall(place=0),
        SlowCall(place=1, decision=Decision.ASK),
        SlowCall(place=2, sources=(1,)),
        SlowCall(place=3, decision=Decision.ASK),
        SlowCall(place=4, sources=(0,)),
        SlowCall(place=5, sources=(4,)),
    ]
    skipping = SlowReply(calls, SlowRules(on_reject=choice))
    assert skipping.begin() == [("started", 0), ("asked", 1), ("asked", 3)]
    rejected = CancelReason.REJECTED
    assert skipping.reject(1) == [
        ended(1, REJECTED),
        ended(2, ERROR),
        ended(3, CANCELLED, rejected),
        ended(4, CANCELLED, rejected),
        ended(5, ERROR),
    ]
    assert skipping.succeed(0) == [ended(0)]
    going_on = reply_of(SlowCall(place=0, decision=Decision.ASK), SlowCall(place=1, claims=None))
    assert going_on.begin() == [("asked", 0)]
    assert going_on.time_out(0) == [ended(0, REJECTED, TIMEOUT), *started(1)]


@pytest.mark.rule("TOOL-6")
def test_a_failing_run_by_policy() -> None:
    calls = [
        SlowCall(place=0),
        SlowCall(place=1, sources=(0,)),
        SlowCall(place=2),
        SlowCall(place=3, decision=Decision.ASK),
        SlowCall(place=4, sources=(2,)),
    ]
    reply = SlowReply(calls, SlowRules(on_tool_failure=OnToolFailure.CANCEL_SIBLINGS))
    assert reply.begin() == [*started(0, 2), ("asked", 3)]
    assert reply.fail(0) == [
        ended(0, ERROR),
        ended(1, ERROR),
        ("aborted", 2, SIBLING),
        ended(2, CANCELLED, SIBLING),
        ended(4, ERROR),
        ended(3, CANCELLED, SIBLING),
    ]


@pytest.mark.rule("CANCEL-2")
def test_a_cancel_of_everything_aborts_first_and_starts_nothing() -> None:
    calls = [SlowCall(place=0), SlowCall(place=1), SlowCall(place=2, sources=(0,)), SlowCall(place=3, claims=None)]
    reply = reply_of(*calls)
    assert reply.begin() == started(0, 1)
    assert reply.cancel_all() == [
        ("aborted", 0, USER),
        ("aborted", 1, USER),
        *(ended(place, CANCELLED, USER) for place in range(4)),
    ]
    assert (reply.stopped(0), reply.stopped(1), reply.cancel_all()) == ([], [], [])


@pytest.mark.rule("TOOL-2")
@pytest.mark.parametrize(
    ("one", "other", "meet"),
    [
        ("a", "a", True),
        ("a", "a/b", True),
        ("a/b/c", "a", True),
        ("a", "ab", False),
        ("a/b", "a/c", False),
        (".", "a/b", True),
        (".", "/a", False),
        ("/", "/a/b", True),
        ("/", "a", False),
        ("/a", "a", False),
    ],
)
def test_keys_that_contain_each_other(one: str, other: str, meet: bool) -> None:
    reply = reply_of(SlowCall(place=0, claims=writes(one)), SlowCall(place=1, claims=writes(other)))
    assert reply.begin() == started(*([0] if meet else [0, 1]))
