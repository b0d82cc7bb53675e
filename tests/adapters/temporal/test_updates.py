"""Updates, each time as the same one, and queries are asked for until there is an answer."""

import asyncio
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.later_typing import override
from loopkernel_adapters.temporal import updates
from temporalio.client import WorkflowHandle, WorkflowQueryFailedError, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.service import RPCError, RPCStatusCode

BUSY = st.sampled_from((*updates.BUSY, updates.FAILING, None))  # None: no answer comes
SILENT = BUSY | st.sampled_from(updates.UNANSWERED)


class Server(WorkflowHandle[object, object]):
    """Says these things, one after the other, and then answers. An answer, or a pause, takes as long as it takes."""

    def __init__(self, says: Sequence[RPCStatusCode | None], clock: "Clock") -> None:
        self._says = list(says)
        self._clock = clock
        self.identities: list[object] = []

    @override
    async def execute_update(self, *_: object, **options: object) -> bool:  # type: ignore[override]  # all of its forms
        self.identities.append(options["id"])
        return self._answer(WorkflowUpdateRPCTimeoutOrCancelledError())

    @override
    async def query(self, *_: object, **options: object) -> bool:  # type: ignore[override]  # all of its forms
        return self._answer(WorkflowQueryFailedError("it did not yield"))

    def _answer(self, failure: Exception) -> bool:
        if not self._says:
            return True
        status = self._says.pop(0)
        if status is None:
            raise failure
        raise RPCError("not now", status, b"")


class Clock:
    """What `updated` goes by."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        patch.setattr(updates, "monotonic", lambda: self.now)
        patch.setattr(asyncio, "sleep", self.sleep)

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


@given(says=st.lists(BUSY, max_size=30))
def test_the_same_update_is_asked_for_until_there_is_an_answer(says: list[RPCStatusCode | None]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        server = Server(says, Clock(patch))
        assert asyncio.run(updates.updated(server, "rest", bool)) is True
        assert len(server.identities) == len(says) + 1 and len(set(server.identities)) == 1


@given(says=st.lists(SILENT, max_size=30))
def test_a_query_is_asked_for_until_there_is_an_answer(says: list[RPCStatusCode | None]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        assert asyncio.run(updates.queried(Server(says, Clock(patch)), "state", bool)) is True


@pytest.mark.parametrize("says", [None, RPCStatusCode.UNAVAILABLE])
def test_a_query_that_is_never_answered_is_given_up(says: RPCStatusCode | None) -> None:
    with pytest.MonkeyPatch.context() as patch:
        clock = Clock(patch)
        with pytest.raises((RPCError, WorkflowQueryFailedError)):
            asyncio.run(updates.queried(Server([says] * 1_000, clock), "state", bool))
        assert updates.FAILING_SECONDS <= clock.now <= updates.FAILING_SECONDS + updates.LONGEST_PAUSE_SECONDS


def test_a_run_whose_steps_fail_for_long_is_given_up() -> None:
    with pytest.MonkeyPatch.context() as patch:
        clock = Clock(patch)
        server = Server([updates.FAILING] * 1_000, clock)
        with pytest.raises(RPCError):
            asyncio.run(updates.updated(server, "rest", bool))
        assert updates.FAILING_SECONDS <= clock.now <= updates.FAILING_SECONDS + updates.LONGEST_PAUSE_SECONDS


def test_steps_that_failed_once_do_not_end_what_is_only_busy_since() -> None:
    with pytest.MonkeyPatch.context() as patch:
        clock = Clock(patch)
        says = [updates.FAILING, *[RPCStatusCode.UNAVAILABLE] * 200]
        assert asyncio.run(updates.updated(Server(says, clock), "rest", bool)) is True
        assert clock.now > 2 * updates.FAILING_SECONDS


def test_what_the_server_says_otherwise_is_raised_at_once() -> None:
    with pytest.MonkeyPatch.context() as patch:
        server = Server([RPCStatusCode.NOT_FOUND], Clock(patch))
        with pytest.raises(RPCError):
            asyncio.run(updates.updated(server, "rest", bool))
        assert len(server.identities) == 1
        with pytest.raises(RPCError):
            asyncio.run(updates.queried(Server([RPCStatusCode.NOT_FOUND], Clock(patch)), "state", bool))
