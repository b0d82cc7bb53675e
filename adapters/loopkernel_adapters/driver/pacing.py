"""How fast the reports of a model are recorded: a stream that floods is merged, piece to piece, before it is.

Each delta of a stream is a step and a record. Nothing bounds how many a server sends, and a log of a million pieces of
one character is a full disk. So a stream has a bucket of records: BURST of them at once, filled again with
RECORDS_A_SECOND. While there is one, a piece passes as it comes. When there is none, pieces of one kind wait together,
for 5 ms at the most, and are recorded as one; a piece of another kind waits for its turn, and the stream with it. So
nothing is lost or moved past another, and a stream that is slower than the bucket fills is never held up.

The fastest models give some 2,000 tokens a second, a screen shows 60 pictures: 200 records a second look like a flow. A
burst of 1,000 lets a reply of ordinary length through as it came, also from a cache.

Pieces that come without a pause, between which nothing else can happen, are handed on together, 16 at the most. Each is
still a step and a record of its own; what the driver does around a step is done once for all of them.
"""

import asyncio
from collections.abc import Iterable
from typing import Protocol, TypeAlias, get_args

from loopkernel.data.deltas import Delta
from loopkernel.data.model_deltas import ModelDelta, ModelInput, ModelReasoning, ModelText, ModelUsage
from loopkernel.data.usage import NO_USAGE

RECORDS_A_SECOND = 200
BURST = 1_000
MOST_TOGETHER = 16  # so that a stream that never waits runs no further ahead of the log

Mergeable: TypeAlias = ModelText | ModelReasoning | ModelInput | ModelUsage
_MERGEABLE = frozenset(get_args(Mergeable))


class Accept(Protocol):
    """Applies deltas, in their order."""

    def __call__(self, *deltas: Delta) -> None: ...


class PacedStream:
    """Passes the deltas of one stream on to `accept`, in their order, and no more than so many a second."""

    def __init__(self, accept: Accept) -> None:
        self._accept = accept
        self._loop = asyncio.get_running_loop()
        self._left = float(BURST)  # records that may pass at once
        self._counted_at = self._loop.time()
        self._coming: list[ModelDelta] = []  # may pass, with what comes before anything else can happen
        self.passed = False  # whether anything has since `passed` was last set back to False
        self._held: list[Mergeable] = []  # of one kind, to be recorded as one
        self._timer: asyncio.TimerHandle | None = None

    def passes(self, delta: ModelDelta) -> bool:
        """Whether it may pass at once, as nearly all do; it then does before anything else happens. Else: `take` it."""
        coming = self._coming
        if self._left < 1 if coming else self._held or self._wait_s() > 0:
            return False
        self._left -= 1
        coming.append(delta)
        if len(coming) == MOST_TOGETHER or type(delta) not in _MERGEABLE:
            self.pass_on()
        elif len(coming) == 1:
            self._loop.call_soon(self.pass_on)
        return True

    def pass_on(self) -> None:
        """Hand on what may pass."""
        if self._coming:
            passing, self._coming = self._coming, []
            self.passed = True
            self._accept(*passing)

    async def take(self, delta: ModelDelta) -> None:
        """Pass it on, now or soon; where the stream is too fast, wait."""
        self.pass_on()
        if not isinstance(delta, Mergeable):
            if self._held:
                await self._let_held_go()
            if self._wait_s() > 0:
                await self._turn()
            self._left -= 1
            self._let_pass(delta)
            return
        if self._held and not _alike(self._held[0], delta):
            await self._let_held_go()
        self._held.append(delta)
        if self._wait_s() <= 0:
            self.flush()
        elif self._timer is None:
            self._timer = self._loop.call_later(self._wait_s(), self.flush)

    def flush(self) -> None:
        """Hand on what may pass, then what is held, as one."""
        self.pass_on()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._held:
            merged, self._held = _merged(self._held), []
            self._left -= 1
            self._let_pass(merged)

    def forget(self) -> None:
        """What has not passed is wanted no more; a timer that was set for it finds nothing."""
        self._coming.clear()
        self._held.clear()

    def _let_pass(self, delta: ModelDelta) -> None:
        self.passed = True
        self._accept(delta)

    async def _let_held_go(self) -> None:
        """What is held passes on in its turn, if its timer has not come first."""
        await self._turn()
        self.flush()

    async def _turn(self) -> None:
        while (wait_s := self._wait_s()) > 0:
            await asyncio.sleep(wait_s)

    def _wait_s(self) -> float:
        """How long it is until another record may pass; 0 or less: it may now."""
        now = self._loop.time()
        self._left = min(self._left + (now - self._counted_at) * RECORDS_A_SECOND, BURST)
        self._counted_at = now
        return (1 - self._left) / RECORDS_A_SECOND


def _alike(first: Mergeable, second: Mergeable) -> bool:
    return type(first) is type(second) and first.operation == second.operation


def joined(said: Iterable[Delta]) -> tuple[Delta, ...]:
    """The same in as few deltas as can be: increments that follow each other are one."""
    found: list[Delta] = []
    alike: list[Mergeable] = []
    for delta in said:
        if alike and not (isinstance(delta, Mergeable) and _alike(alike[0], delta)):
            found.append(_merged(alike))
            alike = []
        if isinstance(delta, Mergeable):
            alike.append(delta)
        else:
            found.append(delta)
    return (*found, _merged(alike)) if alike else tuple(found)


def _merged(held: list[Mergeable]) -> Mergeable:
    """The same as all of them: their text joined; of reports of usage, the most of each."""
    first = held[0]
    if len(held) == 1:
        return first
    if isinstance(first, ModelUsage):
        usage = NO_USAGE
        for one in held:
            if isinstance(one, ModelUsage):
                usage = usage.most(one.usage)
        return ModelUsage(first.operation, usage)
    text = "".join(one.text for one in held if not isinstance(one, ModelUsage))
    return type(first)(first.operation, text)
