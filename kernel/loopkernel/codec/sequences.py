"""Shapes of sequences: tuples of any and of fixed length, and whatever else is built from its items."""

from collections.abc import Callable, Iterable
from typing import Any

from loopkernel.codec.shapes import Misfit, Shape
from loopkernel.data.errors import MAX_FAULTS
from loopkernel.data.json_text import JsonValue

# Any, here and below: the types of the items are known only at run time.


def sequence_shape(kind: type, item: Shape, build: Callable[[Iterable[Any]], Any]) -> Shape:
    """A sequence or set of any length, as a list. `build` makes it from its items."""
    write_item, read_item = item.write, item.read

    def write(value: Any) -> JsonValue:  # Any: items of a type known at run time
        items: Iterable[Any] = value
        if type(value) is not kind:
            raise Misfit.instead(f"a {kind.__name__}", value)
        return _each(write_item, items)

    def read(value: JsonValue) -> Any:
        if type(value) is not list:
            raise Misfit.instead("a list", value)
        return build(_each(read_item, value))

    return Shape(name="a list", python_types=(kind,), json_types=(list,), write=write, read=read)


def fixed_tuple_shape(items: tuple[Shape, ...]) -> Shape:
    """A tuple with a type for each place, as a list of the same length."""
    writers = [item.write for item in items]
    readers = [item.read for item in items]
    name = f"a list of {len(items)}"

    def write(value: Any) -> JsonValue:  # Any: items of a type known at run time
        if type(value) is not tuple or len(value) != len(items):
            raise Misfit.instead(f"a tuple of {len(items)}", value)
        return _each(_convert_pair, zip(writers, value, strict=True))

    def read(value: JsonValue) -> Any:
        if type(value) is not list:
            raise Misfit.instead(name, value)
        if len(value) != len(items):
            raise Misfit(f"must be {name}, not of {len(value)}")
        return tuple(_each(_convert_pair, zip(readers, value, strict=True)))

    return Shape(name=name, python_types=(tuple,), json_types=(list,), write=write, read=read)


def _convert_pair(pair: tuple[Callable[[Any], Any], Any]) -> Any:
    convert, item = pair
    return convert(item)


def _each(convert: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
    """The items converted; what does not fit in any of them is told together."""
    converted = []
    misfit: Misfit | None = None
    for index, item in enumerate(items):
        try:
            converted.append(convert(item))
        except Misfit as part:
            misfit = part.joined(index, misfit)
            if len(misfit.troubles) > MAX_FAULTS:
                break
    if misfit is not None:
        raise misfit
    return converted
