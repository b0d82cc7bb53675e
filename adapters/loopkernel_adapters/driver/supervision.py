"""Supervision: every task of the driver is started, counted, aborted and awaited here, by operation.

A job is one model call or one tool run. A task serves a job and reports its outcome; if that very report
starts one other job, the same task goes on with it. So a run with one effect at a time needs one task in
all, and a driver at rest owns none.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextvars import ContextVar

from attrs import define
from loopkernel.data.deltas import Delta
from loopkernel.data.ids import OperationKind

JobKey = tuple[OperationKind, int]
JOBS_PER_SLICE = 8  # after so many jobs of one task, others get their turn
STOP_ATTEMPTS = 5  # how often a job that swallows its cancellation is cancelled again before it is given up


class _OthersTurn:
    """Awaited, it lets others get their turn: as asyncio.sleep(0), which takes two calls more."""

    def __await__(self) -> Generator[None, None, None]:
        yield


OTHERS_TURN = _OthersTurn()


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
    disowned: bool = False  # nobody hears of its end
    detached: bool = False  # nobody waits for its end, as for a run that goes on in the background
    task: "asyncio.Task[None] | None" = None  # while it runs
    owner: "Supervisor | None" = None  # from its start on

    @property
    def name(self) -> str:
        """What it is called towards people."""
        return f"{self.key[0].name} {self.key[1]}"


# The jobs that the running code belongs to: of a sub-agent its own, then that of its parent, and so on.
_JOBS: ContextVar[tuple[Job, ...]] = ContextVar("_JOBS", default=())


class Supervisor:
    """Owns the tasks. `report` takes the outcome of each job, and may start and abort others meanwhile."""

    def __init__(self, report: Callable[[Delta | None], None]) -> None:
        self._report = report
        self.jobs: dict[JobKey, Job] = {}  # under way, aborted ones that have not stopped included
        self.live = 0  # how many of the jobs were not aborted: these will report
        self._tasks: set[asyncio.Task[None]] = set()
        self._following: list[Job] | None = None  # what a report that is being taken has started
        self._within = _JOBS.get()  # what all of this belongs to

    def caller(self) -> Job | None:
        """The job of this supervisor that the calling code belongs to, while that is under way."""
        return next((job for job in _JOBS.get() if job.owner is self and self.jobs.get(job.key) is job), None)

    def start(self, job: Job) -> None:
        """Begin the job soon. Its key is not in use."""
        job.owner = self
        self.jobs[job.key] = job
        self.live += 1
        if self._following is None:
            self._spawn(job)
        else:
            self._following.append(job)

    def _spawn(self, job: Job) -> None:
        self._tasks.add(asyncio.get_running_loop().create_task(self._serve(job)))

    def abort(self, key: JobKey) -> None:
        """Have the job stop; one that has not begun never does. Without such a job nothing happens."""
        job = self.jobs.get(key)
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
        self.live -= 1

    def let_go(self) -> None:
        """Cancel the task of every job, also of one that was told to stop in its own way."""
        for job in tuple(self.jobs.values()):
            if job.aborted and job.stop is None:
                continue
            if not job.aborted:
                self._give_up(job)
            if job.task is not None:
                job.task.cancel()

    def disown(self) -> None:
        """Let go of every job, and report the end of none."""
        for job in self.jobs.values():
            job.disowned = True
        self.let_go()

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
        return tuple(job.name for job in self.jobs.values() if job.task in left)

    async def _serve(self, job: Job) -> None:
        task: asyncio.Task[None] | None = asyncio.current_task()
        assert task is not None
        try:
            following = await self._complete(job, task, gives_way=False)
            served = 1
            while following is not None:
                # Others get their turn even if no job ever waits for anything; and always before a tool is run, since
                # whoever has just seen the call may want to stop it.
                served += 1
                gives_way = following.key[0] is OperationKind.RUN or served % JOBS_PER_SLICE == 0
                following = await self._complete(following, task, gives_way)
        finally:
            self._tasks.discard(task)

    async def _complete(self, job: Job, task: asyncio.Task[None], gives_way: bool) -> Job | None:
        """Run the job in the task, report its outcome, and return the job that the task goes on with."""
        delta = job.stopped if job.aborted else await self._outcome(job, task, gives_way)
        del self.jobs[job.key]
        self.live -= not job.aborted
        if job.over is not None:
            job.over()
        following: list[Job] = []
        self._following = following
        try:
            self._report(None if job.disowned else delta)
        finally:
            self._following = None
        if len(following) == 1 and not job.aborted:
            return following[0]
        for other in following:  # after an abort a cancellation may still hit this task: it takes nothing more
            self._spawn(other)
        return None

    async def _outcome(self, job: Job, task: asyncio.Task[None], gives_way: bool) -> Delta | None:
        job.task = task
        _JOBS.set((job, *self._within))
        try:
            if gives_way:
                await OTHERS_TURN
                if job.aborted:  # meanwhile, and its `stop` had nothing to stop yet
                    return job.stopped
            return await job.work(job)
        except asyncio.CancelledError as error:
            return _after_cancellation(job, error)
        except (KeyboardInterrupt, GeneratorExit):  # the whole program ends, or this task is thrown away
            raise
        except BaseException as error:  # such as a panic of a library in another language: a job always reports
            return job.failure(error)
        finally:
            job.task = None


def _after_cancellation(job: Job, error: asyncio.CancelledError) -> Delta | None:
    """Without an abort the cancellation is the tool's own, or some other program's: either way the job has failed."""
    return job.stopped if job.aborted else job.failure(error)
