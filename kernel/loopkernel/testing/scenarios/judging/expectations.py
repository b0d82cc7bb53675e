"""Whether a run did what its scenario expects: each key of `expect`, in the order of the format's table."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations

from loopkernel.data.states import Initial, State
from loopkernel.data.usage import NO_USAGE
from loopkernel.laws.views import ledger_in
from loopkernel.testing.scenarios.data.expectations import Expectations, ExpectedMoment, ExpectedTime
from loopkernel.testing.scenarios.data.world import JsonValue
from loopkernel.testing.scenarios.judging.messages import request_differences, result_differences, thread_differences
from loopkernel.testing.scenarios.player.call_names import CallNames
from loopkernel.testing.scenarios.player.recording import Recording, ToolRun, TraceLine
from loopkernel.testing.scenarios.trace import matches
from loopkernel.views.explain import interaction_of


def differences(expect: Expectations, run: Recording) -> Iterator[str]:
    """Everything in which the run differs from what is expected, a sentence each; the first is the one to read."""
    yield from _trace(expect.trace, run.lines)
    for pattern, wanted in expect.counts.items():
        found = sum(matches(pattern, line.text) for line in run.lines)
        if found != wanted:
            yield f"`counts`: expected {wanted} of `{pattern}`, saw {found}{_near(run.lines, pattern)}"
    for pattern in expect.never:
        yield from _never(pattern, run.lines, "`never`")
    for first, patterns in expect.after.items():
        start = next((i for i, line in enumerate(run.lines) if matches(first, line.text)), len(run.lines))
        for pattern in patterns:
            yield from _never(pattern, run.lines[start + 1 :], f"`after` `{first}`")
    yield from _overlaps(expect, run.runs)
    for call, value in expect.inputs.items():
        yield from _input(call, value, run.runs)
    for moment in expect.at:
        yield from _moment(moment, run)
    yield from request_differences(expect, run)
    yield from result_differences(expect, run)
    if expect.thread is not None:
        yield from thread_differences(expect.thread, run)
    yield from _end(expect, run)


# --- the trace --------------------------------------------------------------------------------------------


def _trace(expected: Sequence[str], lines: Sequence[TraceLine]) -> Iterator[str]:
    """The first expected line that does not come after those before it."""
    place = 0
    for number, pattern in enumerate(expected, 1):
        found = next((i for i in range(place, len(lines)) if matches(pattern, lines[i].text)), None)
        if found is None:
            since = f"after `{lines[place - 1].text}` at {lines[place - 1].at_ms} ms" if place else "at all"
            yield (
                f"`trace`: line {number}, `{pattern}`, did not come {since}; what came then: {_shown(lines[place:])}"
            )
            return
        place = found + 1


def _never(pattern: str, lines: Sequence[TraceLine], key: str) -> Iterator[str]:
    found = next((line for line in lines if matches(pattern, line.text)), None)
    if found is not None:
        yield f"{key}: expected no `{pattern}`, saw `{found.text}` at {found.at_ms} ms"


def _near(lines: Sequence[TraceLine], pattern: str) -> str:
    found = [f"{line.at_ms} ms" for line in lines if matches(pattern, line.text)]
    return f" (at {', '.join(found[:5])})" if found else f"; the trace: {_shown(lines)}"


def _shown(lines: Sequence[TraceLine]) -> str:
    """The first lines, for a sentence."""
    shown = ", ".join(f"`{line.text}`" for line in lines[:6])
    if not shown:
        return "nothing"
    return shown + (f" and {len(lines) - 6} more" if len(lines) > 6 else "")


# --- runs of tools ----------------------------------------------------------------------------------------


def _overlaps(expect: Expectations, runs: Sequence[ToolRun]) -> Iterator[str]:
    for group in expect.together:
        for one, other in combinations(group, 2):
            if not _overlap(one, other, runs):
                times = f"{one} ran {_times(one, runs)}, {other} ran {_times(other, runs)}"
                yield f"`together`: the runs of {one} and {other} did not overlap; {times}"
    for group in expect.apart:
        for one, other in combinations(group, 2):
            if _overlap(one, other, runs):
                times = f"{one} ran {_times(one, runs)}, {other} ran {_times(other, runs)}"
                yield f"`apart`: the runs of {one} and {other} overlapped; {times}"


def _overlap(one: str, other: str, runs: Sequence[ToolRun]) -> bool:
    """Whether any run of the one shares time with any run of the other; touching is apart."""
    return any(
        _starts_before_end(first, second) and _starts_before_end(second, first)
        for first in runs
        for second in runs
        if first.call == one and second.call == other
    )


def _starts_before_end(one: ToolRun, other: ToolRun) -> bool:
    return other.ended_ms is None or one.started_ms < other.ended_ms


def _times(call: str, runs: Sequence[ToolRun]) -> str:
    times = [
        f"from {run.started_ms} to {'the end' if run.ended_ms is None else run.ended_ms} ms"
        for run in runs
        if run.call == call
    ]
    return " and ".join(times) or "never"


def _input(call: str, wanted: JsonValue, runs: Sequence[ToolRun]) -> Iterator[str]:
    run = next((run for run in reversed(runs) if run.call == call), None)
    if run is None:
        yield f"`inputs`: {call} never ran, so its tool received no input"
    elif not _within(wanted, run.input.value()):
        yield f"`inputs`: expected {call} to receive {wanted!r}, its tool received {run.input.text}"


def _within(wanted: JsonValue, found: JsonValue) -> bool:
    """Whether all that is wanted is there: of mappings, the keys that are named; true is not 1."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return all(key in found and _within(wanted[key], found[key]) for key in wanted)
    if isinstance(wanted, list) and isinstance(found, list):
        return len(wanted) == len(found) and all(map(_within, wanted, found))
    if isinstance(wanted, bool) or isinstance(found, bool):
        return wanted is found
    return wanted == found


# --- moments ----------------------------------------------------------------------------------------------


def _moment(moment: ExpectedMoment, run: Recording) -> Iterator[str]:
    found = [line for line in run.lines if matches(moment.when, line.text)]
    where = f"`at` line {moment.nth} that matches `{moment.when}`"
    if len(found) < moment.nth:
        yield f"{where}: there is no such line; the trace: {_shown(run.lines)}"
        return
    line = found[moment.nth - 1]
    state = run.steps[line.step].after
    where = f"{where} ({line.at_ms} ms)"
    yield from _allowed(where, "state", moment.state, type(state).__name__)
    yield from _allowed(where, "interaction", moment.interaction, interaction_of(state).value)
    if moment.open is not None:
        yield from _open(where, moment.open, state, run.names)
    if moment.queue is not None:
        yield from _equal(where, "queued inputs", moment.queue, _queued(state))


def _end(expect: Expectations, run: Recording) -> Iterator[str]:
    """What holds at the end."""
    state, where = run.last_state, "at the end"
    yield from _allowed(where, "state", expect.state, type(state).__name__)
    yield from _allowed(where, "interaction", expect.interaction, interaction_of(state).value)
    reason = "no turn has ended" if run.last_end is None else run.last_end.value
    yield from _allowed(where, "reason", expect.reason, reason)
    usage = NO_USAGE if state.session is None else state.session.usage
    if expect.usage is not None and expect.usage.input is not None:
        yield from _equal(where, "input tokens", expect.usage.input, usage.input)
    if expect.usage is not None and expect.usage.output is not None:
        yield from _equal(where, "output tokens", expect.usage.output, usage.output)
    if expect.queue is not None:
        yield from _equal(where, "queued inputs", expect.queue, _queued(state))
    yield from _open(where, expect.open, state, run.names)
    if expect.elapsed_ms is not None:
        yield from _elapsed(expect.elapsed_ms, run.lines[-1].at_ms if run.lines else 0)


def _elapsed(expected: ExpectedTime, found: int) -> Iterator[str]:
    least, most = expected.min_ms or 0, expected.max_ms
    if found < least or (most is not None and found > most):
        wanted = f"{least} ms" if least == most else f"{least} to {'any' if most is None else most} ms"
        yield f"`elapsed_ms`: expected the last trace line at {wanted}, saw it at {found} ms"


def _allowed(where: str, what: str, allowed: Iterable[str], found: str) -> Iterator[str]:
    wanted = list(allowed)
    if wanted and found not in wanted:
        yield f"{where}: expected {what} {' or '.join(wanted)}, saw {found}"


def _equal(where: str, what: str, wanted: int, found: int) -> Iterator[str]:
    if wanted != found:
        yield f"{where}: expected {wanted} {what}, saw {found}"


def _open(where: str, wanted: Iterable[str], state: State, names: CallNames) -> Iterator[str]:
    ledger = state.ledger if isinstance(state, Initial) else ledger_in(state)
    entries = () if ledger is None else ledger.entries
    found = sorted(names.name_of(entry.call.id) for entry in entries if entry.is_open)
    if found != sorted(wanted):
        yield f"{where}: expected open calls {_listed(wanted)}, saw {_listed(found)}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _queued(state: State) -> int:
    return 0 if state.session is None else len(state.session.inbox.queue)
