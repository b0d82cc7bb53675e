"""Whether the model repeats itself, slow and obvious: a second opinion on rule LIMIT-3, to be checked by eye.

No code is shared with the kernel.
"""

import re
from collections.abc import Collection

from attrs import Factory, define

from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.policy import LoopTiers

_PAGES = re.compile("offset|limit|page|cursor|after|before|start_line|end_line|next_page_token|page_token|skip")


@define
class SlowLoopDetection:
    """A turn since its last user message, as it was seen: each call, and when each tool is offered again."""

    tiers: LoopTiers | None
    made: list[tuple[str, Json | None]] = Factory(list)
    told_of: list[str] = Factory(list)
    back_at: dict[str, int] = Factory(dict)  # the number of the request that offers the tool again
    requests: int = 0

    def call(self, tool: str, given: Json | None) -> None:
        """The model has made a call; `given` is None when its input does not parse."""
        if self.tiers is not None:
            self.made = [*self.made, (tool, given)][-self.tiers.window :]

    def request(self, polling: Collection[str]) -> list[tuple[str, str]]:
        """What is found before the next request: the tier's name, and the tool."""
        tiers = self.tiers
        if tiers is None:
            return []
        tools: list[str] = []
        for tool, _ in self.made:
            if tool not in tools and tool not in polling:
                tools.append(tool)
        for tool in tools:
            if _reached(tiers.stop, self.repeated(tool)):
                return [("stop", tool)]
        self.requests += 1
        for tool in list(self.back_at):
            if self.requests >= self.back_at[tool] or tool in polling:
                del self.back_at[tool]
                self.told_of = [other for other in self.told_of if other != tool]
                self.made = [call for call in self.made if call[0] != tool]
        found: list[tuple[str, str]] = []
        for tool in tools:
            times = self.repeated(tool)
            if tool in self.back_at:
                continue
            if _reached(tiers.disable, times):
                self.back_at[tool] = self.requests + tiers.disable_turns
                found.append(("disable", tool))
            elif _reached(tiers.note, times) and tool not in self.told_of:
                self.told_of.append(tool)
                found.append(("note", tool))
        return found

    def repeated(self, tool: str) -> int:
        """How often some call of the tool was made, or about the same."""
        calls = [given for name, given in self.made if name == tool]
        others = [[call for call in range(len(calls)) if call != one] for one in range(len(calls))]
        similar = [
            len([other for other in others[one] if about_the_same(calls[one], calls[other])])
            for one in range(len(calls))
        ]
        return 1 + max(similar) if similar else 0


def _reached(tier: int | None, times: int) -> bool:
    return tier is not None and times >= tier


def about_the_same(one: Json | None, other: Json | None) -> bool:
    """Whether two inputs of one tool are similar."""
    if one is None or other is None:
        return False
    left, right = one.value(), other.value()
    if _equal(left, right):
        return True
    if not isinstance(left, dict) or not isinstance(right, dict) or sorted(left) != sorted(right):
        return False
    different = [key for key in left if not _equal(left[key], right[key])]
    if all(_PAGES.fullmatch(key) for key in different):
        return False
    return len(left) - len(different) >= len(different)


def _equal(one: JsonValue, other: JsonValue) -> bool:
    """Whether two values are the same JSON: part by part, and a number only if it is written the same."""
    if isinstance(one, dict) and isinstance(other, dict):
        return sorted(one) == sorted(other) and all(_equal(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_equal, one, other))
    return type(one) is type(other) and repr(one) == repr(other)
