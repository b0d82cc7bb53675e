"""The ledger: the calls of one reply in the model's order, where each stands, and its answer."""

from typing import final

from attrs import frozen

from loopkernel.data.blocks import ToolCall, ToolResult
from loopkernel.data.ids import CheckOperation, ModelOperation, RunOperation
from loopkernel.data.tools import Verdict
from loopkernel.data.vector import Vector
from loopkernel.data.words import OPEN_STATUSES, CallStatus


@final
@frozen(kw_only=True)
class LedgerEntry:
    """A call and all that became of it.

    `check` is the open check, `verdict` its outcome; `operation` is the latest run. `result` is there
    exactly when the status is terminal.
    """

    call: ToolCall
    status: CallStatus = CallStatus.QUEUED
    check: CheckOperation | None = None
    verdict: Verdict | None = None
    operation: RunOperation | None = None
    runs: int = 0
    progress: Vector[str] = Vector()
    result: ToolResult | None = None

    @property
    def is_open(self) -> bool:
        """Whether the call still has to be answered."""
        return self.status in OPEN_STATUSES

    # The changes of a call's life are built by the constructor: several times as fast as `evolve`.

    def judged(self, verdict: Verdict) -> "LedgerEntry":
        """The call after its check."""
        return LedgerEntry(
            call=self.call,
            status=self.status,
            verdict=verdict,
            operation=self.operation,
            runs=self.runs,
            progress=self.progress,
        )

    def started(self, operation: RunOperation) -> "LedgerEntry":
        """The call when one more run of it has started."""
        return LedgerEntry(
            call=self.call,
            status=CallStatus.IN_PROGRESS,
            verdict=self.verdict,
            operation=operation,
            runs=self.runs + 1,
            progress=self.progress,
        )

    def ended(self, result: ToolResult) -> "LedgerEntry":
        """The call with its answer."""
        return LedgerEntry(
            call=self.call,
            status=result.status,
            verdict=self.verdict,
            operation=self.operation,
            runs=self.runs,
            progress=self.progress,
            result=result,
        )


@final
@frozen(kw_only=True)
class Ledger:
    """All calls of the reply `reply`, at places from 0. Counts and marks spare a scan at every report.

    `unanswered` entries are open, `running` of them have started. Of those before the mark `next_queued` none
    still has to start, before `first_open` none is open, before `calm_until` each is closed or only reads, and
    before `allowed_until` none that waits would be denied. `checked[n]` and `started[n]` are the places that the
    nth check and run since `first_check` and `first_run` belong to.
    """

    reply: ModelOperation
    entries: Vector[LedgerEntry] = Vector()
    unanswered: int = 0
    running: int = 0
    next_queued: int = 0
    first_open: int = 0
    calm_until: int = 0
    allowed_until: int = 0
    first_check: int = 0
    first_run: int = 0
    checked: Vector[int] = Vector()
    started: Vector[int] = Vector()

    def put(
        self,
        place: int,
        entry: LedgerEntry,
        *,
        unanswered: int | None = None,
        running: int | None = None,
        started: Vector[int] | None = None,
    ) -> "Ledger":
        """This ledger with another entry at `place`, and other counts where they are given."""
        return Ledger(
            reply=self.reply,
            entries=self.entries.replace(place, entry),
            unanswered=self.unanswered if unanswered is None else unanswered,
            running=self.running if running is None else running,
            next_queued=self.next_queued,
            first_open=self.first_open,
            calm_until=self.calm_until,
            allowed_until=self.allowed_until,
            first_check=self.first_check,
            first_run=self.first_run,
            checked=self.checked,
            started=self.started if started is None else started,
        )

    def place_of_check(self, operation: CheckOperation) -> int | None:
        """The place of the entry whose open check this is."""
        return self._place(self.checked, operation - self.first_check)

    def place_of_run(self, operation: RunOperation) -> int | None:
        """The place of the entry that this run belongs to."""
        return self._place(self.started, operation - self.first_run)

    @staticmethod
    def _place(places: Vector[int], index: int) -> int | None:
        return places[index] if 0 <= index < len(places) else None
