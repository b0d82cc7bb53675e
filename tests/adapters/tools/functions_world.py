"""Typed functions with every kind of parameter, made tools, for the tests of both what they take and how they run."""

import dataclasses
import datetime
import enum
import json
from typing import Annotated, Literal

import attrs
import pydantic
from loopkernel_adapters.tools.functions import tool
from loopkernel_adapters.tools.input_schema import InputSchema, JsonObject
from typing_extensions import TypedDict


class Colour(enum.Enum):
    """A choice."""

    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    """Two numbers."""

    x: int
    y: float = 0.5


class Order(pydantic.BaseModel):
    """Something with parts."""

    number: int
    points: list[Point] = []


class Options(TypedDict, total=False):
    """What may be chosen."""

    deep: bool


@attrs.frozen
class Found:
    """A value of attrs."""

    order: Order
    at: datetime.date


def everything(
    count: int,
    share: float,
    name: str,
    sure: bool,
    colour: Colour,
    kind: Literal["a", "b"],
    point: Point,
    order: Order,
    options: Options,
    numbers: list[int],
    pair: tuple[int, str],
    table: dict[str, float],
    either: int | str | None = None,
    most: Annotated[int, pydantic.Field(ge=1, le=9)] = 3,
) -> str:
    """Take one of each."""
    values = (count, share, name, sure, colour, kind, point, order, numbers, pair, table, either, most)
    assert [type(value) for value in values[:6]] == [int, float, str, bool, Colour, str]
    assert [type(value) for value in (point, order, pair)] == [Point, Order, tuple]
    return json.dumps([count, share, name, sure, colour.value, point.x, order.number, pair, most])


GOOD: JsonObject = {
    "count": 3,
    "share": 1,
    "name": "n",
    "sure": True,
    "colour": "red",
    "kind": "a",
    "point": {"x": 1},
    "order": {"number": 2, "points": [{"x": 3, "y": 2}]},
    "options": {"deep": False},
    "numbers": [1, 2],
    "pair": [1, "b"],
    "table": {"a": 0.5},
}
EVERYTHING = tool(everything)
SCHEMA = InputSchema(EVERYTHING.tool.input_schema.value())


class Unknown:
    """A type that nobody can check."""
