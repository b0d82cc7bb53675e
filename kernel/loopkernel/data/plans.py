"""The plan: who may start next among the calls of one reply, as masks of places and an index by resource.

Bit n of a mask stands for the call at place n, from 0. A plan follows from the calls alone, so it is never written
down: whoever restores a state plans anew.
"""

from typing import final

from loopkernel.data.choices import Schedule
from loopkernel.data.text_map import TextMap
from loopkernel.data.tools import Claim
from loopkernel.data.value_classes import frozen, quick_copy
from loopkernel.data.vector import Vector


@final
@frozen
class Users:
    """The calls that read a resource, and those that write it, as masks."""

    readers: int = 0
    writers: int = 0


@final
@frozen(kw_only=True)
class Plan:
    """The calls of a reply as the schedule sees them.

    `open`: not ended; `known`: what they touch is known; `alone`: they conflict with every other call; `reads`: tools
    that only read; `running`: started and not ended; `held`: ended, but not stopped; `restarting`: they had started
    before a restart; `passive`: they never run. `candidates` are to be looked at, `allowed` wait for nothing but a
    slot, `parked` for a run of another reply; `drawn` are in a batch.

    `at[key]` uses the resource itself, `below[key]` also what lies in it. By place: the `claims`; the `sources` it
    depends on and the `dependents` of it, as masks; the `watchers` to look at when it ends; the first place of its
    batch, where batches are planned: up to `batched`, the last of them from `batch` on.
    """

    schedule: Schedule
    last_write: bool = False
    open: int = 0
    known: int = 0
    alone: int = 0
    reads: int = 0
    running: int = 0
    held: int = 0
    restarting: int = 0
    passive: int = 0
    candidates: int = 0
    allowed: int = 0
    parked: int = 0
    drawn: int = 0
    at: TextMap[Users] = TextMap()
    below: TextMap[Users] = TextMap()
    claims: Vector[tuple[Claim, ...]] = Vector()
    sources: Vector[int] = Vector()
    dependents: Vector[int] = Vector()
    watchers: Vector[int] = Vector()
    batches: Vector[int] = Vector()
    batched: int = 0
    batch: int = 0

    @quick_copy
    def updated(
        self,
        *,
        open: int | None = None,
        known: int | None = None,
        alone: int | None = None,
        reads: int | None = None,
        running: int | None = None,
        held: int | None = None,
        restarting: int | None = None,
        passive: int | None = None,
        candidates: int | None = None,
        allowed: int | None = None,
        parked: int | None = None,
        drawn: int | None = None,
        at: TextMap[Users] | None = None,
        below: TextMap[Users] | None = None,
        claims: Vector[tuple[Claim, ...]] | None = None,
        sources: Vector[int] | None = None,
        dependents: Vector[int] | None = None,
        watchers: Vector[int] | None = None,
        batches: Vector[int] | None = None,
        batched: int | None = None,
        batch: int | None = None,
    ) -> "Plan":
        """This plan with what is given; None keeps what there is. For every change: `evolve` takes thrice as long."""
        return Plan(
            schedule=self.schedule,
            last_write=self.last_write,
            open=self.open if open is None else open,
            known=self.known if known is None else known,
            alone=self.alone if alone is None else alone,
            reads=self.reads if reads is None else reads,
            running=self.running if running is None else running,
            held=self.held if held is None else held,
            restarting=self.restarting if restarting is None else restarting,
            passive=self.passive if passive is None else passive,
            candidates=self.candidates if candidates is None else candidates,
            allowed=self.allowed if allowed is None else allowed,
            parked=self.parked if parked is None else parked,
            drawn=self.drawn if drawn is None else drawn,
            at=self.at if at is None else at,
            below=self.below if below is None else below,
            claims=self.claims if claims is None else claims,
            sources=self.sources if sources is None else sources,
            dependents=self.dependents if dependents is None else dependents,
            watchers=self.watchers if watchers is None else watchers,
            batches=self.batches if batches is None else batches,
            batched=self.batched if batched is None else batched,
            batch=self.batch if batch is None else batch,
        )
