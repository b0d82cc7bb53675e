"""The data is frozen all the way down: every class, and every type of every field, and every sealed union."""

import enum
import pkgutil
import types
from collections.abc import Iterator
from fractions import Fraction
from importlib import import_module
from typing import (
    Any,
    Generic,
    Literal,
    NewType,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

import attrs
import loopkernel
import pytest
from attrs import field, frozen
from attrs.exceptions import FrozenInstanceError
from loopkernel import data
from loopkernel.data import deltas, effects, events, states, steps
from loopkernel.data.children import Reservation
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import FromModel, ModelDelta
from loopkernel.data.outside_deltas import FromOutside, OutsideDelta, TimerFired
from loopkernel.data.policy import Policy
from loopkernel.data.records import LogRecord, StepRecord
from loopkernel.data.text_map import TextMap
from loopkernel.data.thread_deltas import FromThread, ThreadDelta
from loopkernel.data.tool_deltas import FromTool, ToolDelta
from loopkernel.data.user_deltas import (
    AnswersCall,
    CallAnswer,
    ChangesSettings,
    FromUser,
    SettingsChange,
    UserDelta,
)
from loopkernel.data.vector import GrowingSet, Vector

Hint = object  # a type, seen as a value

# Persistent collections: they are frozen if what they hold is. How they are built inside, their own tests judge.
COLLECTIONS = (Vector, GrowingSet, TextMap)
SIMPLE: tuple[Hint, ...] = (None, type(None), bool, int, float, str, bytes, Fraction)
# What everything that crosses the border of the kernel is made of.
ROOTS: tuple[Hint, ...] = (states.State, deltas.Delta, effects.Effect, steps.Context, LogRecord, StepRecord)
# The base class of each family, and the union of all that belongs to it.
FAMILIES: tuple[tuple[type, Hint], ...] = (
    (FromModel, ModelDelta),
    (FromTool, ToolDelta),
    (FromUser, UserDelta),
    (FromOutside, OutsideDelta),
    (FromThread, ThreadDelta),
    (AnswersCall, CallAnswer),
    (ChangesSettings, SettingsChange),
)


# --- what is looked at ----------------------------------------------------------------------------------


def modules_of(package: types.ModuleType) -> list[types.ModuleType]:
    """The package's modules, but for those of the testing room."""
    names = (found.name for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."))
    return [import_module(name) for name in names if not name.startswith("loopkernel.testing")]


def attrs_classes(package: types.ModuleType) -> list[type]:
    """Every attrs class that the package's modules define."""
    found = {
        value
        for module in modules_of(package)
        for value in vars(module).values()
        if isinstance(value, type) and attrs.has(value) and value.__module__ == module.__name__
    }
    return sorted(found, key=lambda cls: (cls.__module__, cls.__qualname__))


def unions(package: types.ModuleType) -> dict[str, tuple[Hint, ...]]:
    """The unions that have a name in the package's modules, and their members."""
    return {
        f"{module.__name__}.{name}": get_args(value)
        for module in modules_of(package)
        for name, value in vars(module).items()
        if isinstance(value, types.UnionType)
    }


def attrs_class_of(hint: Hint) -> type | None:
    """The attrs class behind a hint, a parameter filled in or not."""
    origin = get_origin(hint) or hint
    return origin if isinstance(origin, type) and attrs.has(origin) else None


# --- the checks -----------------------------------------------------------------------------------------


def class_faults(cls: type) -> Iterator[str]:
    """In what way the instances of the class can be changed."""
    name = cls.__qualname__
    fields = attrs.fields(cls)
    instance: object = object.__new__(cls)
    for attribute in fields:
        try:
            setattr(instance, attribute.name, None)
            yield f"{name}.{attribute.name} can be set"
        except FrozenInstanceError:
            pass  # as it should be
        if isinstance(attribute.default, list | dict | set | bytearray):
            yield f"{name}.{attribute.name} has a default that can be changed"
    try:
        object.__setattr__(instance, "surely_no_field", None)
        yield f"{name} takes any attribute: it has no slots"
    except AttributeError:
        pass  # as it should be


def type_faults(hint: Hint, path: str, seen: set[Hint]) -> Iterator[str]:
    """The parts of a type whose values can be changed, each with the way there; `seen` is brought up to date."""
    if isinstance(hint, NewType):
        yield from type_faults(hint.__supertype__, path, seen)
        return
    origin, arguments = get_origin(hint), get_args(hint)
    cls = attrs_class_of(hint)
    if hint in SIMPLE or origin is Literal or isinstance(hint, TypeVar):
        return
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return
    if origin in (Union, types.UnionType, tuple, frozenset, *COLLECTIONS) and arguments:
        for argument in arguments:
            if argument is not Ellipsis:
                yield from type_faults(argument, path, seen)
        return
    for argument in arguments:
        yield from type_faults(argument, path, seen)
    if cls is None:
        yield f"{path}: {hint} is not known to be frozen"
    elif cls not in seen:
        seen.add(cls)
        yield from class_faults(cls)
        for name, inner in field_types(cls).items():
            yield from type_faults(inner, f"{cls.__qualname__}.{name}", seen)


def field_types(cls: type) -> dict[str, Hint]:
    """The types of the fields of an attrs class."""
    hints = get_type_hints(cls)
    return {attribute.name: hints[attribute.name] for attribute in attrs.fields(cls)}


def ways_to_float(hint: Hint, path: str, seen: set[Hint]) -> Iterator[str]:
    """The ways by which a value of the type can hold a float, but for those through the policy, or a share of it."""
    if isinstance(hint, NewType):
        hint = hint.__supertype__
    cls = attrs_class_of(hint)
    if hint is float:
        yield path
    for argument in get_args(hint):
        yield from ways_to_float(argument, path, seen)
    if cls is not None and cls not in (Policy, Reservation, *COLLECTIONS) and cls not in seen:
        seen.add(cls)
        for name, inner in field_types(cls).items():
            yield from ways_to_float(inner, f"{cls.__qualname__}.{name}", seen)


def is_final(cls: type) -> bool:
    """Whether the class says that nothing inherits from it."""
    return "__final__" in vars(cls)


def members_below(base: type) -> set[type]:
    """The final classes that inherit from the base, however far below."""
    below: list[type] = base.__subclasses__()
    return {member for cls in below for member in ({cls} if is_final(cls) else members_below(cls))}


# --- the tree keeps the rules ---------------------------------------------------------------------------


@pytest.mark.rule("STATE-1")
def test_every_class_of_the_kernel_is_frozen_and_has_slots() -> None:
    classes = attrs_classes(loopkernel)
    assert len(classes) > 200
    assert [fault for cls in classes for fault in class_faults(cls)] == []


@pytest.mark.rule("STATE-1")
@pytest.mark.parametrize("root", ROOTS, ids=str)
def test_everything_that_crosses_the_border_is_frozen_all_the_way(root: Hint) -> None:
    assert list(type_faults(root, "root", set())) == []


def test_every_public_class_of_the_data_is_frozen_all_the_way() -> None:
    """What is private never leaves its module; what does leave is walked from the roots."""
    public = [cls for cls in attrs_classes(data) if not cls.__name__.startswith("_") and cls not in COLLECTIONS]
    assert len(public) > 150
    assert [fault for cls in public for fault in type_faults(cls, "", set())] == []


@pytest.mark.parametrize("name", unions(data))
def test_every_class_of_a_sealed_union_is_final(name: str) -> None:
    classes = [cls for cls in map(attrs_class_of, unions(data)[name]) if cls is not None and cls is not Json]
    assert [cls.__qualname__ for cls in classes if not is_final(cls)] == []
    assert [cls.__qualname__ for cls in classes if cls.__subclasses__()] == []


@pytest.mark.rule("DELTA-4")
@pytest.mark.parametrize(("base", "union"), FAMILIES, ids=lambda part: getattr(part, "__name__", ""))
def test_a_family_is_exactly_its_union(base: type, union: Hint) -> None:
    assert members_below(base) == set(get_args(union))


@pytest.mark.rule("DELTA-4")
def test_a_delta_belongs_to_one_family() -> None:
    bases = (FromModel, FromTool, FromUser, FromOutside, FromThread, TimerFired)
    members: tuple[type, ...] = get_args(deltas.Delta)
    for cls in members:
        assert [base for base in bases if issubclass(cls, base)] == [cls if cls is TimerFired else cls.__mro__[-2]]


def test_an_effect_is_a_command_or_an_event() -> None:
    commands, told = set(get_args(effects.Command)), set(get_args(events.Event))
    assert commands & told == set()
    assert commands | told == set(get_args(effects.Effect))


@pytest.mark.rule("STATE-1")
def test_every_class_of_the_states_is_a_state() -> None:
    parts = {states.AfterModel, states.AtRest}
    classes = {cls for cls in attrs_classes(data) if cls.__module__ == states.__name__} - parts
    assert classes == set(get_args(states.State))
    assert set(get_args(states.Live)) == classes - {states.Initial}


def test_a_state_holds_no_float_but_in_its_policy() -> None:
    assert list(ways_to_float(states.State, "", set())) == []
    assert list(ways_to_float(deltas.Delta, "", set())) == []
    assert list(ways_to_float(effects.Effect, "", set())) == []


# --- and each check can fail ----------------------------------------------------------------------------


@attrs.define
class Open:
    """Has fields that can be set."""

    part: int


@frozen(slots=False)
class WithoutSlots:
    """Takes any attribute."""

    part: int


@frozen
class WithList:
    """Is frozen itself; what it holds is not."""

    parts: list[int]


@frozen
class Deep:
    """Holds at some depth what is not frozen."""

    parts: tuple[WithList | None, ...]


@frozen
class WithDefault:
    """Shares one list among all its instances."""

    parts: object = field(default=[])  # that is the fault


@frozen
class WithFloat:
    """Holds a float, at some depth."""

    parts: tuple[float | None, ...]


T = TypeVar("T")


@frozen
class Pair(Generic[T]):
    """Holds two of anything."""

    parts: tuple[T, T]


@pytest.mark.parametrize("cls", [Open, WithoutSlots, WithDefault])
def test_a_class_that_can_be_changed_is_found(cls: type) -> None:
    assert len(list(class_faults(cls))) == 1


@pytest.mark.parametrize(
    "hint",
    [
        list[int],
        dict[str, int],
        set[int],
        Any,
        object,
        tuple,
        int | list[int],
        Vector[list[int]],
        Pair[list[int]],
        Deep,
        Open,
    ],
    ids=str,
)
def test_a_type_that_is_not_frozen_is_found(hint: Hint) -> None:
    assert len(list(type_faults(hint, "", set()))) == 1


def test_a_callable_is_not_frozen() -> None:
    assert len(list(type_faults(types.FunctionType, "", set()))) == 1


@pytest.mark.parametrize("hint", [int | None, tuple[str, ...], Vector[Json], frozenset[int], Pair[int], Literal["a"]])
def test_a_frozen_type_is_no_fault(hint: Hint) -> None:
    assert list(type_faults(hint, "", set())) == []


def test_a_float_is_found() -> None:
    assert list(ways_to_float(WithFloat | None, "", set())) == ["WithFloat.parts"]


def test_a_class_that_is_not_final_is_found() -> None:
    assert not is_final(Open)
    assert is_final(states.Idle)
