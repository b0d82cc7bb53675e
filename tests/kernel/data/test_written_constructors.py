"""What `value_classes` writes to make a value does what attrs does: for every class and field, and bad input."""

import enum
import gc
import pkgutil
from importlib import import_module
from typing import Any

import attrs
import pytest
from attrs.exceptions import FrozenInstanceError
from loopkernel import data, loop
from loopkernel.data import states
from loopkernel.data.blocks import TextBlock
from loopkernel.data.checked_fields import quick_look
from loopkernel.data.ids import ModelOperation
from loopkernel.data.model_deltas import ModelText
from loopkernel.data.sessions import OpenReply, Settings, Stamp
from loopkernel.data.value_classes import frozen, maker

# Any: classes are looked at as values, and their fields may be given anything.
Fields = tuple[Any, ...]

SAMPLES = (
    None,
    True,
    0,
    7,
    1.5,
    "text",
    "caf\u00e9",
    "\ud800",
    "end_turn",
    (),
    ("text",),
    ["text"],
    {"a": 1},
    object(),
)


def written_classes() -> list[Any]:
    """Every class of the data and the loop whose constructor is written."""
    modules = [
        import_module(found.name)
        for room in (data, loop)
        for found in pkgutil.walk_packages(room.__path__, f"{room.__name__}.")
    ]
    made = [
        value for module in modules for value in vars(module).values() if isinstance(value, type) and attrs.has(value)
    ]
    unique = {cls for cls in made if hasattr(cls.__init__, "__wrapped__")}
    return sorted(unique, key=lambda cls: (cls.__module__, cls.__qualname__))


def by_attrs(cls: Any, **given: object) -> Any:
    """What the constructor of attrs makes of the arguments."""
    value = object.__new__(cls)
    cls.__init__.__wrapped__(value, **given)
    return value


def parts(value: Any) -> list[object]:
    """What is in its fields."""
    return [getattr(value, field.name) for field in attrs.fields(type(value))]


def outcome(build: Any, cls: Any, given: dict[str, object]) -> object:
    """The value, by its parts, or how it is refused."""
    try:
        value = build(cls, **given)
    except (ValueError, TypeError) as error:
        return type(error), str(error)
    return type(value), parts(value)


def by_itself(cls: Any, **given: object) -> Any:
    """What the class makes of the arguments."""
    return cls(**given)


CLASSES = written_classes()
# A compiled kernel has native classes, which `test_value_classes` holds.
pytestmark = pytest.mark.skipif(not str(states.__file__).endswith(".py"), reason="no constructor is written")


def test_nearly_every_class_is_among_them() -> None:
    assert len(CLASSES) > 200
    assert {ModelText, OpenReply, states.Streaming, Stamp} <= set(CLASSES)
    assert Settings not in CLASSES  # two of its fields are filled by methods


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__qualname__)
def test_a_value_is_as_attrs_makes_it_whatever_a_field_is_given(cls: Any) -> None:
    fields: Fields = attrs.fields(cls)
    fitting = {field.alias: _fitting(field) for field in fields}
    made = maker(cls)
    for build in (by_itself, lambda _, **given: made(**given)):
        assert outcome(build, cls, fitting) == outcome(by_attrs, cls, fitting)
        assert type(build(cls, **fitting)) is cls
        for field in fields:
            for sample in SAMPLES:
                given = {**fitting, field.alias: sample}
                assert outcome(build, cls, given) == outcome(by_attrs, cls, given)
        demanded = {field.alias: fitting[field.alias] for field in fields if field.default is attrs.NOTHING}
        assert outcome(build, cls, demanded) == outcome(by_attrs, cls, demanded)


def _fitting(field: Any) -> object:
    """A value that the field takes."""
    look = quick_look(field)
    for kind in () if look is None else look.exact:
        if issubclass(kind, enum.Enum):
            return next(iter(kind))
        if attrs.has(kind):
            return object.__new__(kind)  # what it holds does not matter here
    for sample in SAMPLES if field.converter is not None else ():
        try:
            field.converter(sample)
        except (ValueError, TypeError):
            continue
        return sample
    return object()


def test_arguments_are_taken_as_they_are_named_and_placed() -> None:
    assert parts(OpenReply(ModelOperation(1), "m", limit=5))[3] == 5
    with pytest.raises(TypeError):
        OpenReply(ModelOperation(1), "m", surely_no_field=5)  # type: ignore[call-arg]  # that is what is tried
    with pytest.raises(TypeError):
        OpenReply(ModelOperation(1))  # type: ignore[call-arg]  # as above


@pytest.mark.parametrize(("base", "given"), [(OpenReply, {"operation": 1, "model": "m"}), (TextBlock, {"text": "t"})])
def test_a_class_derived_from_one_keeps_its_own_type(base: Any, given: dict[str, object]) -> None:
    derived = type("Derived", (base,), {})
    value = derived(**given)
    assert type(value) is derived
    assert parts(value) == parts(base(**given))
    with pytest.raises(FrozenInstanceError):
        setattr(value, next(iter(given)), None)


def test_what_is_refused_leaves_nothing_that_could_be_changed() -> None:
    half = object.__new__(states.Streaming)
    with pytest.raises(TypeError):
        states.Streaming.__init__(half)  # type: ignore[call-arg]  # that is what is tried
    assert type(half) is states.Streaming
    with pytest.raises(FrozenInstanceError):
        half.pieces = ()  # type: ignore[misc, assignment]  # as above


def test_a_class_of_the_data_counts_only_those_that_were_derived_from_it() -> None:
    before = set(OpenReply.__subclasses__())
    few, several = derived_from(OpenReply), derived_from(OpenReply, (_Mixin,))
    values = few(ModelOperation(1), "m"), several(ModelOperation(1), "m"), maker(several)(ModelOperation(1), "m")
    assert [type(value) for value in values] == [few, several, several]
    gc.collect()  # of what a class was before it got its slots
    assert set(OpenReply.__subclasses__()) - before == {few, several}


class _Mixin:
    """Another class, which is not of the data, to derive from."""

    __slots__ = ()


def derived_from(base: Any, others: tuple[type, ...] = ()) -> Any:
    """A class of the data that is derived from one, and adds nothing to it."""
    return frozen(type("Derived", (*others, base), {"__slots__": (), "__module__": __name__}))
