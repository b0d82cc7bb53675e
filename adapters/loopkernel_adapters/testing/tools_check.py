"""The duties of the port `Tools` (specs/ports.md), as one function over any tools. Works without a test framework.

    untried = check_tools(lambda: my_trial())       # raises AssertionError("tools 2: ...")

`my_trial` is a context manager that gives a `ToolsTrial`: the tools in a world of their own, and sample calls for it. A
duty is looked at as far as there are samples for it; what was not tried without them is returned. Descriptors and
processes are seen where the system shows them (Linux). Duties 5 to 7 and 10 are not checked here: they say what the
driver grants. A run that ends by itself and holds the event loop up meanwhile is seen where that takes half a second.
"""

import asyncio
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TypeVar

from attrs import Factory, define, frozen
from loopkernel.data.blocks import MediaBlock, TextBlock
from loopkernel.data.effects import CheckCall, StartTool
from loopkernel.data.ids import CallId, CheckOperation, ModelOperation, RunOperation
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.tools import InvalidCall, ToolOutput, UnknownTool, ValidCall, Verdict
from loopkernel.later_typing import override

from loopkernel_adapters.ports import RunContext, ToolError, Tools
from loopkernel_adapters.testing.watched_checks import judged
from loopkernel_adapters.tools.output_bounds import MOST_CHARACTERS, MOST_MEDIA

QUICK_SECONDS = 0.2  # the best of three checks
GRACE_SECONDS = 5.0  # after an abort
BEGIN_SECONDS = 30.0  # until a run shows that it is under way, on a machine that has much to do
NO_TOOL = "there-is-no-tool-of-this-name"
HELD_UP_SECONDS = 0.5  # without a turn of the event loop, at the best of three runs
RUNS_AGAIN = 2
PATIENCE_SECONDS = 60.0  # for a duty; more than the time until an endless call begins
_NOTE = 200  # characters that say what was left out of a result
_STEP = 0.01

T = TypeVar("T")

SampleCall = tuple[str, JsonValue]  # a tool, and its input


@frozen(kw_only=True)
class EndlessCall:
    """A call that goes on until it is aborted.

    `begun` tells when it is under way. `marker` is in the command line of every process that it starts.
    """

    call: SampleCall
    begun: Callable[[], bool] = lambda: True
    marker: str | None = None


@frozen(kw_only=True)
class ToolsTrial:
    """Tools, and calls to try them with: such as succeed, do not fit, fail, and do not end.

    `alike` are pairs of calls that are written otherwise and touch the same. A check must not change anything below
    `watched`. `keys` are what the tools were given and must not give away.
    """

    tools: Tools
    valid: tuple[SampleCall, ...] = ()
    invalid: tuple[SampleCall, ...] = ()
    failing: tuple[SampleCall, ...] = ()
    endless: tuple[EndlessCall, ...] = ()
    alike: tuple[tuple[SampleCall, SampleCall], ...] = ()
    watched: tuple[Path, ...] = ()
    keys: tuple[str, ...] = ()


TrialFactory = Callable[[], AbstractContextManager[ToolsTrial]]


def check_tools(factory: TrialFactory, patience_seconds: float = PATIENCE_SECONDS) -> tuple[str, ...]:
    """Check the duties with every sample call; what was not tried, in words, and what has it tried.

    Raises AssertionError, which names the duty that is broken, what was seen, and what is due. What takes longer than
    `patience_seconds` holds the event loop up.
    """
    for number, duty in _DUTIES:
        judged(f"tools {number}", partial(_in_a_trial, factory, duty), patience_seconds)
    return judged("tools 1", partial(_in_a_trial, factory, _untried), patience_seconds)


def _in_a_trial(factory: TrialFactory, look: Callable[[ToolsTrial], T]) -> T:
    with factory() as trial:
        return look(trial)


def _untried(trial: ToolsTrial) -> tuple[str, ...]:
    """What nothing of the trial has tried, each with the field of it that is empty."""
    calls = (*trial.valid, *trial.failing, *(endless.call for endless in trial.endless))
    run = {name for name, _ in calls}
    never = [tool.name for tool in trial.tools.offered() if tool.name not in run]
    parts: dict[str, tuple[object, ...]] = {
        "what a call gives that succeeds (duties 3, 9 and 11): give one in `valid`": trial.valid,
        "whether a tool refuses what does not fit it (duty 2): give such a call in `invalid`": trial.invalid,
        "how a tool fails (duties 4 and 11): give a call that fails in `failing`": trial.failing,
        "an abort (duty 8): give a call that does not end in `endless`": trial.endless,
        "whether calls that touch the same have a key in common (duty 2): give two in `alike`": trial.alike,
        "whether a check changes something (duty 2): give the folder of the tools in `watched`": trial.watched,
        "whether a key is given away (duty 12): give those of the tools in `keys`": trial.keys,
    }
    return (
        *(f"not run: {name}: give a call of it in `valid`, `failing` or `endless`" for name in never),
        *(f"not tried: {part}" for part, samples in parts.items() if not samples),
    )


def demand(duty: int, kept: bool, seen: str) -> None:
    """Raises AssertionError where a duty is not kept."""
    if not kept:
        raise AssertionError(f"tools {duty}: {seen}")


# --- what is offered, and what is judged --------------------------------------------------------------


def _offers(trial: ToolsTrial) -> None:
    offered = trial.tools.offered()
    names = [tool.name for tool in offered]
    twice = sorted({name for name in names if names.count(name) > 1})
    demand(1, not twice, f"two tools are named {', '.join(twice)}")
    for tool in offered:
        demand(1, isinstance(tool.input_schema.value(), dict), f"the input schema of {tool.name} is not an object")
    demand(1, trial.tools.offered() == offered, "other tools are offered when they are asked for again")


def _checks(trial: ToolsTrial) -> None:
    before = _contents(trial.watched)
    living = _Living.now()
    verdict = _checked(trial.tools, (NO_TOOL, {}))
    demand(2, isinstance(verdict, UnknownTool), f"a call of a tool that is not there is {verdict}, and not unknown")
    for call in trial.valid:
        verdict = _checked(trial.tools, call)
        demand(2, isinstance(verdict, ValidCall), f"the valid call {_shown(call)} is {verdict}")
        demand(2, _checked(trial.tools, call) == verdict, f"the check of {_shown(call)} says something else each time")
        seconds = min(_seconds(trial.tools, call) for _ in range(3))
        demand(2, seconds < QUICK_SECONDS, f"the check of {_shown(call)} takes {seconds:.2f} s, and all else waits")
        for unresolved in _with_references(call):
            verdict = _checked(trial.tools, unresolved)
            demand(2, isinstance(verdict, ValidCall), f"{_shown(unresolved)}, which may yet fit, is {verdict}")
    for tool in trial.tools.offered():
        _demand_refusal(trial, (tool.name, []))
    for call in trial.invalid:
        _demand_refusal(trial, call)
    for one, other in trial.alike:
        _demand_same_keys(trial.tools, one, other)
    demand(2, _contents(trial.watched) == before, "a check has changed what it looked at")
    left = living.left()
    demand(2, not left, f"a check has left {left}")


def _with_references(call: SampleCall) -> Iterator[SampleCall]:
    """The call as it is while one of its fields is the output of an earlier call, which is not there yet."""
    name, given = call
    if isinstance(given, dict):
        for field in given:
            yield name, {**given, field: {"$result": "earlier"}}


def _demand_same_keys(tools: Tools, one: SampleCall, other: SampleCall) -> None:
    claimed = [_claimed(tools, call) for call in (one, other)]
    if None in claimed:  # it conflicts with every other call
        return
    first, second = (sorted(keys or ()) for keys in claimed)
    told = f"{_shown(one)} and {_shown(other)} touch the same, and their keys are {first} and {second}"
    demand(2, bool({*first} & {*second}), told)


def _claimed(tools: Tools, call: SampleCall) -> set[str] | None:
    verdict = _checked(tools, call)
    if not isinstance(verdict, ValidCall):
        return set()
    return None if verdict.claims is None else {claim.key for claim in verdict.claims}


def _demand_no_key(trial: ToolsTrial, call: SampleCall, told: object) -> None:
    """No key shows in what is told; which one is not said again."""
    for number, key in enumerate(trial.keys, 1):
        shown = repr(told).replace(key, "***")
        demand(12, key not in f"{told!r} {told}", f"key {number} shows in what {_shown(call)} gave: {shown}")


def _demand_refusal(trial: ToolsTrial, call: SampleCall) -> None:
    verdict = _checked(trial.tools, call)
    _demand_no_key(trial, call, verdict)
    demand(2, isinstance(verdict, InvalidCall), f"the call {_shown(call)} does not fit, and is {verdict}")
    assert isinstance(verdict, InvalidCall)
    demand(2, bool(verdict.why.strip()), f"that {_shown(call)} does not fit is said without a reason")
    for foreign in ("Traceback (most recent", "errors.pydantic.dev"):
        demand(2, foreign not in verdict.why, f"what is said of {_shown(call)} is for programmers: {verdict.why}")


def _checked(tools: Tools, call: SampleCall) -> Verdict:
    name, given = call
    return tools.check(CheckCall(operation=CheckOperation(1), call=_CALL, tool=name, input=Json.of(given)))


def _seconds(tools: Tools, call: SampleCall) -> float:
    began = time.perf_counter()
    _checked(tools, call)
    return time.perf_counter() - began


# --- runs ---------------------------------------------------------------------------------------------


def _runs(trial: ToolsTrial) -> None:
    living = _Living.now()
    for call in trial.valid:
        output, held_up = asyncio.run(_timed(trial.tools, call))
        _demand_no_key(trial, call, output)
        demand(4, not isinstance(output, BaseException), f"the valid call {_shown(call)} raised {output!r}")
        demand(3, isinstance(output, ToolOutput), f"{_shown(call)} returned a {type(output).__name__}, no ToolOutput")
        assert isinstance(output, ToolOutput)
        texts = sum(len(block.text) for block in output.content if isinstance(block, TextBlock))
        media = sum(len(block.data) for block in output.content if isinstance(block, MediaBlock))
        demand(11, texts <= MOST_CHARACTERS + _NOTE, f"{_shown(call)} returned {texts} characters")
        demand(11, media <= MOST_MEDIA, f"{_shown(call)} returned {media} characters of media")
        left = living.left()
        demand(9, not left, f"when {_shown(call)} had ended, there was still {left}")
        for _ in range(RUNS_AGAIN if held_up >= HELD_UP_SECONDS else 0):  # it may have been the machine
            held_up = min(held_up, asyncio.run(_timed(trial.tools, call))[1])
        demand(9, held_up < HELD_UP_SECONDS, f"{_shown(call)} holds the event loop up for {held_up:.1f} s")


async def _timed(tools: Tools, call: SampleCall) -> tuple[object, float]:
    """What the run gives, and the longest time (s) within it without a turn of the event loop."""
    run = asyncio.ensure_future(_outcome(tools, call))
    longest = 0.0
    while not run.done():
        began = time.perf_counter()
        await asyncio.wait({run}, timeout=_STEP)
        longest = max(longest, time.perf_counter() - began - _STEP)
    return run.result(), longest


def _fails(trial: ToolsTrial) -> None:
    living = _Living.now()
    for call in ((NO_TOOL, {}), *trial.failing):
        error = asyncio.run(_outcome(trial.tools, call))
        _demand_no_key(trial, call, error)
        demand(4, isinstance(error, ToolError), f"{_shown(call)} fails, but gave {error!r} and no ToolError")
        demand(4, bool(str(error).strip()), f"{_shown(call)} fails without a word")
        demand(11, len(str(error)) <= MOST_CHARACTERS, f"{_shown(call)} fails with {len(str(error))} characters")
        left = living.left()
        demand(9, not left, f"when {_shown(call)} had failed, there was still {left}")


async def _outcome(tools: Tools, call: SampleCall) -> object:
    context = _Context()
    before = asyncio.all_tasks()
    outcome: object
    try:
        outcome = await tools.run(_started(call), context)
    except (Exception, SystemExit) as error:
        outcome = error
    demand(9, not context.misused, f"{_shown(call)} used its context from another thread")
    await _demand_no_task(call, "ended", before)
    return outcome


async def _demand_no_task(call: SampleCall, what: str, before: set[asyncio.Task[object]]) -> None:
    for _ in range(10):  # what was cancelled with it gets its turn
        await asyncio.sleep(0)
    left = asyncio.all_tasks() - before
    demand(9, not left, f"when {_shown(call)} had {what}, there was still {len(left)} of its tasks")


def _stops(trial: ToolsTrial) -> None:
    living = _Living.now()
    for endless in trial.endless:
        asyncio.run(_aborted(trial.tools, endless, lambda: True))
        asyncio.run(_aborted(trial.tools, endless, endless.begun))
        left = living.left(endless.marker)
        demand(9, not left, f"when {_shown(endless.call)} had stopped, there was still {left}")


async def _aborted(tools: Tools, endless: EndlessCall, begun: Callable[[], bool]) -> None:
    before = asyncio.all_tasks()
    run = asyncio.ensure_future(tools.run(_started(endless.call), _Context()))
    await asyncio.sleep(0)
    deadline = time.monotonic() + BEGIN_SECONDS
    while not begun() and not run.done() and time.monotonic() < deadline:
        await asyncio.wait({run}, timeout=_STEP)
    demand(8, not run.done(), f"{_shown(endless.call)} was to be endless, and has ended")
    run.cancel()
    await asyncio.wait({run}, timeout=GRACE_SECONDS)
    stopped = run.done()
    while not run.done():  # else nothing could go on, not even what says so
        run.cancel()
        await asyncio.wait({run}, timeout=_STEP)
    demand(8, stopped, f"{_shown(endless.call)} had not stopped {GRACE_SECONDS:.0f} s after its abort")
    await _demand_no_task(endless.call, "stopped", before)


_DUTIES = ((1, _offers), (2, _checks), (9, _runs), (9, _fails), (9, _stops))  # each with what hanging in it breaks
_CALL = CallId(ModelOperation(1), 1)


def _started(call: SampleCall) -> StartTool:
    name, given = call
    return StartTool(operation=RunOperation(1), call=_CALL, run=1, tool=name, input=Json.of(given), key="trial")


@define
class _Context(RunContext):
    """A context that nobody listens to. It must be used in the thread that has made it."""

    thread: int = Factory(threading.get_ident)
    misused: bool = False

    def _look(self) -> None:
        self.misused = self.misused or threading.get_ident() != self.thread

    @override
    async def report_progress(self, text: str) -> None:
        self._look()

    @override
    async def ask(self, question: str) -> Json | None:
        self._look()
        return None

    @override
    async def go_on_in_background(self, handle: str) -> None:
        self._look()


# --- what is there ------------------------------------------------------------------------------------


@frozen
class _Living:
    """The threads, descriptors and child processes of this process."""

    threads: frozenset[int]
    descriptors: int
    children: frozenset[int]

    @staticmethod
    def now() -> "_Living":
        threads = frozenset(thread.ident or 0 for thread in threading.enumerate())
        return _Living(threads, len(_names("/proc/self/fd")), frozenset(_children()))

    def left(self, marker: str | None = None) -> str:
        """What is there and was not; it gets the time of the grace to go."""
        deadline = time.monotonic() + GRACE_SECONDS
        while (found := self._more(marker)) and time.monotonic() < deadline:
            threading.Event().wait(_STEP)
        return found

    def _more(self, marker: str | None) -> str:
        now = _Living.now()
        found = [f"the thread {t.name}" for t in threading.enumerate() if t.ident in now.threads - self.threads]
        if now.descriptors > self.descriptors:
            found.append(f"{now.descriptors - self.descriptors} open descriptors")
        found += [f"the child process {child}" for child in sorted(now.children - self.children)]
        if marker is not None:
            found += [f"the process {process}" for process in _marked(marker)]
        return ", ".join(found)


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _processes() -> Iterator[int]:
    yield from (int(name) for name in _names("/proc") if name.isdigit())


def _children() -> Iterator[int]:
    for process in _processes():
        try:
            status = Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()
        except OSError:  # it has just ended
            continue
        if len(status) > 1 and int(status[1]) == os.getpid():
            yield process


def _marked(marker: str) -> Iterator[int]:
    for process in _processes():
        try:
            line = Path(f"/proc/{process}/cmdline").read_bytes()
        except OSError:
            continue
        if marker.encode() in line and process != os.getpid():
            yield process


def _contents(folders: tuple[Path, ...]) -> dict[str, tuple[int, int, bytes]]:
    found: dict[str, tuple[int, int, bytes]] = {}
    for path in (path for folder in folders for path in (folder, *sorted(folder.rglob("*")))):
        state = path.lstat()
        found[str(path)] = (state.st_mode, state.st_mtime_ns, path.read_bytes() if path.is_file() else b"")
    return found


def _shown(call: SampleCall) -> str:
    text = Json.of(call[1]).text
    return f"{call[0]}({text if len(text) <= 100 else f'{text[:100]}...'})"
