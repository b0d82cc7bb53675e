"""The context of a step, and its outcome."""

from typing import Generic, NamedTuple, TypeVar, final

from loopkernel.data.checked_fields import checked_fields
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import Effect
from loopkernel.data.events import Refused
from loopkernel.data.value_classes import frozen, maker

S_co = TypeVar("S_co", covariant=True)


@final
@frozen(field_transformer=checked_fields)
class Context:
    """What comes in: one delta, and the time at which it came, in milliseconds of any origin."""

    delta: Delta
    now_ms: int


new_context = maker(Context)


class Step(NamedTuple, Generic[S_co]):
    """What goes out: the next state and the effects, in order. Unpacks as the pair."""

    next: S_co
    effects: tuple[Effect, ...]


def is_refused(effects: tuple[Effect, ...]) -> bool:
    """Whether these are the effects of an input that was refused."""
    return len(effects) > 0 and isinstance(effects[0], Refused)
