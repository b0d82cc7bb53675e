"""What a scenario is: the lives of an agent, and what the model answers in them."""

import enum

from attrs import frozen

from loopkernel_adapters.conform.script import Answer

PROMPT = "say-{number}: do what the model says, and nothing else"


class End(enum.Enum):
    """How a life ends."""

    BY_ITSELF = "by itself"
    CANCELLED = "cancelled"  # as a person does, by a signal
    KILLED = "killed"  # at once, with all that it has started


@frozen(kw_only=True)
class Life:
    """A process of the agent, which is given one prompt; the first is begun, each other goes on with the session.

    One that does not end by itself is ended when the command of the call `within` has begun.
    """

    end: End = End.BY_ITSELF
    within: str | None = None


@frozen(kw_only=True)
class Scenario:
    """A world that can be played from outside. `laws` are those that it is made for; every judge sees each world.

    `patience_s` is how long a life that ends by itself may at least be at rest and ask for nothing.
    """

    name: str
    about: str
    laws: tuple[str, ...]
    answers: tuple[Answer, ...]
    lives: tuple[Life, ...] = (Life(),)
    patience_s: int = 0
    quick: bool = True  # whether it is one of those that take seconds


def prompt_of(life: int) -> str:
    """What is said in a life, which is found again in requests."""
    return PROMPT.format(number=life + 1)


def marker_of(life: int) -> str:
    """The part of it that is looked for."""
    return f"say-{life + 1}:"
