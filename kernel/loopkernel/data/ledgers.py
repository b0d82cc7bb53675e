"""The ledger: the calls of one reply in the model's order, where each stands, and its answer."""

from typing import final

from attrs import evolve, field

from loopkernel.data.blocks import RawInput, ToolCall, ToolResult, UserBlock
from loopkernel.data.children import ChildCall, ChildRun, Taken
from loopkernel.data.hook_calls import NO_HOOKS, CallHooks
from loopkernel.data.ids import CheckOperation, HookOperation, ModelOperation, RunOperation, TimerOperation
from loopkernel.data.json_text import Json
from loopkernel.data.plans import Plan
from loopkernel.data.text_map import TextMap
from loopkernel.data.timers import Timer
from loopkernel.data.tools import EffectClass, Tool, Verdict
from loopkernel.data.value_classes import frozen, maker, quick_copy
from loopkernel.data.vector import Vector
from loopkernel.data.words import OPEN_STATUSES, CallStatus, UserAction


@final
@frozen(kw_only=True)
class Links:
    """The calls that a call depends on, by their places, and its input once the references in it are resolved."""

    sources: tuple[int, ...] = ()
    refers: bool = False
    resolved: Json | None = None


@final
@frozen(kw_only=True)
class Edit:
    """Another tool, or another input, that a person has put in the place of the model's. `action` tells which."""

    action: UserAction
    tool: str
    input: Json


@final
@frozen
class ApprovalWait:
    """A person is to approve the call. `edit` is an edit that is being checked."""

    edit: Edit | None = None


@final
@frozen
class QuestionWait:
    """A running tool asks; `left_ms` is what is left of its time, which does not run meanwhile (rule TOOL-19)."""

    question: str
    left_ms: int | None = None


@final
@frozen
class CrashWait:
    """A restart has found a dangerous run in flight: a person says what becomes of it (rule RESUME-3)."""


@final
@frozen
class ChildWait:
    """A sub-agent waits for a person, who is to answer `asked`; its time does not run meanwhile."""

    asked: tuple[ChildCall, ...]
    left_ms: int | None = None


Wait = ApprovalWait | QuestionWait | CrashWait | ChildWait


@final
@frozen(kw_only=True)
class Person:
    """What a person has to do with a call.

    `asked`: it was shown; `answered`: it was answered; `approved`: exactly this tool and input may run. `doubted`: the
    call was found in a log that nobody vouches for, so that without an approval nothing lets it run (rule RESUME-8).
    """

    wait: Wait | None = None
    asked: bool = False
    answered: bool = False
    approved: bool = False
    edit: Edit | None = None
    doubted: bool = False


NOBODY = Person()


@final
@frozen(kw_only=True)
class LedgerEntry:
    """A call and all that became of it.

    `check` is the open check, `verdict` the outcome of the last; `operation` is the latest run, `timer` what bounds it,
    or the wait for a person. `result` is there exactly when the status is terminal; `output` is what the tool returned,
    where the result says it otherwise. `batch` is the first place of the call's batch, where there are batches.
    `effect` is the worst that its runs may have done, as the tool's profile said when they started. `child`: what runs
    is a sub-agent.
    """

    call: ToolCall
    status: CallStatus = CallStatus.QUEUED
    check: CheckOperation | None = None
    verdict: Verdict | None = None
    links: Links | None = None
    person: Person = NOBODY
    operation: RunOperation | None = None
    runs: int = 0
    effect: EffectClass | None = None
    timer: Timer | None = None
    progress: Vector[str] = Vector()
    result: ToolResult | None = None
    output: tuple[UserBlock, ...] | None = None
    batch: int | None = None
    hooks: CallHooks = NO_HOOKS
    child: ChildRun | None = None

    @property
    def is_open(self) -> bool:
        """Whether the call still has to be answered."""
        return self.status in OPEN_STATUSES

    @property
    def is_running(self) -> bool:
        """Whether the call has started and is not answered: its run goes on, asks, or is looked at by hooks."""
        return self.status is CallStatus.IN_PROGRESS or isinstance(self.person.wait, QuestionWait | ChildWait)

    @property
    def has_run(self) -> bool:
        """Whether a run of the call is under way: its end has not been reported."""
        return self.is_running and self.hooks.end is None

    @property
    def tool(self) -> str:
        """The tool that runs for the call."""
        edit = self.person.edit
        return self.call.tool if edit is None else edit.tool

    @property
    def given(self) -> Json | RawInput:
        """The input that the tool gets: as a person or a hook changed it, else with its references resolved."""
        if self.person.edit is not None:
            return self.person.edit.input
        if self.hooks.input is not None:
            return self.hooks.input
        if self.links is not None and self.links.resolved is not None:
            return self.links.resolved
        return self.call.input

    @property
    def refers(self) -> bool:
        """Whether its input still refers to the output of other calls."""
        links = self.links
        return links is not None and links.refers and links.resolved is None and self.person.edit is None

    @property
    def question(self) -> str | None:
        """What its running tool asks; None if it does not ask."""
        wait = self.person.wait
        return wait.question if isinstance(wait, QuestionWait) else None

    # The changes of every call's life are built by the constructor: several times as fast as `evolve`.

    def judged(self, verdict: Verdict) -> "LedgerEntry":
        """The call after its check."""
        return new_entry(
            call=self.call,
            status=self.status,
            verdict=verdict,
            links=self.links,
            person=self.person,
            operation=self.operation,
            runs=self.runs,
            effect=self.effect,
            timer=self.timer,
            progress=self.progress,
            batch=self.batch,
            hooks=self.hooks,
        )

    def started(
        self, operation: RunOperation, timer: Timer | None, effect: EffectClass, child: ChildRun | None = None
    ) -> "LedgerEntry":
        """The call when one more run of it has started, which may do so much."""
        return new_entry(
            call=self.call,
            status=CallStatus.IN_PROGRESS,
            verdict=self.verdict,
            links=self.links,
            person=self.person,
            operation=operation,
            runs=self.runs + 1,
            effect=effect,
            timer=timer,
            progress=self.progress,
            batch=self.batch,
            hooks=self.hooks,
            child=child,
        )

    def with_hooks(self, hooks: CallHooks) -> "LedgerEntry":
        """The call with what hooks have said of it, or are asked."""
        return new_entry(
            call=self.call,
            status=self.status,
            check=self.check,
            verdict=self.verdict,
            links=self.links,
            person=self.person,
            operation=self.operation,
            runs=self.runs,
            effect=self.effect,
            timer=self.timer,
            progress=self.progress,
            result=self.result,
            output=self.output,
            batch=self.batch,
            hooks=hooks,
            child=self.child,
        )

    def ended(self, result: ToolResult, output: tuple[UserBlock, ...] | None = None) -> "LedgerEntry":
        """The call with its answer."""
        return new_entry(
            call=self.call,
            status=result.status,
            verdict=self.verdict,
            links=self.links,
            person=self.person if self.person.wait is None else evolve(self.person, wait=None),
            operation=self.operation,
            runs=self.runs,
            effect=self.effect,
            progress=self.progress,
            result=result,
            output=output,
            batch=self.batch,
            child=self.child,
        )


new_entry = maker(LedgerEntry)


@final
@frozen(kw_only=True)
class Totals:
    """What the calls come to, as they stood in `entries`, with these `tools` and that `output_tool` of the settings.

    `failed` of them were answered with an error after a run; `taken` is what their sub-agents under way may spend;
    `to_come` are still to start one; `outputs` is the mask of those that are to give the output.
    """

    entries: Vector[LedgerEntry] = Vector()
    tools: tuple[Tool, ...] = ()
    output_tool: str | None = None
    failed: int = 0
    taken: Taken = Taken()
    to_come: int = 0
    outputs: int = 0


@final
@frozen(kw_only=True)
class Ledger:
    """All calls of the reply `reply`, at places from 0. Counts spare a scan at every report.

    Its turn was opened at `opened_ms`. `unanswered` entries are open: `running` of them run, `children` of these are
    sub-agents; `waiting` wait for a person, `asking` of these because their tool or sub-agent asked; of `hooked` a hook
    is asked before they run; `checking` checks are open. `checked[n]`, `started[n]`, `timed[n]` and `gated[n]` are the
    places that the nth check, run, timer and hook since `first_check`, `first_run`, `first_timer` and `first_hook`
    belong to; -1 is none. `nonce` stands in the keys of their runs. `linked`: some call names others to depend
    on. Three parts follow from the rest and are never written down: `plan` is there once more than one call is to be
    scheduled, `ids` (the latest place of each provider's id) once a call depends on another, `totals` once they are
    asked for: they may be those of entries that have changed since.
    """

    reply: ModelOperation
    entries: Vector[LedgerEntry] = Vector()
    unanswered: int = 0
    running: int = 0
    waiting: int = 0
    asking: int = 0
    checking: int = 0
    children: int = 0
    hooked: int = 0
    linked: bool = False
    opened_ms: int = 0
    nonce: str = ""
    first_check: int = 0
    first_run: int = 0
    first_timer: int = 0
    first_hook: int = 0
    checked: Vector[int] = Vector()
    started: Vector[int] = Vector()
    timed: Vector[int] = Vector()
    gated: Vector[int] = Vector()
    plan: Plan | None = field(default=None, eq=False, repr=False, metadata={"derived": True})
    ids: TextMap[int] | None = field(default=None, eq=False, repr=False, metadata={"derived": True})
    totals: Totals | None = field(default=None, eq=False, repr=False, metadata={"derived": True})

    def put(self, place: int, entry: LedgerEntry) -> "Ledger":
        """This ledger with another entry at `place`."""
        return self.updated(self.entries.replace(place, entry), plan=self.plan)

    @quick_copy
    def updated(
        self,
        entries: Vector[LedgerEntry],
        *,
        plan: Plan | None,
        unanswered: int | None = None,
        running: int | None = None,
        waiting: int | None = None,
        asking: int | None = None,
        checking: int | None = None,
        children: int | None = None,
        hooked: int | None = None,
        linked: bool | None = None,
        checked: Vector[int] | None = None,
        started: Vector[int] | None = None,
        timed: Vector[int] | None = None,
        gated: Vector[int] | None = None,
        ids: TextMap[int] | None = None,
    ) -> "Ledger":
        """This ledger with these entries and this plan, and what else is given; there, None keeps what there is.

        For every change of a call: `evolve` takes thrice as long.
        """
        return Ledger(
            reply=self.reply,
            entries=entries,
            unanswered=self.unanswered if unanswered is None else unanswered,
            running=self.running if running is None else running,
            waiting=self.waiting if waiting is None else waiting,
            asking=self.asking if asking is None else asking,
            checking=self.checking if checking is None else checking,
            children=self.children if children is None else children,
            hooked=self.hooked if hooked is None else hooked,
            linked=self.linked if linked is None else linked,
            opened_ms=self.opened_ms,
            nonce=self.nonce,
            first_check=self.first_check,
            first_run=self.first_run,
            first_timer=self.first_timer,
            first_hook=self.first_hook,
            checked=self.checked if checked is None else checked,
            started=self.started if started is None else started,
            timed=self.timed if timed is None else timed,
            gated=self.gated if gated is None else gated,
            plan=plan,
            ids=self.ids if ids is None else ids,
            totals=self.totals,
        )

    def place_of_check(self, operation: CheckOperation) -> int | None:
        """The place of the entry whose open check this is."""
        return self._place(self.checked, operation - self.first_check)

    def place_of_run(self, operation: RunOperation) -> int | None:
        """The place of the entry that this run belongs to."""
        return self._place(self.started, operation - self.first_run)

    def place_of_timer(self, operation: TimerOperation) -> int | None:
        """The place of the entry that this timer belongs to."""
        return self._place(self.timed, operation - self.first_timer)

    def place_of_hook(self, operation: HookOperation) -> int | None:
        """The place of the entry that this hook was asked about."""
        return self._place(self.gated, operation - self.first_hook)

    @staticmethod
    def _place(places: Vector[int], index: int) -> int | None:
        if not 0 <= index < places.size:
            return None
        place = places[index]
        return place if place >= 0 else None


new_ledger = maker(Ledger)
