"""Every field of the public data takes what its type says, and refuses all else where it is built, by name.

What must be refused is told by the types, apart from the code that refuses.
"""

import enum
import types
from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import Any, NewType, Union, get_args, get_origin, get_type_hints

import attrs
import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.blocks import TextBlock, UserBlock
from loopkernel.data.checked_fields import checked_fields
from loopkernel.data.deltas import Delta
from loopkernel.data.errors import DataError, PolicyError
from loopkernel.data.foreign import ForeignResult
from loopkernel.data.ids import CallId
from loopkernel.data.json_text import Json
from loopkernel.data.messages import Message
from loopkernel.data.model_deltas import ModelFailed
from loopkernel.data.policy import Policy, ResourcePattern, Retry
from loopkernel.data.records import LogRecord
from loopkernel.data.steps import Context
from loopkernel.data.thread_deltas import Acquired, Created
from loopkernel.data.tools import Tool, ToolOutput
from loopkernel.data.user_deltas import Say
from loopkernel.data.vector import Vector
from loopkernel.data.words import CallStatus, ErrorClass

# Any, here and below: types are looked at as values, and fields are given anything.

ROOTS = (Delta, Policy, Tool, ToolOutput, Context, LogRecord, Message)
WRONG: tuple[Any, ...] = (
    None,
    True,
    -3,
    2.5,
    "no word of any set",
    b"bytes",
    object(),
    (object(),),
    ["no word"],
    {"a": object()},
    {"a": 1},
    {1, 2},
    Acquired,
    Acquired(),
    TextBlock("a"),
    Policy(),
    CallStatus.DONE,
    Vector.of(("a",)),
)


def bare(of_type: Any) -> Any:
    """The type behind an id."""
    while isinstance(of_type, NewType):
        of_type = of_type.__supertype__
    return of_type


def members(of_type: Any) -> tuple[Any, ...]:
    """The members of a union, or the type alone."""
    of_type = bare(of_type)
    if get_origin(of_type) in (Union, types.UnionType):
        return tuple(bare(member) for member in get_args(of_type))
    return (of_type,)


def classes_within(of_type: Any, found: dict[type, None]) -> dict[type, None]:
    """Every class with fields that a caller builds on the way to a value of the type."""
    for member in members(of_type):
        if get_origin(member) is tuple:
            classes_within(get_args(member)[0], found)
        elif attrs.has(member) and member not in found and member is not Json:
            found[member] = None
            for hint in hints_of(member).values():
                classes_within(hint, found)
    return found


def hints_of(cls: type) -> dict[str, Any]:
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in attrs.fields(cls) if field.init}


CLASSES = tuple(found for root in [dict[type, None]()] for each in ROOTS for found in classes_within(each, root))
FIELDS = [(cls, name, hint) for cls in dict.fromkeys(CLASSES) for name, hint in hints_of(cls).items()]
IDS = [f"{cls.__name__}.{name}" for cls, name, _ in FIELDS]


def an_example(of_type: Any) -> Any:
    """A value of the type."""
    member = next(member for member in members(of_type) if member is not type(None))
    if get_origin(member) is tuple:
        return ()
    if issubclass(member, enum.Enum):
        return list(member)[-1]
    if member is Json:
        return Json.of({})
    return arguments_of(member, build=True) if attrs.has(member) else {str: "a", int: 1, bool: True, float: 0.5}[member]


def arguments_of(cls: type, *, build: bool = False) -> Any:
    """What the constructor needs; built, if wanted."""
    needed = {field.name for field in attrs.fields(cls) if field.init and field.default is attrs.NOTHING}
    arguments = {name: an_example(hint) for name, hint in hints_of(cls).items() if name in needed}
    if cls is ForeignResult:
        arguments["status"] = CallStatus.DONE
    return cls(**arguments) if build else arguments


def fits(of_type: Any, value: Any) -> bool:
    """Whether a field of the type may be given the value, told by cases."""
    for member in members(of_type):
        if get_origin(member) is tuple:
            item = get_args(member)[0]
            if isinstance(value, tuple | list | Vector) and all(fits(item, each) for each in value):
                return True
            if item == UserBlock and (isinstance(value, str) or fits(item, value)):
                return True
        elif type(value) is member or (member is float and type(value) is int):
            return True
        elif member is Json and isinstance(value, dict | list):
            return "object" not in repr(value)
        elif issubclass(member, enum.Enum) and value in [word.value for word in member]:
            return True
    return False


def test_all_that_a_caller_builds_is_looked_at() -> None:
    assert len(FIELDS) > 200
    assert {Say, Retry, Tool, CallId, ToolOutput, ModelFailed} <= set(CLASSES)


@pytest.mark.parametrize(("cls", "name", "hint"), FIELDS, ids=IDS)
def test_what_is_of_another_type_is_refused_by_the_name_of_its_field(cls: type, name: str, hint: Any) -> None:
    for value in WRONG:
        if not fits(hint, value):
            with pytest.raises((DataError, PolicyError)) as refused:
                cls(**{**arguments_of(cls), name: value})
            (fault,) = refused.value.faults
            assert fault.path.startswith(f"{cls.__name__}.{name}")
            assert " must be " in str(fault) or "cannot be JSON" in str(fault)


@pytest.mark.parametrize(("cls", "name", "hint"), FIELDS, ids=IDS)
@given(data=st.data())
def test_a_word_stands_for_its_member_and_a_list_for_its_tuple(
    cls: type, name: str, hint: Any, data: st.DataObject
) -> None:
    for given_value, meant in stand_ins(hint, data):
        arguments = arguments_of(cls)
        try:
            exact = cls(**{**arguments, name: meant})
        except ValueError:  # a member that this field refuses for what it is
            with pytest.raises(ValueError):
                cls(**{**arguments, name: given_value})
            continue
        assert cls(**{**arguments, name: given_value}) == exact
        assert type(getattr(exact, name)) is type(meant)


def stand_ins(hint: Any, data: st.DataObject) -> Iterator[tuple[Any, Any]]:
    """What may be given in the place of a value, with that value."""
    for member in members(hint):
        if get_origin(member) is tuple:
            item = an_example(get_args(member)[0])
            yield [item, item], (item, item)
            yield iter([item]), (item,)
            if get_args(member)[0] == UserBlock:
                yield "text", (TextBlock("text"),)
                yield TextBlock("text"), (TextBlock("text"),)
        elif member is Json:
            yield {"a": [1]}, Json.of({"a": [1]})
        elif issubclass(member, enum.Enum):
            word = data.draw(st.sampled_from(list(member)))
            yield word.value, word


class Words(enum.StrEnum):
    """Texts of a caller's own kind."""

    NETWORK = "network"


def test_texts_and_numbers_of_a_kind_of_their_own_become_plain_ones() -> None:
    kept = Policy(model=Words.NETWORK, seed=enum.IntEnum("Seeds", {"A": 7}).A)  # type: ignore[attr-defined]
    assert (type(kept.model), kept.model, type(kept.seed), kept.seed) == (str, "network", int, 7)
    assert ModelFailed(1, error=Words.NETWORK).error is ErrorClass.NETWORK  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: Policy(on_error="throw"), 'Policy.on_error: must be one of "rest", "end", "raise", "feed_back", not'),  # type: ignore[arg-type]
        (lambda: Policy(retry=3), "Policy.retry: must be a Retry or None, not 3"),  # type: ignore[arg-type]
        (lambda: Policy(max_turns="3"), 'Policy.max_turns: must be an integer or None, not "3"'),  # type: ignore[arg-type]
        (lambda: Policy(seed=10**30), ""),
        (lambda: Policy(model=10**30), "Policy.model: must be a text, not a large integer"),  # type: ignore[arg-type]
        (lambda: ResourcePattern("a", "x"), 'ResourcePattern.mode: must be one of "read", "write" or None, not'),  # type: ignore[arg-type]
        (lambda: Retry(classes=["server", "x"]), "Retry.classes[1]: must be one of"),  # type: ignore[arg-type]
        (lambda: Context(Acquired, 0), "be one of ModelText, ModelReasoning, ModelInput and "),  # type: ignore[arg-type]
        (lambda: Tool(name="t", input_schema={1}), "Tool.input_schema: must be "),  # type: ignore[arg-type]
        (lambda: Say(b"go"), "Say.content: must be a tuple or list"),  # type: ignore[arg-type]
        (lambda: Say({"text": "go"}), "Say.content: must be a tuple or list"),  # type: ignore[dict-item]
        (lambda: Context(Acquired, 0), "more classes, not the class Acquired itself"),  # type: ignore[arg-type]
        (lambda: Say(5), "Say.content: must be a tuple or list, each item a TextBlock or a MediaBlock, not 5"),  # type: ignore[arg-type]
        (lambda: Say("a", key=object()), "Say.key: must be a text or None, not a object"),  # type: ignore[arg-type]
        (lambda: Tool(name="t", input_schema={"a": float("nan")}), "Tool.input_schema.a: cannot be JSON: it is nan"),  # type: ignore[arg-type]
        (lambda: Created(session_id="s", tools=Tool(name="t")), "Created.tools: must be a tuple or list"),  # type: ignore[arg-type]
        (lambda: Created(session_id="s", tools={Tool(name="t")}), "each item a Tool, not a set"),  # type: ignore[arg-type]
    ],
)
def test_the_words_say_what_is_wanted_and_what_was_given(build: Any, words: str) -> None:
    if not words:
        build()
        return
    with pytest.raises((DataError, PolicyError)) as refused:
        build()
    assert words in str(refused.value)


def test_a_type_that_no_field_of_public_data_may_have_is_found_when_the_class_is_made() -> None:
    odd: tuple[Any, ...] = (dict[str, int], tuple[int, str], tuple[int, ...] | str, Vector[int])
    for of_type in odd:
        with pytest.raises(TypeError):
            attrs.make_class("Odd", {"a": attrs.field(type=of_type)}, field_transformer=checked_fields)


@frozen(field_transformer=checked_fields)
class _WithDefault:
    """A field that follows from another is left alone."""

    a: int
    b: dict[str, int] = attrs.field(init=False, factory=dict)


def test_a_field_that_no_caller_gives_is_left_alone() -> None:
    assert _WithDefault(2).b == {}


@pytest.mark.parametrize(("count", "words"), [(12, "a K0 or a K1 or "), (13, "one of K0, K1, K2 and 10 more classes")])
def test_as_many_as_twelve_classes_are_named_in_a_message(count: int, words: str) -> None:
    classes = [attrs.make_class(f"K{number}", {}) for number in range(count)]
    union: Any = reduce(or_, classes)
    made = attrs.make_class("Odd", {"a": attrs.field(type=union)}, field_transformer=checked_fields)
    with pytest.raises(DataError) as refused:
        made(1)
    assert words in str(refused.value)
