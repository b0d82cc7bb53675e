"""The strategies: nothing is left out, what they build is coherent, and they shrink to something small."""

from collections.abc import Iterable
from typing import TypeVar, get_args

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis.strategies import SearchStrategy
from loopkernel.codec import (
    effects_to_text,
    policy_from_text,
    policy_to_text,
    record_from_text,
    record_to_text,
    state_from_text,
    state_to_text,
)
from loopkernel.data.blocks import AssistantBlock, TextBlock, UserBlock
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import Effect
from loopkernel.data.ids import OperationKind
from loopkernel.data.json_text import parse_json
from loopkernel.data.ledgers import ApprovalWait, CrashWait, Ledger, LedgerEntry, QuestionWait
from loopkernel.data.messages import Message, ResultMessage
from loopkernel.data.policy import Policy
from loopkernel.data.remembered import Remembered
from loopkernel.data.sessions import Session
from loopkernel.data.states import (
    Cancelled,
    Confirming,
    Done,
    Executing,
    Finishing,
    Idle,
    Initial,
    State,
    Streaming,
)
from loopkernel.data.threads import Thread
from loopkernel.data.tools import ValidCall, Verdict
from loopkernel.data.user_deltas import Remembrance, Say
from loopkernel.data.words import CallStatus
from loopkernel.laws.views import ledger_in
from loopkernel.planning.clearing import is_cleared
from loopkernel.replay import LogRecord, fold
from loopkernel.testing.strategies import values
from loopkernel.testing.strategies.conversation import (
    assistant_blocks,
    broken_threads,
    messages,
    threads,
    user_blocks,
    verdicts,
)
from loopkernel.testing.strategies.deltas import deltas, remembrances
from loopkernel.testing.strategies.effects import effects_of_any_kind
from loopkernel.testing.strategies.policies import policies, remembered
from loopkernel.testing.strategies.states import states
from loopkernel.testing.strategies.walks import Run, reachable_states, runs

T = TypeVar("T")
SEARCH = settings(
    max_examples=20_000,
    database=None,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)


def kinds(union: object) -> list[type]:
    """The classes of a union."""
    return list(get_args(union))


def minimal(strategy: SearchStrategy[T], condition: object) -> T:
    """The simplest value that meets the condition."""
    assert callable(condition)
    return find(strategy, condition, settings=settings(SEARCH, phases=[Phase.generate, Phase.shrink]))


@pytest.mark.parametrize(
    ("strategy", "union"),
    [
        (deltas, Delta),
        (effects_of_any_kind, Effect),
        (states, State),
        (user_blocks, UserBlock),
        (assistant_blocks, AssistantBlock),
        (messages, Message),
        (verdicts, Verdict),
        (remembrances, Remembrance),
        (remembered, Remembered),
    ],
    ids=["deltas", "effects", "states", "user", "assistant", "messages", "verdicts", "remembrances", "remembered"],
)
def test_every_class_is_built(strategy: SearchStrategy[object], union: object) -> None:
    missing = set(kinds(union))

    def is_the_last_that_was_missing(value: object) -> bool:
        missing.discard(type(value))
        return not missing

    find(strategy, is_the_last_that_was_missing, settings=SEARCH)


@pytest.mark.parametrize("awkward", ["\ud800", "\u2028", "\x00", "\u202e"])
def test_awkward_texts_come(awkward: str) -> None:
    assert awkward in find(values.raw_texts, lambda text: awkward in text, settings=SEARCH)


@given(deltas, values.times_ms)
def test_every_delta_can_be_logged(delta: Delta, now_ms: int) -> None:
    record = LogRecord(delta, now_ms)
    assert record_from_text(record_to_text(record)) == record


@given(states)
def test_every_state_can_be_kept(state: State) -> None:
    assert state_from_text(state_to_text(state)) == state


@given(policies())
def test_every_policy_can_be_kept(policy: Policy) -> None:
    assert policy_from_text(policy_to_text(policy)) == policy


@given(effects_of_any_kind)
def test_every_effect_can_be_written(effect: Effect) -> None:
    written = parse_json(effects_to_text((effect,)))
    assert isinstance(written, list)
    assert len(written) == 1


# --- coherence ------------------------------------------------------------------------------------------


def incoherences(state: State) -> Iterable[str]:
    """Where a state contradicts itself: ids that were never minted, counts that count something else."""
    session = state.session
    if session is None:
        return
    minted = session.operations.minted
    for kind in OperationKind:
        abandoned = list(session.operations.abandoned[kind])
        if any(not 1 <= number <= minted[kind] for number in abandoned):
            yield f"abandoned {kind.name} operations {abandoned} of {minted[kind]}"
    counters = session.counters
    if counters.messages < len(session.thread):
        yield f"{counters.messages} messages were made, and the thread holds {len(session.thread)}"
    receipts = [queued.receipt for queued in session.inbox.queue]
    receipts += [steer.receipt for steer in session.inbox.steers]
    if len(set(receipts)) != len(receipts) or any(not 1 <= receipt <= counters.receipts for receipt in receipts):
        yield f"waiting are the receipts {receipts} of {counters.receipts}"
    if any(not 1 <= waiting.number <= counters.queued for waiting in session.inbox.queue):
        yield f"a queued input has a number beyond {counters.queued}"
    yield from incoherences_of_held_runs(session)
    results = [result for message in session.thread if isinstance(message, ResultMessage) for result in message.results]
    if session.bodies_from == 0 and session.bodies != len([result for result in results if not is_cleared(result)]):
        yield f"{session.bodies} results with a body are counted"
    ledger = ledger_of(state)
    if ledger is not None:
        yield from incoherences_of_counts(ledger)
        for place, entry in enumerate(ledger.entries):
            yield from incoherences_of_entry(ledger, place, entry, session)
            yield from incoherences_of_person(entry, streaming=isinstance(state, Streaming))
    if isinstance(state, Confirming):
        waiting = state.ledger
        if not waiting.waiting or waiting.running or waiting.checking:
            yield "something is under way, or nothing waits for a person"
    if isinstance(state, Initial) and state.ledger is not None:
        released = state.ledger
        if not released.unanswered == released.waiting > released.asking == 0:
            yield "a call of the released thread waits for no person"


def ledger_of(state: State) -> Ledger | None:
    """The ledger, also that of a thread that is or is being released."""
    if isinstance(state, Initial):
        return state.ledger
    return state.ending.waiting if isinstance(state, Finishing) else ledger_in(state)


def incoherences_of_held_runs(session: Session) -> Iterable[str]:
    """Where a run that outlasts its call contradicts the operations."""
    minted, abandoned = session.operations.minted, session.operations.abandoned
    for run in session.held:
        if not 1 <= run.operation <= minted[OperationKind.RUN]:
            yield f"held run {run.operation} was never minted"
        if (run.operation in abandoned[OperationKind.RUN]) is run.background:
            yield f"held run {run.operation} is abandoned exactly if it was aborted"
        if run.grace is not None and not 1 <= run.grace.operation <= minted[OperationKind.TIMER]:
            yield f"the grace time of held run {run.operation} was never minted"
    if len({run.call for run in session.held}) != len(session.held):
        yield "a call has two held runs"


def incoherences_of_counts(ledger: Ledger) -> Iterable[str]:
    """Where the ledger counts otherwise than its entries."""
    entries = list(ledger.entries)
    counted = {
        "unanswered": sum(entry.is_open for entry in entries),
        "running": sum(entry.status is CallStatus.IN_PROGRESS for entry in entries),
        "waiting": sum(entry.status is CallStatus.BLOCKED_ON_USER for entry in entries),
        "asking": sum(isinstance(entry.person.wait, QuestionWait) for entry in entries),
        "checking": sum(entry.check is not None for entry in entries),
        "linked": any(entry.links is not None for entry in entries),
    }
    for name, count in counted.items():
        if getattr(ledger, name) != count:
            yield f"the count {name} is {getattr(ledger, name)}, not {count}"
    belongs = {"checked": ledger.checked, "started": ledger.started, "timed": ledger.timed}
    for name, places in belongs.items():
        if any(not -1 <= place < len(entries) for place in places):
            yield f"{name} names a place that is not there"


def incoherences_of_entry(ledger: Ledger, place: int, entry: LedgerEntry, session: Session) -> Iterable[str]:
    """Where an entry contradicts itself, its place or the operations."""
    call, minted, abandoned = entry.call.id, session.operations.minted, session.operations.abandoned
    if ledger.reply > minted[OperationKind.MODEL]:
        yield "the reply was never asked for"
    if (entry.result is None) is not entry.is_open:
        yield f"call {call} is {entry.status.value}, and its result is {entry.result}"
    if entry.result is not None and (entry.result.ran, entry.result.status) != (entry.runs > 0, entry.status):
        yield f"call {call} is {entry.status.value} after {entry.runs} runs, and its result is {entry.result}"
    if (call.reply, call.position) != (ledger.reply, place + 1):
        yield f"call {call} stands at place {place}"
    if (entry.operation is None) is not (entry.runs == 0):
        yield f"call {call} has had {entry.runs} runs, the latest {entry.operation}"
    if entry.check is not None and (ledger.place_of_check(entry.check) != place or not entry.is_open):
        yield f"check {entry.check} is not that of open call {call}"
    if entry.operation is not None and ledger.place_of_run(entry.operation) != place:
        yield f"run {entry.operation} is not that of place {place}"
    if entry.timer is not None and ledger.place_of_timer(entry.timer.operation) != place:
        yield f"timer {entry.timer.operation} is not that of place {place}"
    for kind, number in (
        (OperationKind.CHECK, entry.check),
        (OperationKind.RUN, entry.operation),
        (OperationKind.TIMER, None if entry.timer is None else entry.timer.operation),
    ):
        if number is not None and not 1 <= number <= minted[kind]:
            yield f"{kind.name} operation {number} was never minted"
        if number is not None and kind is OperationKind.CHECK and number in abandoned[kind]:
            yield f"check {number} is open and abandoned"
    runs = entry.status is CallStatus.IN_PROGRESS or entry.question is not None
    if runs and entry.operation is not None and entry.operation in abandoned[OperationKind.RUN]:
        yield f"run {entry.operation} is open and abandoned"
    if runs and (entry.operation is None or not isinstance(entry.verdict, ValidCall)):
        yield f"call {call} runs, and was not started, or is not valid"
    links = entry.links
    if links is not None:
        sources = [ledger.entries[source] for source in links.sources]
        if any(source >= place for source in links.sources):
            yield f"call {call} depends on a later call"
        done = all(source.status is CallStatus.DONE for source in sources)
        if entry.operation is not None and not (done and (links.resolved is not None or not links.refers)):
            yield f"call {call} has run before what it depends on"
        if entry.is_open and any(not source.is_open and source.status is not CallStatus.DONE for source in sources):
            yield f"call {call} is open and can never be reached"


def incoherences_of_person(entry: LedgerEntry, streaming: bool) -> Iterable[str]:
    """Where a person's wait contradicts the status of the call."""
    wait, call = entry.person.wait, entry.call.id
    if (wait is not None) is not (entry.status is CallStatus.BLOCKED_ON_USER):
        yield f"call {call} is {entry.status.value}, and waits as {wait}"
    if wait is not None and (not entry.person.asked or entry.person.answered):
        yield f"call {call} waits, and was not asked about, or is answered"
    if isinstance(wait, ApprovalWait):
        if (entry.check is not None) is not (wait.edit is not None):
            yield f"call {call} has check {entry.check} and edit {wait.edit}"
        if streaming:
            yield f"call {call} is to be approved while its reply streams"
    elif entry.timer is not None and entry.status is not CallStatus.IN_PROGRESS:
        yield f"call {call} is {entry.status.value}, and timed"
    if isinstance(wait, CrashWait | QuestionWait) and entry.operation is None:
        yield f"call {call} waits as {wait}, and never ran"
    if entry.person.edit is not None and not entry.person.approved:
        yield f"call {call} was edited, and is not approved"


@given(states)
def test_states_built_by_hand_are_coherent(state: State) -> None:
    assert list(incoherences(state)) == []


def kinds_in(state: State) -> Iterable[str]:
    """What a state holds of all that a call, and a run that outlasts it, can be."""
    ledger, session = ledger_of(state), state.session
    if session is not None:
        yield from ("background" if run.background else "lease" for run in session.held)
        yield from ("background end" for _ in session.inbox.background)
    if isinstance(state, Executing | Confirming) and state.ending is not None:
        yield "kept reply"
    if ledger is None:
        return
    if isinstance(state, Initial | Finishing):
        yield f"released in {type(state).__name__}"
    for entry in ledger.entries:
        wait = entry.person.wait
        yield "nobody" if wait is None else type(wait).__name__
        if isinstance(wait, ApprovalWait) and wait.edit is not None:
            yield "edit being checked"
        if entry.person.edit is not None:
            yield "edited"
        if entry.person.approved and entry.status is CallStatus.QUEUED:
            yield "approved and waiting"
        if entry.links is not None:
            yield "sources" if entry.links.resolved is None else "resolved references"
        if entry.timer is not None:
            yield entry.timer.purpose.value
        if entry.batch is not None:
            yield "batch"


EVERY_KIND = {
    "background",
    "lease",
    "background end",
    "kept reply",
    "released in Initial",
    "released in Finishing",
    "nobody",
    "ApprovalWait",
    "QuestionWait",
    "CrashWait",
    "edit being checked",
    "edited",
    "approved and waiting",
    "sources",
    "resolved references",
    "tool_timeout",
    "approval_timeout",
    "batch",
}


def test_states_hold_everything_that_a_call_can_be() -> None:
    missing = set(EVERY_KIND)

    def holds_the_last_that_was_missing(state: State) -> bool:
        missing.difference_update(kinds_in(state))
        return not missing

    find(states, holds_the_last_that_was_missing, settings=SEARCH)


@given(reachable_states())
def test_so_are_those_that_a_run_reaches(state: State) -> None:
    assert list(incoherences(state)) == []


@given(threads())
def test_coherent_threads_answer_every_call_right_after_its_reply(thread: Thread) -> None:
    said = list(thread)
    assert [message.id for message in said] == list(range(1, len(said) + 1))
    for message, after in zip(said, [*said, None][1:], strict=True):
        calls = [] if isinstance(message, ResultMessage) else [call.id for call in getattr(message, "calls", ())]
        if calls:
            assert isinstance(after, ResultMessage)
            assert [result.call for result in after.results] == calls


def test_broken_threads_are_broken() -> None:
    def answers_nothing(thread: Thread) -> bool:
        first = next(iter(thread), None)
        return isinstance(first, ResultMessage) and len(first.results) > 0

    assert answers_nothing(find(broken_threads, answers_nothing, settings=SEARCH))


# --- runs -----------------------------------------------------------------------------------------------


def test_runs_reach_every_phase_that_is_built() -> None:
    missing: set[type] = {Streaming, Executing, Confirming, Idle, Cancelled, Done, Initial}

    def reaches_the_last_that_was_missing(run: Run) -> bool:
        if len(run.steps) > 2:
            missing.discard(type(run.state))
        return not missing

    find(runs(), reaches_the_last_that_was_missing, settings=SEARCH)


@given(runs())
def test_a_run_is_the_fold_of_its_log(run: Run) -> None:
    assert fold(run.log) == run.steps


# --- shrinking ------------------------------------------------------------------------------------------


def test_a_delta_shrinks_to_the_plainest_of_its_class() -> None:
    assert minimal(deltas, lambda delta: isinstance(delta, Say)) == Say(content=())


def test_a_policy_shrinks_to_the_default_but_for_what_matters() -> None:
    assert minimal(policies(), lambda policy: policy.max_turns == 3) == Policy(max_turns=3)


def test_a_text_shrinks_to_a_letter() -> None:
    assert minimal(user_blocks, lambda block: isinstance(block, TextBlock) and block.text != "") == TextBlock("a")
