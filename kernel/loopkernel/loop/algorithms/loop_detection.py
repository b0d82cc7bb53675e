"""Whether the model repeats itself (rule LIMIT-3): the same tool, again and again, with similar input.

Plain data in, plain data out, usable alone: `watch_call` for each call, `assess` before each request, and a new
`Watch()` at each user message.
"""

from collections.abc import Collection, Sequence
from operator import eq
from typing import final

from attrs import evolve

from loopkernel.data.policy import LoopTiers
from loopkernel.data.value_classes import frozen
from loopkernel.data.watches import DisabledTool, Watch, WatchedCall

# Calls that differ in nothing else go through something page by page.
PAGINATION_KEYS = frozenset(
    {
        "after",
        "before",
        "cursor",
        "end_line",
        "limit",
        "next_page_token",
        "offset",
        "page",
        "page_token",
        "skip",
        "start_line",
    }
)


@final
@frozen
class Noted:
    """The model is to be told that it repeats itself."""

    tool: str


@final
@frozen
class Disabled:
    """The tool is not offered from this request on."""

    tool: str


@final
@frozen
class Stopped:
    """The turn is to end."""

    tool: str


Finding = Noted | Disabled | Stopped


def similar(one: WatchedCall, other: WatchedCall) -> bool:
    """Whether two calls do about the same; input that does not parse is similar to nothing."""
    (keys, values), (other_keys, other_values) = one.parts, other.parts
    if one.tool != other.tool or keys != other_keys or one.input is None or other.input is None:
        return False
    if values == other_values:
        return True
    if keys is None or 2 * sum(map(eq, values, other_values)) < len(values):
        return False
    differing = (key for key, mine, its in zip(keys, values, other_values, strict=True) if mine != its)
    return any(key not in PAGINATION_KEYS for key in differing)


def count(calls: Sequence[WatchedCall], tool: str) -> int:
    """How often the tool was called alike: the most calls of it that are similar to one of them, itself counted."""
    of_tool = [call for call in calls if call.tool == tool]
    return max((1 + sum(similar(one, other) for other in of_tool if other is not one) for one in of_tool), default=0)


def watch_call(watch: Watch, call: WatchedCall, window: int) -> Watch:
    """The watch with one more call; only the last `window` calls are kept, of whatever tools."""
    forgotten = max(len(watch.calls) + 1 - window, 0)
    calls = _without(list(watch.calls[forgotten:]), watch.calls[:forgotten])
    alike, several = 1, len(call.parts[1]) > 1  # what holds one value is similar only to what holds the same
    for place, other in enumerate(calls):
        if (several or call.parts == other.parts) and similar(call, other):
            alike += 1
            calls[place] = evolve(other, alike=other.alike + 1)
    return Watch(
        calls=(*calls, call if alike == 1 else evolve(call, alike=alike)),
        noted=watch.noted,
        disabled=watch.disabled,
        due=watch.due,
    )


def forget_calls(watch: Watch, latest: int) -> Watch:
    """The watch without so many of the latest calls."""
    place = max(len(watch.calls) - latest, 0)
    return evolve(watch, calls=tuple(_without(list(watch.calls[:place]), watch.calls[place:])))


def _without(calls: list[WatchedCall], forgotten: Sequence[WatchedCall]) -> list[WatchedCall]:
    """The calls when others are forgotten, which count no more."""
    for gone in forgotten:
        if gone.alike > 1:
            calls = [evolve(other, alike=other.alike - 1) if similar(gone, other) else other for other in calls]
    return calls


def is_disabled(watch: Watch, tool: str) -> bool:
    """Whether the tool is not offered for now, so that a call to it is answered with an error."""
    return bool(watch.disabled) and tool in [disabled.tool for disabled in watch.disabled]


def assess(watch: Watch, tiers: LoopTiers | None, exempt: Collection[str]) -> tuple[Watch, tuple[Finding, ...]]:
    """What the calls so far mean for the request that is about to be made, and the watch after it.

    The tools' disabled rounds go down first. Where one is offered again, its calls and its note are forgotten. The
    stop tier is tested before that; where it is reached no request is made, and the watch stays as it is.
    """
    if tiers is None:
        return _offer_again(watch, [disabled.tool for disabled in watch.disabled]), ()
    counts = _counts(watch.calls, tiers, exempt)
    if tiers.stop is not None:
        for tool, times in counts.items():
            if times >= tiers.stop:
                return watch, (Stopped(tool),)
    if watch.disabled:
        watch = _next_round(watch, exempt)
        counts = {tool: times for tool, times in counts.items() if any(call.tool == tool for call in watch.calls)}
    findings: list[Finding] = []
    for tool, times in counts.items():
        if is_disabled(watch, tool):
            continue
        if tiers.disable is not None and times >= tiers.disable:
            findings.append(Disabled(tool))
            watch = evolve(watch, disabled=(*watch.disabled, DisabledTool(tool, tiers.disable_turns)))
        elif tiers.note is not None and times >= tiers.note and tool not in watch.noted:
            findings.append(Noted(tool))
            watch = evolve(watch, noted=(*watch.noted, tool))
    return watch, tuple(findings)


def _counts(calls: Sequence[WatchedCall], tiers: LoopTiers, exempt: Collection[str]) -> dict[str, int]:
    """The count of each tool that may have reached a tier, in the order of their first calls."""
    lowest = min([tier for tier in (tiers.note, tiers.disable, tiers.stop) if tier is not None], default=None)
    if lowest is None or max([call.alike for call in calls], default=0) < lowest:
        return {}
    counts: dict[str, int] = {}
    if len(calls) > tiers.window:  # policy looks less far back than when the calls were made
        calls = calls[-tiers.window :]
        counts = {call.tool: count(calls, call.tool) for call in calls}
    else:
        for call in calls:
            counts[call.tool] = max(counts.get(call.tool, 0), call.alike)
    return {tool: times for tool, times in counts.items() if times >= lowest and tool not in exempt}


def _next_round(watch: Watch, exempt: Collection[str]) -> Watch:
    """One request more: tools whose rounds are over, or that are now exempt, are offered again."""
    lowered = [DisabledTool(disabled.tool, disabled.rounds - 1) for disabled in watch.disabled]
    over = [disabled.tool for disabled in lowered if disabled.rounds < 1 or disabled.tool in exempt]
    return _offer_again(evolve(watch, disabled=tuple(lowered)), over)


def _offer_again(watch: Watch, tools: Collection[str]) -> Watch:
    """The watch that has forgotten all about these tools."""
    if not tools:
        return watch
    return Watch(
        calls=tuple(call for call in watch.calls if call.tool not in tools),
        noted=tuple(tool for tool in watch.noted if tool not in tools),
        disabled=tuple(disabled for disabled in watch.disabled if disabled.tool not in tools),
        due=watch.due,
    )
