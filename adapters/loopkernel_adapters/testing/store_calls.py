"""Calls a store for its check: it has to have the methods of its port, and they have to give what the port says.

What a call raises, and that it does not come back, is told as of that call, whichever check it was made for.
"""

import inspect
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import CodeType, MappingProxyType
from typing import TypeVar

from loopkernel.data.states import State
from loopkernel.later_typing import override
from loopkernel.replaying import LogRecord

from loopkernel_adapters.blocking_ports import BlockingRuns, BlockingStore
from loopkernel_adapters.ports import Restored, RunEntry, Store, StoreError
from loopkernel_adapters.stores.threaded import blocks
from loopkernel_adapters.testing.watched_checks import StandsStill, raising

T = TypeVar("T")

THE_FACTORY = "the factory"  # in the place of a duty
A_FACTORY = (
    "Give `check_store` a function that takes a folder (a Path) and returns the runs that keep their logs there."
)

# The duty that a call breaks by what it gives and raises. `open` is not here: it is why it is opened that counts then.
DUTIES_OF_CALLS: Mapping[str, str] = MappingProxyType(
    {
        "Store.append": "store 1",
        "Store.load": "store 4",
        "Store.restore": "store 7",
        "Store.save_snapshot": "store 8",
        "Store.close": "store 6",
        "Runs.read": "runs 2",
        "Runs.entries": "runs 3",
        "Runs.close": "runs 4",
    }
)


# --- what is called -----------------------------------------------------------------------------------


def demand_runs(runs: object) -> None:
    """Raises AssertionError unless this, which a factory gave, has the methods of runs."""
    _demand_methods(runs, BlockingRuns, f"the factory gave {_named(runs)}, not Runs or BlockingRuns", f". {A_FACTORY}")


def demand_store(store: Store | BlockingStore, port: type) -> None:
    """Raises AssertionError unless this, which `open` gave, has the methods of the port, and is of its kind."""
    told = f"open() gave {_named(store)}, not a {port.__name__}"
    _demand_methods(store, port, told)
    if blocks(store) is not (port is BlockingStore):
        both = "both or neither are an `async def`"
        raise AssertionError(f"{told}: of `open` and the `append` of what it gives, {both}")


def _demand_methods(part: object, port: type, told: str, advice: str = "") -> None:
    wanted = {name: value for name, value in vars(port).items() if inspect.isfunction(value) and name[0] != "_"}
    missing = [f"`{name}`" for name in wanted if not callable(getattr(part, name, None))]
    if missing:
        raise AssertionError(f"{told}: it has no {', '.join(missing)}{advice}")
    for name, function in wanted.items():
        method = getattr(part, name)
        needed = [each.name for each in inspect.signature(function).parameters.values() if each.default is each.empty]
        try:
            inspect.signature(method).bind(*needed[1:])
        except TypeError as error:
            call = f"{port.__name__.removeprefix('Blocking')}.{name}"
            duty = f"{DUTIES_OF_CALLS[call]}: " if call in DUTIES_OF_CALLS else ""
            told = f"{duty}{name}({', '.join(needed[1:])}) cannot be called{_written_at(method)}: {error}"
            raise AssertionError(told) from None
        except ValueError:  # it is not written in Python, and does not say what it takes
            continue


def _written_at(method: object) -> str:
    code = getattr(method, "__code__", None)
    if not isinstance(code, CodeType):
        return ""
    return f" (it is written at {Path(code.co_filename).name}:{code.co_firstlineno})"


def _named(given: object) -> str:
    return "None" if given is None else f"a {type(given).__name__}"


# --- what it gives ------------------------------------------------------------------------------------


class TriedRuns(BlockingRuns):
    """The runs that a factory gave."""

    def __init__(self, runs: BlockingRuns) -> None:
        self._runs = runs

    @override
    def open(self, run: str) -> BlockingStore:
        store = self._runs.open(run)
        demand_store(store, BlockingStore)
        return TriedStore(store)

    @override
    def read(self, run: str) -> tuple[LogRecord, ...]:
        return _of_kind(tuple, "Runs.read", self._runs.read(run))

    @override
    def entries(self) -> tuple[RunEntry, ...]:
        return _of_kind(tuple, "Runs.entries", self._runs.entries())

    @override
    def close(self) -> None:
        self._runs.close()


class TriedStore(BlockingStore):
    """A store that such runs have opened."""

    def __init__(self, store: BlockingStore) -> None:
        self._store = store

    @override
    def append(self, records: Sequence[LogRecord], durable: bool) -> None:
        self._store.append(records, durable)

    @override
    def load(self) -> tuple[LogRecord, ...]:
        return _of_kind(tuple, "Store.load", self._store.load())

    @override
    def restore(self) -> Restored:
        return _of_kind(Restored, "Store.restore", self._store.restore())

    @override
    def save_snapshot(self, state: State) -> None:
        self._store.save_snapshot(state)

    @override
    def close(self) -> None:
        self._store.close()


def _of_kind(kind: type, call: str, given: T) -> T:
    if isinstance(given, kind):
        return given
    name = call.partition(".")[2]
    raise AssertionError(f"{DUTIES_OF_CALLS[call]}: {name}() gave {_named(given)}, not a {kind.__name__}")


# --- what it raises -----------------------------------------------------------------------------------


def told_of_store(duty: str, error: Exception) -> str:
    """What is told of an error, by its call. A refusal breaks the duty of the check, anything else that of the call."""
    call = _call_of(error)
    broken = duty if isinstance(error, StoreError | OSError) else DUTIES_OF_CALLS.get(call, duty)
    method = call.partition(".")[2]
    words = str(error) if isinstance(error, StandsStill) else raising(error, f"{method}()" if method else "it")
    return f"{broken}: {words}. {A_FACTORY}" if broken == THE_FACTORY else f"{broken}: {words}"


def _call_of(error: Exception) -> str:
    """As `Store.append`; empty where it came from no call of the store."""
    stack = error.stack if isinstance(error, StandsStill) else traceback.walk_tb(error.__traceback__)
    codes = [frame.f_code for frame, _ in stack if frame.f_globals is globals()]
    calls = [code.co_qualname.removeprefix("Tried") for code in codes if code.co_qualname.startswith("Tried")]
    return calls[-1] if calls else ""
