"""Shapes of attrs classes: objects with a key for each field.

A field that equals its default is left out and filled in again; so another default is another format.
"""

import enum
from collections.abc import Callable
from typing import Any

from attrs import NOTHING, Attribute, Factory, frozen

from loopkernel.codec.shapes import Misfit, Shape
from loopkernel.data.errors import CodecError, DataError, Fault, PolicyError
from loopkernel.data.json_text import JsonValue, canonical_text

TAG = "type"  # the key by which the members of a union are told apart
ABSENT = "absent"  # marks a field whose absence means another value than the default: that of the first release

# Any, here and below: classes and fields are known only at run time.


@frozen(kw_only=True)
class Field:
    """A field of an attrs class, and the shape of its values. Its key is its name in the constructor."""

    attribute: "Attribute[Any]"  # quoted: generic only for the type checker
    shape: Shape

    @property
    def key(self) -> str:
        """The key of the field in the object."""
        return self.attribute.alias or self.attribute.name

    def default(self) -> Any:
        """The value that is left out: what the constructor fills in, unless the field says otherwise.

        NOTHING if the constructor needs one, or makes one from other fields.
        """
        if ABSENT in self.attribute.metadata:
            return self.attribute.metadata[ABSENT]
        default: Any = self.attribute.default  # Any: a default of a field, of whatever type
        if isinstance(default, Factory):  # type: ignore[arg-type]  # a class, declared as a function for inference
            return NOTHING if default.takes_self else default.factory()
        return default

    @property
    def required(self) -> bool:
        """Whether the constructor needs a value."""
        return self.attribute.default is NOTHING


def record_shape(cls: type, tag: str | None, fields: tuple[Field, ...]) -> Shape:
    """An attrs class as an object, which begins with its tag if it has one."""
    return Shape(
        name=f"an object ({cls.__name__})",
        python_types=(cls,),
        json_types=(dict,),
        write=_writer(cls, tag, fields),
        read=_reader(cls, tag, fields),
    )


def _writer(cls: type, tag: str | None, fields: tuple[Field, ...]) -> Callable[[Any], JsonValue]:
    plan = [
        (field.attribute.name, field.key, field.default(), _default_test(field), field.shape.as_is, field.shape.write)
        for field in fields
    ]

    def write(value: Any) -> JsonValue:  # Any: an instance of cls, known at run time
        if type(value) is not cls:
            raise Misfit.instead(f"a {cls.__name__}", value)
        written: dict[str, JsonValue] = {} if tag is None else {TAG: tag}
        misfit: Misfit | None = None
        for name, key, default, equals_default, as_is, write_field in plan:
            item = getattr(value, name)
            if item is default:
                continue
            try:
                if equals_default is None or not equals_default(item):
                    written[key] = item if type(item) in as_is else write_field(item)
            except Misfit as part:
                misfit = part.joined(key, misfit)
        if misfit is not None:
            raise misfit
        return written

    return write


def _default_test(field: Field) -> Callable[[Any], bool] | None:
    """Tells the values, other than the default itself, that equal it to the last byte. None: there are none."""
    default = field.default()
    write = field.shape.write
    kind = type(default)
    if default is NOTHING or default is None or isinstance(default, bool | enum.Enum):
        return None
    if kind is int or kind is str:
        return lambda item: type(item) is kind and item == default
    # Equal is not enough in the depth of a value: 0.0 == -0.0, 1 == True. What equals it can be written as it can.
    return lambda item: item == default and canonical_text(write(item)) == canonical_text(write(default))


def _reader(cls: type, tag: str | None, fields: tuple[Field, ...]) -> Callable[[JsonValue], Any]:
    readers = {field.key: (field.shape.as_is, field.shape.read) for field in fields}
    required = {field.key: None for field in fields if field.required}.keys()  # a set, in order
    known = ", ".join(readers) or "none"
    absent = {field.key: field.default() for field in fields if ABSENT in field.attribute.metadata}

    def read(value: JsonValue) -> Any:
        if type(value) is not dict:
            raise Misfit.instead(f"an object ({cls.__name__})", value)
        arguments = dict(absent)
        misfit: Misfit | None = None
        for key, item in value.items():
            found = readers.get(key)
            if found is None:
                if key != TAG or tag is None:
                    unknown = Misfit(f"is not a key of {cls.__name__}, whose keys are: {known}")
                    misfit = unknown.joined(key, misfit)
                continue
            as_is, read_field = found
            if type(item) in as_is:
                arguments[key] = item
                continue
            try:
                arguments[key] = read_field(item)
            except Misfit as part:
                misfit = part.joined(key, misfit)
        for key in required:
            if key not in value:
                misfit = Misfit(f"is missing in this {cls.__name__}").joined(key, misfit)
        if misfit is None:
            return _built(cls, fields, arguments)
        # What is wrong besides? Where a bad field has a default, the constructor can still tell.
        try:
            if arguments.keys() >= required:
                _built(cls, fields, arguments)
            elif faults := _field_faults(fields, arguments):
                raise Misfit.by_constructor(faults)
        except Misfit as more:
            misfit.troubles += more.troubles
        raise misfit

    return read


def _built(cls: type, fields: tuple[Field, ...], arguments: dict[str, Any]) -> Any:
    """The value, if its constructor takes the arguments."""
    try:
        return cls(**arguments)
    except (CodecError, PolicyError) as error:
        raise Misfit.by_constructor(error.faults) from None
    except (ValueError, TypeError) as error:  # what validators raise
        faults = _field_faults(fields, arguments) or [Fault("$", _words_of(error))]
        raise Misfit.by_constructor(faults) from None


def _field_faults(fields: tuple[Field, ...], arguments: dict[str, Any]) -> list[Fault]:
    """The fields whose own validators refuse their values. The constructor stops at the first and names none."""
    faults = []
    for field in fields:
        validate = field.attribute.validator
        if validate is None or field.key not in arguments:
            continue
        try:
            validate(None, field.attribute, arguments[field.key])
        except AttributeError:
            continue  # it looks at the other fields: the constructor tells
        except (ValueError, TypeError) as error:
            faults.append(Fault(f"$.{field.key}", _words_of(error)))
    return faults


def _words_of(error: Exception) -> str:
    if isinstance(error, DataError):
        return error.faults[0].problem
    return str(error.args[0]) if error.args else f"is refused: {type(error).__name__}"
