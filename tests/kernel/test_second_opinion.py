"""The kernel, judged by the slow schedule and the slow pairing: the same starts, in the same order, whatever happens.

A reply, and all that happens to it, is drawn by the strategies at the top; each move is made in both.
"""

from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DataObject, DrawFn, SearchStrategy
from loopkernel.data.blocks import TextBlock, ToolResult
from loopkernel.data.choices import EarlyStart, NoProfile, OnReject, OnToolFailure, Schedule, WriteConflict
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import AbortTool, CallModel, CheckCall, Effect, StartTool
from loopkernel.data.events import ApprovalAsked, LeaseBroken, ToolEnded
from loopkernel.data.ids import CallId, CheckOperation, ModelOperation, RunOperation
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelCall, ModelCompleted
from loopkernel.data.outside_deltas import TimerFired
from loopkernel.data.policy import ApprovalRule, Policy
from loopkernel.data.states import Confirming, Executing, Streaming
from loopkernel.data.thread_deltas import Acquired, Created
from loopkernel.data.tool_deltas import ToolChecked, ToolFailed, ToolLost, ToolStopped, ToolSucceeded
from loopkernel.data.tools import AccessMode, Claim, Decision, EffectClass, InvalidCall, Tool, ToolProfile, ValidCall
from loopkernel.data.user_deltas import Approve, CancelAll, CancelCall, Correct, Reject, Say
from loopkernel.data.words import CallStatus, StopReason
from loopkernel.loop.algorithms.projection import project
from loopkernel.loop.algorithms.scheduling import Claimant, batches, conflict
from loopkernel.testing.run import Run
from loopkernel.testing.slow_schedule import Followed, SlowCall, SlowReply, SlowRules

from tests.kernel.laws.test_pairing import broken

# --- any reply ------------------------------------------------------------------------------------------

# Nested keys, few enough to meet: `.` holds a and b, `/` holds /a.
keys = st.sampled_from(("a", "a", "a/b", "a/b/c", "ab", "b", "b", ".", "/", "/a"))
known_claims: SearchStrategy[tuple[Claim, ...]] = st.one_of(
    st.builds(Claim, keys, st.sampled_from(AccessMode)).map(lambda claim: (claim,)),
    st.lists(st.builds(Claim, keys, st.sampled_from(AccessMode)), max_size=3).map(tuple),
)
claims: SearchStrategy[tuple[Claim, ...] | None] = st.integers(0, 9).flatmap(
    lambda number: st.none() if number == 9 else known_claims
)
effects = st.sampled_from((EffectClass.READ_ONLY, EffectClass.READ_ONLY, EffectClass.IDEMPOTENT, EffectClass.DANGEROUS))
decisions = st.sampled_from((Decision.ALLOW, Decision.ALLOW, Decision.ALLOW, Decision.ASK, Decision.ASK, Decision.DENY))
rules = st.builds(
    SlowRules,
    schedule=st.sampled_from(Schedule),
    max_parallel=st.sampled_from((None, 1, 2, 3)),
    write_conflict=st.sampled_from(WriteConflict),
    no_profile=st.sampled_from(NoProfile),
    on_reject=st.sampled_from(OnReject),
    on_tool_failure=st.sampled_from(OnToolFailure),
)


def rarely(value: bool = True) -> SearchStrategy[bool]:
    """The value in about one case of ten."""
    return st.integers(0, 9).map(lambda number: value if number == 9 else not value)


@st.composite
def replies(draw: DrawFn) -> list[SlowCall]:
    """Two to six calls; sources are mostly earlier ones."""
    calls: list[SlowCall] = []
    for place in range(draw(st.integers(2, 6))):
        sources: list[int] = []
        if place > 0 and draw(st.booleans()):
            sources = draw(st.lists(st.integers(0, place - 1), max_size=2, unique=True))
        if draw(rarely()) and draw(st.booleans()) and draw(st.booleans()):
            sources.append(draw(st.integers(place, 6)))  # itself, a later one, or none that exists
        profile = draw(rarely(False))
        calls.append(
            SlowCall(
                place=place,
                effect=draw(effects),
                serial=profile and draw(rarely()),
                profile=profile,
                claims=draw(claims),
                sources=tuple(sources),
                refers=sources != [] and draw(st.booleans()),
                resolved_claims=draw(claims),
                decision=draw(decisions),
                checked=draw(rarely(False)),
                valid=draw(rarely(False)),
            )
        )
    for call in calls:
        call.valid = call.valid or not call.checked  # what the check says is known when it answers
    return calls


# --- anything that may happen to it ---------------------------------------------------------------------

# The name of a method, and what it is given. A kernel that is to be judged has the same methods.
Move = tuple[str, tuple[int | bool | tuple[Claim, ...] | None, ...]]


def likely_moves(reply: SlowReply) -> list[Move]:
    """What can happen now; what goes on oftener than what cuts short."""
    moves: list[Move] = []
    for call in reply.calls:
        place = call.place
        if call.running:
            moves += [("succeed", (place,))] * 3 + [("fail", (place,)), ("time_out", (place,)), ("cancel", (place,))]
            moves.append(("lose", (place,)))
        if call.status is CallStatus.BLOCKED_ON_USER:
            moves += [("approve", (place,))] * 3 + [("reject", (place,)), ("time_out", (place,)), ("cancel", (place,))]
        if call.status is CallStatus.QUEUED and not call.checked:
            moves += [("check", (place, True))] * 3 + [("check", (place, False)), ("cancel", (place,))]
        elif call.status is CallStatus.QUEUED:
            moves.append(("cancel", (place,)))
        if call.leased:
            moves += [
                ("stopped", (place,)),
                ("lose", (place,)),
                ("succeed", (place,)),
                ("fail", (place,)),
                ("grace_over", (place,)),
            ]
    moves += [("earlier_stopped", (index,)) for index, call in enumerate(reply.earlier) if call.leased]
    return [*moves, ("cancel_all", ())]


def vain_moves(reply: SlowReply) -> list[Move]:
    """What comes too late, twice, or for nobody."""
    names = ("succeed", "fail", "lose", "approve", "reject", "cancel")
    closed = [call.place for call in reply.calls if not call.open and not call.leased]
    early = [call.place for call in reply.calls if call.status is CallStatus.QUEUED and call.checked]
    moves: list[Move] = [(name, (place,)) for place in closed for name in names]
    return moves + [(name, (place,)) for place in early for name in ("approve", "reject")]


def next_move(data: DataObject, reply: SlowReply) -> Move:
    """Something that happens next."""
    kind = data.draw(st.integers(0, 9))
    vain = vain_moves(reply)
    asked = [call.place for call in reply.calls if call.status is CallStatus.BLOCKED_ON_USER]
    if vain and kind == 9:
        return data.draw(st.sampled_from(vain))
    if asked and kind >= 7:
        return "correct", (data.draw(st.sampled_from(asked)), data.draw(claims))
    return data.draw(st.sampled_from(likely_moves(reply)))


def apply(target: object, move: Move) -> list[Followed]:
    """What follows when that happens to the reply, by whichever schedule."""
    name, given_to_it = move
    method: Callable[..., list[Followed]] = getattr(target, name)
    return method(*given_to_it)


def over(reply: SlowReply) -> bool:
    """Whether all calls are answered."""
    return not any(call.open for call in reply.calls)


def answering_move(reply: SlowReply) -> Move:
    """The world answers the first thing that is asked of it; while a call is open there is one."""
    for call in reply.calls:
        if call.running:
            return "succeed", (call.place,)
        if call.status is CallStatus.BLOCKED_ON_USER:
            return "approve", (call.place,)
        if call.open and not call.checked:
            return "check", (call.place, True)
    for call in reply.calls:
        if call.leased:
            return "stopped", (call.place,)
    return "earlier_stopped", (next(index for index, call in enumerate(reply.earlier) if call.leased),)


# --- the kernel, told the same --------------------------------------------------------------------------

SAID = Say(content=(TextBlock("hello"),))


def tool_of(call: SlowCall, reply: int) -> Tool:
    """A tool for that call alone."""
    profile = ToolProfile(effect=call.effect, serial=call.serial) if call.profile else None
    return Tool(name=f"tool-{reply}-{call.place}", profile=profile)


def policy_of(rules: SlowRules, calls: Sequence[Sequence[SlowCall]]) -> Policy:
    """The policy of the rules, with a decision for each call."""
    return Policy(
        schedule=rules.schedule,
        max_parallel=rules.max_parallel,
        write_conflict=rules.write_conflict,
        no_profile=rules.no_profile,
        on_reject=rules.on_reject,
        on_tool_failure=rules.on_tool_failure,
        early_start=EarlyStart.NEVER,
        approval_timeout_ms=1_000,
        tool_timeout_ms=1_000,
        loop=None,
        approval_rules=tuple(
            ApprovalRule(decision=call.decision, tool=tool_of(call, reply).name)
            for reply, made in enumerate(calls, 1)
            for call in made
        ),
    )


class KernelRun(Run):
    """A run of the kernel in which the model makes these replies; it is told what a `SlowReply` is told."""

    def __init__(self, rules: SlowRules, replies: Sequence[Sequence[SlowCall]]) -> None:
        super().__init__()
        self.replies = replies
        self.reply = 0
        self.runs: dict[int, RunOperation] = {}
        self.checks: dict[int, CheckOperation] = {}
        self.earlier: list[RunOperation] = []
        self.requests: list[CallModel] = []
        tools = tuple(tool_of(call, reply) for reply, calls in enumerate(replies, 1) for call in calls)
        self._apply(Created(session_id="s", policy=policy_of(rules, replies), tools=tools))
        self._apply(Acquired())

    def begin(self, earlier: Sequence[int] = ()) -> list[Followed]:
        """The model makes its next reply; runs of these calls of the last one have not stopped."""
        if not isinstance(self.state, Streaming):
            self._apply(SAID)
        assert isinstance(self.state, Streaming)
        self.reply += 1
        self.earlier = [self.runs[place] for place in earlier]
        self.runs, self.checks = {}, {}
        operation = self.requests[-1].operation
        for call in self.replies[self.reply - 1]:
            self._apply(self._made(call, operation))
        return self._apply(ModelCompleted(operation, StopReason.TOOL_USE))

    def _made(self, call: SlowCall, operation: ModelOperation) -> ModelCall:
        names = [f"c{source}" for source in call.sources]
        verdict = ValidCall(call.claims) if call.valid else InvalidCall("no")
        return ModelCall(
            operation,
            provider_id=f"c{call.place}",
            tool=tool_of(call, self.reply).name,
            input=Json.of({"path": {"$result": names[0]}} if call.refers else {"path": "a"}),
            after=tuple(names[1:] if call.refers else names),
            verdict=verdict if call.checked else None,
        )

    def check(self, place: int, valid: bool) -> list[Followed]:
        call = self.replies[self.reply - 1][place]
        claims = call.resolved_claims if call.resolved else call.claims
        return self._apply(ToolChecked(self.checks[place], ValidCall(claims) if valid else InvalidCall("no")))

    def succeed(self, place: int) -> list[Followed]:
        return self._apply(ToolSucceeded(self.runs[place])) if place in self.runs else []

    def fail(self, place: int) -> list[Followed]:
        return self._apply(ToolFailed(self.runs[place])) if place in self.runs else []

    def lose(self, place: int) -> list[Followed]:
        return self._apply(ToolLost(self.runs[place])) if place in self.runs else []

    def stopped(self, place: int) -> list[Followed]:
        return self._apply(ToolStopped(self.runs[place]))

    def earlier_stopped(self, index: int) -> list[Followed]:
        return self._apply(ToolStopped(self.earlier[index]))

    def grace_over(self, place: int) -> list[Followed]:
        assert self.state.session is not None
        held = next(run for run in self.state.session.held if run.operation == self.runs[place])
        assert held.grace is not None
        return self._apply(TimerFired(held.grace.operation))

    def time_out(self, place: int) -> list[Followed]:
        assert isinstance(self.state, Executing | Confirming)
        timer = self.state.ledger.entries[place].timer
        assert timer is not None
        return self._apply(TimerFired(timer.operation))

    def approve(self, place: int) -> list[Followed]:
        return self._apply(Approve(call=self._call(place)))

    def correct(self, place: int, claims: tuple[Claim, ...] | None) -> list[Followed]:
        assert self._apply(Correct(call=self._call(place), input=Json.of({"path": "b"}))) == [("checking", place)]
        return self._apply(ToolChecked(self.checks[place], ValidCall(claims)))

    def reject(self, place: int) -> list[Followed]:
        return self._apply(Reject(call=self._call(place)))

    def cancel(self, place: int) -> list[Followed]:
        return self._apply(CancelCall(self._call(place)))

    def cancel_all(self) -> list[Followed]:
        return self._apply(CancelAll())

    def demand_pairing(self, statuses: Sequence[CallStatus]) -> None:
        """The thread that the model would be shown answers the calls of the last reply so, each right behind it."""
        assert self.state.session is not None
        shown = project(self.state.session.thread, "default")
        assert broken(shown) == (False, False)
        results = [block for message in shown for block in message.content if isinstance(block, ToolResult)]
        assert [result.status for result in results][-len(statuses) :] == list(statuses)

    def _call(self, place: int) -> CallId:
        return CallId(self.requests[-1].operation, place + 1)

    def _apply(self, delta: Delta) -> list[Followed]:
        """What follows from the delta, in the words of the slow schedule."""
        return [told for effect in self.take(delta).effects for told in self._told(effect)]

    def _told(self, effect: Effect) -> list[Followed]:
        told: list[Followed] = []
        if isinstance(effect, StartTool):
            self.runs[effect.call.position - 1] = effect.operation
            told.append(("started", effect.call.position - 1))
        elif isinstance(effect, CheckCall):
            self.checks[effect.call.position - 1] = effect.operation
            told.append(("checking", effect.call.position - 1))
        elif isinstance(effect, AbortTool):
            aborted = [place for place, run in self.runs.items() if run == effect.operation]
            told.extend(("aborted", place, effect.reason) for place in aborted)
        elif isinstance(effect, ApprovalAsked):
            told.append(("asked", effect.call.position - 1))
        elif isinstance(effect, ToolEnded):
            result = effect.result
            told.append(("ended", result.call.position - 1, result.status, result.reason))
        elif isinstance(effect, LeaseBroken):
            told.append(("lease broken", effect.call.position - 1))
        elif isinstance(effect, CallModel):
            self.requests.append(effect)
        return told


# --- the same starts, in the same order -----------------------------------------------------------------


def same(followed: list[Followed]) -> tuple[list[Followed], list[Followed]]:
    """What counts of a step: starts and questions in their order; ends and aborts, in whatever order."""
    ordered = [event for event in followed if event[0] not in ("ended", "aborted")]
    return ordered, sorted((event for event in followed if event[0] in ("ended", "aborted")), key=str)


def make(move: Move, kernel: KernelRun, slow: SlowReply) -> None:
    """The move is made in both, and the same follows."""
    fast, expected = apply(kernel, move), apply(slow, move)
    assert same(fast) == same(expected), f"after {move}"


@pytest.mark.rule("TOOL-2")
@pytest.mark.rule("TOOL-3")
@pytest.mark.rule("TOOL-17")
@pytest.mark.rule("CALL-1")
@pytest.mark.rule("CALL-3")
@settings(max_examples=8 * settings().max_examples)  # few of the meetings that matter are in any one play
@given(st.lists(replies(), min_size=1, max_size=2), rules, st.data())
def test_the_kernel_does_what_the_slow_schedule_does(
    drawn: list[list[SlowCall]], chosen: SlowRules, data: DataObject
) -> None:
    kernel = KernelRun(chosen, drawn)
    earlier: list[SlowCall] = []
    for calls in drawn:
        slow = SlowReply(calls, chosen, earlier)
        assert same(kernel.begin([call.place for call in earlier])) == same(slow.begin())
        for _ in range(data.draw(st.integers(0, 15))):
            if not over(slow):
                make(next_move(data, slow), kernel, slow)
        for _ in range(8 * len(calls)):  # a check, a word of a person, a run and its stop, of each call
            if not over(slow):
                make(answering_move(slow), kernel, slow)
        assert over(slow), "something waits for ever"
        answered = tuple(call.status for call in slow.calls)
        earlier = [call for call in slow.calls if call.leased]
        kernel.demand_pairing(answered)


@pytest.mark.rule("TOOL-2")
@given(claims, claims, st.booleans())
def test_calls_conflict_alone_as_they_do_in_the_slow_schedule(
    one: tuple[Claim, ...] | None, other: tuple[Claim, ...] | None, last_write: bool
) -> None:
    chosen = SlowRules(write_conflict=WriteConflict.LAST_WRITE if last_write else WriteConflict.SERIALISE)
    slow = SlowReply([SlowCall(place=0, claims=one), SlowCall(place=1, claims=other)], chosen)
    assert conflict(Claimant(one), Claimant(other), last_write=last_write) == (len(slow.begin()) == 1)


@pytest.mark.rule("TOOL-3")
@given(st.lists(st.tuples(claims, rarely()), max_size=8))
def test_batches_alone_are_those_of_the_slow_schedule(drawn: list[tuple[tuple[Claim, ...] | None, bool]]) -> None:
    calls = [SlowCall(place=place, claims=used, serial=serial) for place, (used, serial) in enumerate(drawn)]
    SlowReply(calls, SlowRules(schedule=Schedule.BATCHES)).begin()
    expected = [[call.place for call in calls if call.batch == first.place] for first in calls]
    fast = batches([Claimant(used, serial) for used, serial in drawn])
    assert list(map(list, fast)) == [places for places in expected if places]
