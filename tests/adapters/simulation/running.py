"""Runs a plan: the real driver among simulated ports, through crashes and restarts, and what is wrong with it."""

import asyncio
from bisect import insort
from collections import Counter, deque
from collections.abc import Mapping
from typing import Any

from attrs import frozen
from loopkernel.codec import record_to_text
from loopkernel.data.events import ApprovalAsked, ChildAsked, Event, QuestionAsked
from loopkernel.data.thread_deltas import Created
from loopkernel.data.tools import Tool
from loopkernel.judging import check_pairs, check_trace
from loopkernel.replaying import LogRecord
from loopkernel.testing.scenarios.data.scenario import PolicyChoice
from loopkernel.testing.scenarios.player.effective_policy import effective_policy
from loopkernel_adapters.driver.asyncio_driver import Driver
from loopkernel_adapters.optional_ports import (
    NoSuchAgent,
    OptionalPorts,
    Ports,
)
from loopkernel_adapters.ports import StoreError
from loopkernel_adapters.testing.virtual_loop import Deadlock, VirtualLoop

from tests.adapters.simulation.agents import SimulatedAgents
from tests.adapters.simulation.evidence import PASSING_EVENTS, Evidence
from tests.adapters.simulation.machine import Foreign, Life, SimulatedClock, World, store_of
from tests.adapters.simulation.people import forged_words, word_of
from tests.adapters.simulation.plan import (
    Act,
    Answer,
    Check,
    Crash,
    Jump,
    Onlooker,
    Plan,
    Reply,
    Run,
    StoreFault,
)
from tests.adapters.simulation.ports import SimulatedModel, SimulatedOthers, SimulatedTools
from tests.adapters.simulation.settling import Settling

MOST_LIVES = 12
MOST_CLOSING_MS = 6_000  # five seconds for what does not stop, and the stopping of what does
# What the driver tells the event loop of, and goes on.
KNOWN_COMPLAINTS = (
    *("an observer failed", "the provider could not close", "the course correction failed", "no snapshot could be"),
    *("the log of a sub-agent lacks", "the hook "),
)


@frozen(kw_only=True)
class Outcome:
    """What became of a plan: what is wrong, which faults were seen, the logs, and the time that passed there (ms)."""

    plan: Plan
    faults: tuple[str, ...]
    seen: Counter[str]
    log: bytes
    elapsed_ms: int
    records: int


def run(plan: Plan, *, laws: bool = False) -> Outcome:
    """Run the plan; with `laws`, all laws are judged over the log of every session."""
    loop = VirtualLoop()
    return loop.play(Simulation(plan, loop, laws).run())


class Simulation:
    """One simulated world, from its beginning to its end."""

    def __init__(self, plan: Plan, loop: VirtualLoop, laws: bool) -> None:
        self.plan = plan
        self.loop = loop
        self.laws = laws
        self.life = Life(loop.create_future())
        self.world = here = World(plan, loop, self.life)
        self.sessions: dict[str, Evidence] = {}
        self.root = self.session_of("root")
        self.clocks: list[tuple[Evidence, SimulatedClock]] = []
        self.driver: Driver | None = None
        self.shown: list[Event] = []
        self.events = 0  # shown in all lives
        self.told = 0  # events of this life that follow from a record
        self.unread: asyncio.Queue[Event] = asyncio.Queue()
        self.own_tasks: set[asyncio.Task[Any] | None] = set()
        self.crash: Crash | None = None  # that is happening; None: the store had the process die
        self.words_said = 0  # by the person who looks after calls that ask
        self.news = loop.create_future()  # done when something more is to happen
        self.within: deque[Act] = deque()
        self.onlookers: set[int] = set()
        happenings: list[Act | Crash | Jump] = []
        for item in plan.items:
            match item:
                case Reply():
                    here.replies.append(item)
                case Run():
                    here.runs.append(item)
                case Answer():
                    here.answers.append(item)
                case Check():
                    here.checks.append(item)
                case StoreFault():
                    here.store_faults[item.nth] = item
                case Onlooker():
                    self.onlookers.add(item.nth)
                case Act() | Crash() | Jump():
                    happenings.append(item)
        self.happenings = sorted(happenings, key=lambda one: one.at_ms)

    def session_of(self, name: str) -> Evidence:
        """The session of that name, old or new."""
        evidence = Evidence(
            name=name,
            accuse=self.world.accuse,
            passed_ms=self._passed,
            late_ms=self.plan.late_timers_ms,
            disk_ms=self.plan.disk_ms or 0,
        )
        return self.sessions.setdefault(name, evidence)

    def _passed(self) -> int:
        return self.world.elapsed_ms

    async def run(self) -> Outcome:
        """All lives, then the verdict."""
        try:
            for _ in range(MOST_LIVES):
                if await self._live() == "over":
                    break
        except Deadlock as deadlock:
            self.world.accuse(f"{deadlock} ({type(self.root.state).__name__})")
        self._look_at_the_loop()
        for session in self.sessions.values():
            session.look_at_starts()
            if self.laws:
                self._judge(session)
        return Outcome(
            plan=self.plan,
            faults=tuple(self.world.faults),
            seen=self.world.seen,
            log=self._log(),
            elapsed_ms=self.world.elapsed_ms,
            records=sum(len(session.steps) for session in self.sessions.values()),
        )

    def _log(self) -> bytes:
        texts = [record_to_text(record) for session in self.sessions.values() for record in session.records]
        return "\n".join(texts).encode()

    def _judge(self, session: Evidence) -> None:
        for report in (check_trace(session.steps), check_pairs(session.steps)):
            for breach in report.breaches:
                self.world.accuse(f"{session.name}: law {breach.law} at step {breach.step}: {breach.detail}")

    def _look_at_the_loop(self) -> None:
        complaints: list[Mapping[str, Any]] = self.loop.complaints  # Any: asyncio's contexts
        for told in complaints:
            message = str(told.get("message"))
            if not message.startswith(KNOWN_COMPLAINTS) and "does not stop" not in message:
                self.world.accuse(f"the loop heard: {message} {told.get('exception')!r}")
            self.world.seen[f"complaint: {message[:24]}"] += 1

    # --- one life -----------------------------------------------------------------------------------------

    async def _live(self) -> str:
        """One process, until it dies ("crash"), cannot go on ("failure"), or the world is over ("over")."""
        self.life = self.world.life = life = Life(self.loop.create_future())
        for session in self.sessions.values():
            session.begin_life()
        self.clocks.clear()
        self.shown, self.unread, self.told = [], asyncio.Queue(), 0
        driver = await self._open()
        reading = asyncio.ensure_future(self._read())
        self.own_tasks = {asyncio.current_task(), reading}
        try:
            return await self._live_with(driver, life)
        finally:
            reading.cancel()
            await asyncio.wait({reading})

    async def _read(self) -> None:
        """A reader who is slow: whatever is shown meanwhile waits for it, and nothing waits for the reader."""
        read = 0
        while self.plan.reader_ms:
            event = await self.unread.get()
            if event is not self.shown[read]:
                self.world.accuse("a slow reader was shown the events in another order")
            read += 1
            if self.unread.qsize() > 3:
                self.world.seen["slow reader"] += 1
            await self.world.lasts(self.plan.reader_ms)

    async def _live_with(self, driver: Driver, life: Life) -> str:
        try:
            await driver.__aenter__()
        except StoreError:
            self.world.seen["store fails at the opening"] += 1
        else:
            await self._happen(driver)
        why = life.end.result() if life.end.done() else "over"
        if why == "crash":
            await self._die()
            return why
        if why == "over" and self.plan.lively:
            self.within.clear()
            await Settling(driver, self.world, self.shown).settle()
        await self._close(driver, why)
        return why

    async def _open(self) -> Driver:
        ports = self.ports_of(self.root)
        self.driver = driver = await Driver.open(
            store=store_of(self.world, self.root),
            created=Created(
                session_id="root",
                policy=effective_policy(PolicyChoice(preset=self.plan.preset, options=self.plan.options)),
                tools=ports.tools.offered(),
            ),
            provider=ports.provider,
            tools=ports.tools,
            clock=ports.clock,
            optional=ports.optional,
            observers=(self._see,),
            nonce="",  # the seed gives the same log each time
        )
        return driver

    def ports_of(self, session: Evidence) -> Ports:
        """The ports of a session in this life."""
        clock = SimulatedClock(self.world)
        self.clocks.append((session, clock))
        others = SimulatedOthers(self.world, session)
        return Ports(
            provider=SimulatedModel(self.world, session),
            tools=SimulatedTools(self.world, session),
            clock=clock,
            optional=OptionalPorts(
                hooks=others,
                summariser=others,
                corrector=others,
                handoffs=others,
                agents=SimulatedAgents(self.world, session, self.session_of, self.ports_of),
            ),
        )

    def _see(self, event: Event) -> None:
        """An observer: it may raise, and it may speak."""
        if not isinstance(event, PASSING_EVENTS):
            self.told += 1
            if self.told > self.root.tells:
                self.world.accuse(f"{type(event).__name__} was shown before the record behind it was written")
        self.shown.append(event)
        self.unread.put_nowait(event)
        self.events += 1
        if isinstance(event, ApprovalAsked | QuestionAsked | ChildAsked):
            self._have_it_answered()
        if self.within and self.driver is not None and not self.life.end.done():
            act = self.within.popleft()
            self.world.seen["posted within a step"] += 1
            delta, within = word_of(act, self.driver.state, ())
            if not within:
                self.driver.post(delta)
        if self.events in self.onlookers:
            self.world.seen["observer raises"] += 1
            raise Foreign("I cannot look at this")

    def _have_it_answered(self) -> None:
        """A person looks after the call that asks, and says the next word to it."""
        words = self.plan.attentive
        if words and not self.world.calm:
            at_ms = self.world.elapsed_ms + self.plan.attention_ms
            what = words[self.words_said % len(words)]
            self.words_said += 1
            insort(self.happenings, Act(at_ms=at_ms, what=what), key=lambda one: one.at_ms)
            if not self.news.done():
                self.news.set_result(None)

    async def _happen(self, driver: Driver) -> None:
        """Everything that the plan has happen at a time, until the process dies or the time is over."""
        end_ms = self.plan.faults_until_ms
        while not self.life.end.done():
            due_ms = min(self.happenings[0].at_ms, end_ms) if self.happenings else end_ms
            wait_ms = due_ms - self.world.elapsed_ms
            if wait_ms > 0:
                self.news = self.loop.create_future()
                await asyncio.wait({self.life.end, self.news}, timeout=wait_ms / 1000, return_when="FIRST_COMPLETED")
                continue
            if not self.happenings or self.happenings[0].at_ms > end_ms:
                return
            match self.happenings.pop(0):
                case Act() as act:
                    await self._act(driver, act)
                case Crash() as crash:
                    self.crash = crash
                    self.life.finish("crash")
                case Jump(by_ms=by_ms):
                    self.world.seen["clock forward" if by_ms > 0 else "clock back"] += 1
                    self.world.offset_ms += by_ms

    async def _act(self, driver: Driver, act: Act) -> None:
        self.world.seen[f"person: {act.what}"] += 1
        if act.within:
            self.within.append(act)
            return
        delta, within = word_of(act, driver.state, self.root_tools())
        try:
            await driver.send(delta, within)
        except NoSuchAgent:
            self.world.seen["no such agent"] += 1
        except StoreError:
            self.world.seen["send fails"] += 1
        else:
            if not within and not any(record.delta is delta for record in self.root.durable[-200:]):
                self.world.accuse(f"{type(delta).__name__} was acknowledged, and is not durable")

    def root_tools(self) -> tuple[Tool, ...]:
        """What the session offers."""
        return SimulatedTools(self.world, self.root).offered()

    async def _die(self) -> None:
        """Nothing of this process is heard any more; the disk keeps what it keeps."""
        crash, self.crash = self.crash or Crash(at_ms=0, keep=self.world.keeps), None
        self.life.over = True
        await self._end_tasks()
        self.loop.complaints.clear()
        for session in self.sessions.values():
            if session.lose(crash.keep):
                self.world.seen["unsynced records lost"] += 1
        self.world.seen["crash"] += 1
        if crash.hand:
            self._fall_into_other_hands(words=crash.hand == "words")
        if crash.down_ms:
            await asyncio.sleep(crash.down_ms / 1000)

    def _fall_into_other_hands(self, *, words: bool) -> None:
        """Nobody vouches for the logs any more; and others may have written into them what only a person may say."""
        for session in self.sessions.values():
            if session.state.session is not None:
                session.doubt = "it was in other hands"
                self.world.seen["log in other hands"] += 1
        said = forged_words(self.root.state) if words else ()
        if said:
            self.world.seen["words of a person forged"] += 1
            self.root.write([LogRecord(delta, self.root.state.stamp.now_ms) for delta in said], durable=True)

    def _tasks_left(self) -> list[asyncio.Task[Any]]:  # Any: whatever they were to return
        """All tasks but those of the simulation itself."""
        return [task for task in asyncio.all_tasks() if task not in self.own_tasks]

    async def _end_tasks(self) -> None:
        for _ in range(1_000):
            left = self._tasks_left()
            if not left:
                return
            for task in left:
                task.cancel()
            await self.loop.idle()
        self.world.accuse("tasks that cannot be ended are left")

    # --- the end ------------------------------------------------------------------------------------------

    async def _close(self, driver: Driver, why: str) -> None:
        """Close the driver, and hold what it did against its log."""
        await self.loop.idle()
        while self.world.writing:  # what is to be looked at is what the log says when all is in it
            await self.world.lasts(1)
            await self.loop.idle()
        orderly = why == "over"
        if orderly and not self.life.end.done():
            pending = Counter[int]()
            for session, clock in self.clocks:
                pending[id(session)] += clock.pending
            for session in self.sessions.values():
                if session is self.root or pending[id(session)]:
                    session.look_around(pending[id(session)])
        begun_ms = self.world.elapsed_ms
        try:
            await driver.close()
        except StoreError:
            orderly = False
        self.life.closed = True
        if self.world.elapsed_ms - begun_ms > MOST_CLOSING_MS:
            self.world.accuse(f"to close took {self.world.elapsed_ms - begun_ms} ms")
        stubborn = sum("does not stop" in str(told.get("message")) for told in self.loop.complaints)
        left = self._tasks_left()
        if len(left) > stubborn:
            self.world.accuse(f"{len(left)} tasks are left after close, and {stubborn} are known")
        if any(clock.pending for _, clock in self.clocks):
            self.world.accuse("timers are left after close")
        if orderly and not self.life.end.done():
            self.root.look_back(driver.state, self.shown)
        await self._end_tasks()
        for session in self.sessions.values():
            session.durable += session.unsynced
            session.unsynced.clear()
