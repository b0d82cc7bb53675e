"""A plan: everything that a simulated world will do, as a list of events that was drawn from a seed.

A run takes nothing from chance but its plan. So any part of the list is a plan too, which is how a failure is shrunk.
"""

from collections.abc import Mapping

from attrs import Factory, evolve, frozen
from loopkernel.testing.scenarios.data.world import (
    Behaviour,
    HookFails,
    HookHangs,
    HookReplies,
    JsonValue,
    ModelEntry,
    ToolScript,
)


@frozen(kw_only=True)
class Reply:
    """What the next request gets. `oddity` is what is wrong with the stream, beyond what an entry can say."""

    entry: ModelEntry
    oddity: str = ""


@frozen(kw_only=True)
class Run:
    """What the next run of a tool does; `oddity` is what an honest tool would not do."""

    behaviour: Behaviour
    oddity: str = ""


@frozen(kw_only=True)
class Check:
    """The next check of a call goes wrong."""

    oddity: str


@frozen(kw_only=True)
class Answer:
    """What the next gated hook, summary, correction or handoff answers, `takes_ms` after it was asked."""

    outcome: HookReplies | HookFails | HookHangs = HookReplies()
    takes_ms: int = 0
    oddity: str = ""


@frozen(kw_only=True)
class Act:
    """What a person does at `at_ms`: `what` names it, `pick` chooses among the calls or messages that it may be about.

    `within` a step: posted by an observer, at the next event after that time.
    """

    at_ms: int
    what: str
    pick: int = 0
    text: str = ""
    within: bool = False


@frozen(kw_only=True)
class Crash:
    """The process dies at `at_ms`, for `down_ms`. Of the records that are not durable, the first `keep` survive.

    `hand`: meanwhile others have had the logs in their hands, so that no store vouches for them. "words": they have
    written words of a person into them, that allow whatever is open and whatever is to come; "none": nothing.
    """

    at_ms: int
    down_ms: int = 0
    keep: int = 0
    hand: str = ""


@frozen(kw_only=True)
class StoreFault:
    """The `nth` append from the beginning goes wrong: it fails, or the process dies before, within or after it."""

    nth: int
    what: str  # "fails", "dies before", "dies within", "dies after"
    keep: int = 0


@frozen(kw_only=True)
class Jump:
    """The clock is set by so many milliseconds, forward or back."""

    at_ms: int
    by_ms: int


@frozen(kw_only=True)
class Onlooker:
    """An observer that raises at the `nth` event."""

    nth: int


Item = Reply | Run | Check | Answer | Act | Crash | StoreFault | Jump | Onlooker


@frozen(kw_only=True)
class Plan:
    """A world. In a `lively` one the faults stop at `faults_until_ms`, and the session must then come to rest."""

    seed: int
    lively: bool
    preset: str
    options: Mapping[str, JsonValue]
    tools: Mapping[str, ToolScript]
    ends_ms: int
    faults_until_ms: int
    late_timers_ms: int = 0
    attentive: tuple[str, ...] = ()  # what a person says to each call that asks, in turn; none: nobody looks
    attention_ms: int = 0  # how long that takes
    reader_ms: int = 0  # how long a slow reader takes over each event; 0: there is none
    disk_ms: int | None = None  # how long an append may take; None: the store returns at once
    items: tuple[Item, ...] = Factory(tuple)

    def with_items(self, items: tuple[Item, ...]) -> "Plan":
        """The same world, with less in it."""
        return evolve(self, items=items)
