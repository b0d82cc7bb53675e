"""Forks: every live prefix of every scenario's log can go on in a lineage of its own, at rest, and nothing else can."""

import os
import re
from pathlib import Path

import pytest
from attrs import evolve
from loopkernel.codec import record_from_text, record_to_text
from loopkernel.data.blocks import TextBlock
from loopkernel.data.effects import CallModel
from loopkernel.data.ids import OperationKind
from loopkernel.data.states import Done, Idle, Initial, State
from loopkernel.data.steps import Context
from loopkernel.data.thread_deltas import RULES_VERSION, Created, Forked
from loopkernel.data.user_deltas import Say
from loopkernel.loop.transition import transition
from loopkernel.replaying import LogRecord, fold, fork, replay
from loopkernel.testing.run import log_of

from tests.kernel.played import PLAYED
from tests.kernel.scenario_logs import FILES, logs_of

LOG = log_of(PLAYED["reads"])
# Of a log, about so many prefixes are forked as a whole: nobody has the time for all of a long one.
PREFIXES = 2 if os.environ.get("HYPOTHESIS_PROFILE", "quick") == "quick" else 6


def live(state: State) -> bool:
    return not isinstance(state, Initial | Done)


@pytest.mark.rule("RESUME-6")
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_every_live_prefix_of_every_scenario_can_be_forked_and_is_at_rest_then(file: Path) -> None:
    for scenario, log in logs_of(file).items():
        again = tuple(record_from_text(record_to_text(record)) for record in log)
        states = [step.after for step in fold(log)]
        whole = set(
            range(1, len(log) + 1, 1 + len(log) // PREFIXES)
        )  # these are folded anew, and the others gone on from
        for at, before in enumerate(states, start=1):
            if not live(before):
                with pytest.raises(ValueError, match=r"the run is over|nobody owns the session"):
                    fork(log, at, "fork", 10**9)
                continue
            if at in whole:
                forked = fork(log, at, "fork", 10**9)
                assert forked == (*log[:at], LogRecord(Forked(session_id="fork"), 10**9))
                assert forked == fork(again, at, "fork", 10**9)
            after = transition(before, Context(Forked(session_id="fork"), 10**9)).next
            assert isinstance(after, Idle), (scenario, at)
            assert before.session is not None  # else it is Initial
            assert after.session.settings.lineage == before.session.settings.lineage + 1
            assert after.session.settings.session_id == "fork"


@pytest.mark.rule("RESUME-6")
def test_a_fork_leads_where_its_delta_does_and_goes_on() -> None:
    for at in range(1, len(LOG) + 1):
        state = replay(LOG[:at])
        if not live(state):
            continue
        forked = replay(fork(LOG, at, "fork", 9))
        assert forked == transition(state, Context(Forked(session_id="fork"), 9)).next
        step = transition(forked, Context(Say(content=(TextBlock("go on"),)), 10))
        (asked,) = (effect for effect in step.effects if isinstance(effect, CallModel))
        assert state.session is not None
        assert asked.operation == state.session.operations.minted[OperationKind.MODEL] + 1


@pytest.mark.rule("RESUME-6")
@pytest.mark.parametrize("at", [-1, len(LOG) + 1, 10**9])
def test_a_place_that_the_log_does_not_have_is_refused(at: int) -> None:
    with pytest.raises(ValueError, match=f"after record {at}: the log has {len(LOG)} records"):
        fork(LOG, at, "fork", 0)


@pytest.mark.parametrize("log", [(), LOG, LOG[1:]], ids=["empty", "whole", "headless"])
def test_before_its_creation_there_is_nothing_to_fork(log: tuple[LogRecord, ...]) -> None:
    with pytest.raises(ValueError, match="after record 0: no session has been created by then"):
        fork(log, 0, "fork", 0)


@pytest.mark.rule("STATE-3")
def test_before_it_is_acquired_and_after_it_is_released_a_session_cannot_be_forked() -> None:
    released = log_of(PLAYED["released"])
    ownerless = [at for at in range(1, len(released) + 1) if isinstance(replay(released[:at]), Initial)]
    assert len(ownerless) > 1
    for at in ownerless:
        with pytest.raises(ValueError, match=f"after record {at}: nobody owns the session then"):
            fork(released, at, "fork", 0)


@pytest.mark.rule("STATE-7")
def test_a_run_that_is_over_cannot_be_forked() -> None:
    over = next(log_of(steps) for steps in PLAYED.values() if isinstance(steps[-1].after, Done))
    with pytest.raises(ValueError, match=r"the run is over \(\w+\); fork before its end"):
        fork(over, len(over), "fork", 0)
    assert isinstance(replay(fork(over, 2, "fork", 0)), Idle)


@pytest.mark.rule("RESUME-1")
def test_a_log_of_other_rules_cannot_be_forked() -> None:
    created = LOG[0].delta
    assert isinstance(created, Created)
    older = (LogRecord(evolve(created, rules_version=RULES_VERSION - 1), 0), *LOG[1:])
    with pytest.raises(ValueError, match=re.escape(f"version {RULES_VERSION - 1} of the rules")):
        fork(older, len(older), "fork", 0)
