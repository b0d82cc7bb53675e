"""What was seen of an agent in a scenario: its requests, the effects of its commands, and its lives, in one order."""

from attrs import frozen

from loopkernel_adapters.conform.asked import Asked
from loopkernel_adapters.conform.scenario import Scenario
from loopkernel_adapters.conform.script import Answer, Called, Reply


@frozen(kw_only=True)
class Exchange:
    """A request of the agent's conversation with its answer. Times are in seconds, of one clock."""

    number: int
    life: int
    at_s: float
    answered_s: float
    asked: Asked
    answer: Answer


@frozen
class Effect:
    """A line that a command has written: `part`, `begin` or `end`, and the label of its call."""

    word: str
    label: str


@frozen(kw_only=True)
class LifeSeen:
    """A process of the agent: how it ended, and what there was when it was signalled."""

    status: int | None  # None: it had to be ended, since it went on
    signalled: bool = False
    exchanges: int = 0  # of the conversation, when it was signalled
    effects: int = 0
    patience_s: int = 0  # how long it was waited for
    last_words: str = ""  # the end of what it said


@frozen(kw_only=True)
class Record:
    """All of it. `asides` counts requests beside the conversation, `summaries` tells before which exchange each was."""

    scenario: Scenario
    exchanges: tuple[Exchange, ...] = ()
    effects: tuple[Effect, ...] = ()
    lives: tuple[LifeSeen, ...] = ()
    asides: int = 0
    summaries: tuple[int, ...] = ()
    offered: tuple[str, ...] = ()  # the tools of the agent, where none of them runs commands

    def count(self, word: str, label: str) -> int:
        """How often a command has written this."""
        return self.effects.count(Effect(word, label))

    def of_life(self, life: int) -> tuple[Exchange, ...]:
        """The exchanges of a life."""
        return tuple(each for each in self.exchanges if each.life == life)

    @property
    def delivered(self) -> tuple[tuple[Exchange, Reply, Called], ...]:
        """Each call that was sent to the agent."""
        return tuple(
            (each, each.answer, call)
            for each in self.exchanges
            if isinstance(each.answer, Reply)
            for call in each.answer.calls
        )
