"""Supervision: every task of the driver is started, counted, aborted and awaited here, by operation.

A job is one model call or one tool run. A task serves a job and reports its outcome; if that very report
starts one other job, the same task goes on with it. So a run with one effect at a time needs one task in
all, and a driver at rest owns none.
"""

import asyncio
from collections.abc import Awaitable, Callable

from attrs import define
from loopkernel.data.deltas import Delta
from loopkernel.data.ids import OperationKind

JobKey = tuple[OperationKind, int]
STOP_ATTEMPTS = 5  # how often a job that swallows its cancellation is cancelled again before it is given up


@define(eq=False)
class Job:
    """One operation under way.

    `work` runs it to its last delta (None: nothing is owed). `failure` classifies what it raises, and `stopped` is the
    delta to report when its abort was heeded. An abort cancels the task, or where there is one, calls `stop` instead.
    `over` is called when it has ended, however that was, and also where it never began.
    """

    key: JobKey
    work: Callable[["Job"], Awaitable[Delta | None]]
    failure: Callable[[BaseException], Delta]
    stopped: Delta | None
    stop: Callable[[], None] | None = None
    over: Callable[[], None] | None = None
    aborted: bool = False
    task: "asyncio.Task[None] | None" = None  # while it runs


class Supervisor:
    """Owns the tasks. `report` takes the outcome of each job, and may start and abort others meanwhile."""

    def __init__(self, report: Callable[[Delta | None], None]) -> None:
        self._report = report
        self._jobs: dict[JobKey, Job] = {}
        self._live = 0  # how many of the jobs were not aborted
        self._tasks: set[asyncio.Task[None]] = set()
        self._following: list[Job] | None = None  # what a report that is being taken has started

    @property
    def jobs(self) -> int:
        """How many operations are under way, aborted ones that have not stopped included."""
        return len(self._jobs)

    @property
    def busy(self) -> bool:
        """Whether a job is under way that was not aborted."""
        return self._live > 0

    def start(self, job: Job) -> None:
        """Begin the job soon. Its key is not in use."""
        self._jobs[job.key] = job
        self._live += 1
        if self._following is None:
            self._spawn(job)
        else:
            self._following.append(job)

    def _spawn(self, job: Job) -> None:
        task = asyncio.create_task(self._serve(job))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def abort(self, key: JobKey) -> None:
        """Have the job stop; one that has not begun never does. Without such a job nothing happens."""
        job = self._jobs.get(key)
        if job is None or job.aborted:
            return
        self._give_up(job)
        if job.task is None:
            return
        if job.stop is None:
            job.task.cancel()
        else:
            job.stop()

    def _give_up(self, job: Job) -> None:
        job.aborted = True
        self._live -= 1

    def let_go(self) -> None:
        """Cancel the task of every job, also of one that was told to stop in its own way."""
        for job in tuple(self._jobs.values()):
            if job.aborted and job.stop is None:
                continue
            if not job.aborted:
                self._give_up(job)
            if job.task is not None:
                job.task.cancel()

    async def close(self, stop_seconds: float) -> tuple[str, ...]:
        """Cancel every job and wait for the tasks; the names of those that have not stopped in time."""
        self.let_go()
        left = set(self._tasks)
        for _ in range(STOP_ATTEMPTS):
            if not left:
                break
            _, left = await asyncio.wait(left, timeout=stop_seconds / STOP_ATTEMPTS)
            for task in left:
                task.cancel()
        return tuple(f"{key[0].name} {key[1]}" for key, job in self._jobs.items() if job.task in left)

    async def _serve(self, job: Job) -> None:
        following = await self._complete(job, first=True)
        while following is not None:
            following = await self._complete(following, first=False)

    async def _complete(self, job: Job, first: bool) -> Job | None:
        """Run the job, report its outcome, and return the job that this task goes on with."""
        delta = await self._outcome(job, first)
        del self._jobs[job.key]
        self._live -= not job.aborted
        if job.over is not None:
            job.over()
        following: list[Job] = []
        self._following = following
        try:
            self._report(delta)
        finally:
            self._following = None
        if len(following) == 1 and not job.aborted:
            return following[0]
        for other in following:  # after an abort a cancellation may still hit this task: it takes nothing more
            self._spawn(other)
        return None

    async def _outcome(self, job: Job, first: bool) -> Delta | None:
        if job.aborted:
            return job.stopped
        job.task = asyncio.current_task()
        try:
            if not first:
                await asyncio.sleep(0)  # others get their turn, even if no job ever waits for anything
            return await job.work(job)
        except asyncio.CancelledError as error:
            return _after_cancellation(job, error)
        except (Exception, SystemExit) as error:
            return job.failure(error)
        finally:
            job.task = None


def _after_cancellation(job: Job, error: asyncio.CancelledError) -> Delta | None:
    """Without an abort the cancellation is the tool's own, or some other program's: either way the job has failed."""
    return job.stopped if job.aborted else job.failure(error)
