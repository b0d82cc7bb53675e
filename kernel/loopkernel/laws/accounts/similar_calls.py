"""Whether the model repeats itself: an account of rule LIMIT-3 by which law PROGRESS judges, to be checked by eye."""

import re
from collections.abc import Collection, Iterator
from typing import final

from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.policy import LoopTiers

_PAGES = re.compile("offset|limit|page|cursor|after|before|start_line|end_line|next_page_token|page_token|skip")


@final
class Made:
    """A call that was made, of a reply; `alike` counts those that are kept and similar to it, itself among them."""

    def __init__(self, tool: str, given: Json | None, reply: int) -> None:
        self.tool = tool
        self.given = given
        self._value: JsonValue = None if given is None else given.value()
        self.reply = reply
        self.alike = 1

    def is_like(self, other: "Made") -> bool:
        """Whether the two do about the same."""
        if self.tool != other.tool or self.given is None or other.given is None:
            return False
        return are_similar(self._value, other._value)


@final
class SimilarCalls:
    """What was called since the user spoke last, which tools were noted, and when a disabled one is back."""

    def __init__(self, tiers: LoopTiers | None) -> None:
        self.tiers = tiers
        self.made: list[Made] = []
        self.noted: list[str] = []
        self.back_at: dict[str, int] = {}  # the number of the request that offers the tool again
        self.requests = 0

    def call(self, tool: str, given: Json | None, reply: int = 0) -> None:
        """The model has made a call; `given` is None when its input does not parse."""
        if self.tiers is None:
            return
        made = Made(tool, given, reply)
        gone = len(self.made) + 1 - self.tiers.window
        self._forget(self.made[: max(gone, 0)])
        for other in filter(made.is_like, self.made):
            other.alike += 1
            made.alike += 1
        self.made.append(made)

    def user_speaks(self) -> None:
        """The user has said something: all is counted anew, and what is disabled stays so."""
        self.made, self.noted = [], []

    def take_back(self, reply: int) -> None:
        """The reply is void, and its calls with it."""
        self._forget([made for made in self.made if made.reply == reply])

    def _forget(self, gone: list[Made]) -> None:
        self.made = [made for made in self.made if made not in gone]
        for one in gone:
            for other in filter(one.is_like, self.made):
                other.alike -= 1

    def request(self, polling: Collection[str]) -> list[tuple[str, str]]:
        """What is found before the next request: the tier's name, and the tool."""
        tiers = self.tiers
        if tiers is None:
            self._offer(list(self.back_at))
            return []
        counts = {tool: times for tool, times in self._counts(tiers).items() if tool not in polling}
        for tool, times in counts.items():
            if _reached(tiers.stop, times):
                return [("stop", tool)]
        self.requests += 1
        over = [tool for tool, back in self.back_at.items() if self.requests >= back or tool in polling]
        self._offer(over)
        return list(self._found(tiers, {tool: times for tool, times in counts.items() if tool not in over}))

    def _found(self, tiers: LoopTiers, counts: dict[str, int]) -> Iterator[tuple[str, str]]:
        for tool, times in counts.items():
            if tool in self.back_at:
                continue
            if _reached(tiers.disable, times):
                self.back_at[tool] = self.requests + tiers.disable_turns
                yield "disable", tool
            elif _reached(tiers.note, times) and tool not in self.noted:
                self.noted.append(tool)
                yield "note", tool

    def _counts(self, tiers: LoopTiers) -> dict[str, int]:
        """How often some call of each tool was made, or about the same, in the order of their first calls."""
        made, counts = self.made, dict[str, int]()
        looked_at = made[-tiers.window :]
        for one in looked_at:
            whole = len(looked_at) == len(made)
            alike = one.alike if whole else 1 + sum(one.is_like(other) for other in looked_at if other is not one)
            counts[one.tool] = max(counts.get(one.tool, 0), alike)
        return counts

    def _offer(self, tools: list[str]) -> None:
        """The tools are offered again, and all about them is forgotten."""
        for tool in tools:
            del self.back_at[tool]
        self.made = [made for made in self.made if made.tool not in tools]
        self.noted = [tool for tool in self.noted if tool not in tools]


def _reached(tier: int | None, times: int) -> bool:
    return tier is not None and times >= tier


def are_similar(left: JsonValue, right: JsonValue) -> bool:
    """Whether two inputs of one tool are similar."""
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
