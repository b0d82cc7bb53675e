"""A model that says again what it said in a recorded run: for replays through real tools, or under another policy."""

from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Self

from attrs import evolve
from loopkernel.data.effects import Request
from loopkernel.data.ids import ModelOperation
from loopkernel.data.model_deltas import FromModel, ModelCall, ModelCompleted, ModelDelta, ModelFailed
from loopkernel.data.thread_deltas import Created
from loopkernel.data.user_deltas import ChangePolicy
from loopkernel.data.words import ErrorClass
from loopkernel.later_typing import override
from loopkernel.replaying import LogRecord

from loopkernel_adapters.ports import NoSuchRun, Provider, StoreError

_SQLITE = b"SQLite format 3\0"


class RecordedProvider(Provider):
    """Gives for request 1, 2, ... what the log holds of the reply with that number: its deltas in order, no more.

    A reply that the log breaks off is broken off here too, which the driver reports. A request that the recorded run
    never made fails as `bad_request`. Calls come without the verdict that may be recorded with them: the tools of this
    run judge them. Sub-agents have logs of their own: what they ask is none of this one.
    """

    def __init__(self, records: Iterable[LogRecord]) -> None:
        self._replies: dict[int, list[ModelDelta]] = {}
        self.models: tuple[str, ...] = ()  # that the policies of the run name, first the one it began with
        ended: set[int] = set()
        for record in records:
            delta = record.delta
            if isinstance(delta, Created | ChangePolicy):
                self.models = tuple(dict.fromkeys((*self.models, delta.policy.model)))
            if isinstance(delta, FromModel) and delta.operation not in ended:
                said: ModelDelta = evolve(delta, verdict=None) if isinstance(delta, ModelCall) else delta
                self._replies.setdefault(delta.operation, []).append(said)
                if isinstance(delta, ModelCompleted | ModelFailed):
                    ended.add(delta.operation)  # what comes later is a late report, and no part of the reply
        self._last = max(self._replies, default=0)

    @classmethod
    def from_log(cls, path: Path | str, run: str | None = None) -> Self:
        """The model of a recorded run: a JSONL log, or in an SQLite file the run of that id, which may be left out
        where there is only one. Raises NoSuchRun, OSError, StoreCorrupt, StoreError."""
        path = Path(path)
        if path.exists() and not (path.is_file() or path.is_dir()):  # reading a pipe or a device might never end
            raise StoreError("it is not a regular file; name a JSONL log, or a database")
        with path.open("rb") as file:
            kind = file.read(len(_SQLITE))
        return cls(_of_sqlite(path, run) if kind == _SQLITE else _of_jsonl(path))

    @override
    async def stream(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        if not 1 <= request.number <= self._last:
            message = (
                f"the recorded run ends with reply {self._last}, and this is request {request.number}: from here on "
                "it is another run, so ask a model"
            )
            yield ModelFailed(operation=operation, error=ErrorClass.BAD_REQUEST, message=message)
            return
        for delta in self._replies.get(request.number, ()):
            yield evolve(delta, operation=operation)


def _of_jsonl(path: Path) -> tuple[LogRecord, ...]:
    from loopkernel_adapters.stores.jsonl import read_log

    return read_log(path).records


def _of_sqlite(path: Path, run: str | None) -> tuple[LogRecord, ...]:
    from loopkernel_adapters.stores.sqlite import SqliteRuns

    runs = SqliteRuns(path)
    try:
        if run is None:
            entries = runs.entries()
            if len(entries) != 1:
                raise NoSuchRun(f"{path} holds {len(entries)} runs; name one of them")
            run = entries[0].run
        return runs.read(run)
    finally:
        runs.close()
