"""What a judge says of a law in a scenario: that it held there, or what was wrong and how bad that is."""

from collections.abc import Callable, Iterator
from typing import TypeAlias

from attrs import frozen

from loopkernel_adapters.conform.record import Record
from loopkernel_adapters.conform.scorecard import Weight


@frozen
class Judgement:
    """One check of a law. Without a weight it held."""

    law: str
    weight: Weight | None = None
    detail: str = ""


Judge: TypeAlias = Callable[[Record], Iterator[Judgement]]


def check(law: str, wrong: bool, weight: Weight, detail: str) -> Judgement:
    """The judgement of a check."""
    return Judgement(law, weight, detail) if wrong else Judgement(law)
