"""The format, derived from the data: how a value of each type is read from nodes, and how it is written as YAML.

A class is a mapping of its fields. A field without a default is required; one that is at its default is left out.
`marks` tell what a type does not say, and `special` holds the few classes that are written otherwise.
"""

import enum
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from types import UnionType
from typing import Annotated, Any, ForwardRef, Literal, TypeAlias, Union, final, get_args, get_origin

import attrs
from attrs import frozen

from loopkernel.data.errors import PolicyError
from loopkernel.data.json_text import Json
from loopkernel.data.policy import ResourcePattern
from loopkernel.testing.scenarios.data import world
from loopkernel.testing.scenarios.data.marks import Mark, Words, WrittenAs
from loopkernel.testing.scenarios.format import fields as decoders
from loopkernel.testing.scenarios.format.fields import Decoder, Fields, Place
from loopkernel.testing.scenarios.format.nodes import Mapping as MappingNode
from loopkernel.testing.scenarios.format.nodes import Node, Scalar

Annotation: TypeAlias = Any  # what stands behind the colon of a field: a class, a union, a generic type
Value: TypeAlias = Any  # of the type that the annotation says, which is only known when a scenario is read
Document: TypeAlias = dict[str, object]


@final
@frozen
class Form:
    """How a value is read from a node, and written as one of YAML's own types."""

    read: Decoder[Value]
    write: Callable[[Value], object]


@final
@frozen(kw_only=True)
class FieldForm:
    """One field of a class in the format."""

    name: str
    key: str
    form: Form
    attribute: "attrs.Attribute[Value]"
    variants: tuple[type, ...]  # of a field whose keys stand among those of its owner
    alone: bool

    @property
    def required(self) -> bool:
        """Whether it must be given: a time that is left out is 0."""
        return self.attribute.default is attrs.NOTHING and not self.key.endswith("_ms")

    def default(self, usual: object | None) -> Value:
        """What it is where it is left out: as usual, or the default of its class."""
        if usual is not None:
            return getattr(usual, self.name)
        if self.attribute.default is attrs.NOTHING:
            return 0 if self.key.endswith("_ms") else self.placeholder()
        factory = getattr(self.attribute.default, "factory", None)
        return self.attribute.default if factory is None else factory()

    def placeholder(self) -> Value:
        """Some value of its type, which is thrown away together with the fault that it is missing."""
        if self.variants:
            return None
        return self.form.read(Scalar(text="", plain=True, line=1), Place("", "", []))


# What a class of the kernel cannot bear a mark for.
_MARKED_HERE: dict[tuple[type, str], tuple[object, ...]] = {(ResourcePattern, "pattern"): (Mark.ALONE,)}
_NOT_WRITTEN = frozenset({"source", "line"})  # where a scenario was found
# Classes that have nothing more to say, as a key and its only value.
CONSTANTS: dict[type, tuple[str, object]] = {
    world.ToolHangs: ("hangs", True),
    world.ModelHangs: ("hangs", True),
    world.HookHangs: ("hangs", True),
    world.ModelEndsEarly: ("ends", "early"),
}
SPECIAL: dict[Annotation, Form] = {}  # by class; filled by `special`
CHECKS: dict[type, Callable[[Fields, Value], Value]] = {}  # what must hold of several fields; may amend the value
WRITTEN: dict[type, Callable[[Value, Document], Document]] = {}  # what is written of several fields


def same(value: object) -> object:
    """The value: YAML has its type."""
    return value


# --- types ------------------------------------------------------------------------------------------------


def origin_of(annotation: object) -> Any:  # a class, or what typing has in place of one
    """Of what the type is a case: `tuple` of `tuple[int, ...]`; None of a class."""
    return get_origin(annotation)


def members_of(annotation: Annotation) -> tuple[Annotation, ...]:
    """The members of a union, None among them as its class; of any other type, that type."""
    return get_args(annotation) if origin_of(annotation) in (Union, UnionType) else (annotation,)


def _parted(annotation: Annotation) -> tuple[Annotation, tuple[object, ...]]:
    """The type and its marks."""
    if origin_of(annotation) is Annotated:
        base, *marks = get_args(annotation)
        return base, tuple(marks)
    return annotation, ()


@cache
def form_of(annotation: Annotation) -> Form:
    """How a value of this type stands in a document."""
    base, marks = _parted(annotation)
    if marks:
        return _marked(base, marks)
    if annotation in SPECIAL:
        return SPECIAL[annotation]
    if isinstance(annotation, str | ForwardRef):  # JSON is the one type that names itself
        return Form(decoders.json_value, same)
    if type(None) in members_of(annotation):
        inner = form_of(without_none(annotation))
        return Form(decoders.or_none(inner.read), lambda value: None if value is None else inner.write(value))
    if len(members_of(annotation)) > 1:
        return _union(members_of(annotation))
    return _generic(annotation) if origin_of(annotation) else _class(annotation)


def without_none(annotation: Annotation) -> Annotation:
    """The type, None aside."""
    rest = tuple(member for member in members_of(annotation) if member is not type(None))
    return Union[rest]  # noqa: UP007  # of members that are known at run time alone


def _generic(annotation: Annotation) -> Form:
    origin, arguments = origin_of(annotation), get_args(annotation)
    inner = form_of(arguments[-1] if origin is Mapping else arguments[0])
    if origin is Mapping:
        key = form_of(arguments[0])
        return Form(
            decoders.table(key.read, inner.read),
            lambda table: {name: inner.write(value) for name, value in table.items()},
        )
    read = decoders.many(inner.read)
    if origin is frozenset:
        return Form(lambda node, place: frozenset(read(node, place)), lambda values: sorted(values))
    return Form(read, lambda values: [inner.write(value) for value in values])


def _class(kind: Annotation) -> Form:
    if kind is Json:
        return Form(lambda node, place: Json.of(decoders.json_value(node, place)), lambda value: value.value())
    if issubclass(kind, enum.Enum):
        return Form(decoders.member(kind), lambda value: value.value)
    if attrs.has(kind):
        return Form(lambda node, place: read_record(kind, node, place), write_record)
    plain: dict[type, Decoder[Value]] = {
        bool: decoders.flag,
        int: decoders.integer(),
        float: decoders.number,
        str: decoders.text,
    }
    return Form(plain[kind], same)


def _marked(base: Annotation, marks: tuple[object, ...]) -> Form:
    """The type as its marks say; those that speak of a field are not for here."""
    words = [mark for mark in marks if isinstance(mark, Words)]
    if words:
        choice = decoders.word(*words[0].allowed)
        if base is str:
            return Form(choice, same)
        return Form(lambda node, place: base(choice(node, place)), lambda value: value.value)
    simple: dict[object, Decoder[Value]] = {
        Mark.NAME: decoders.name,
        Mark.LINE: decoders.pattern,
        Mark.POSITIVE: decoders.integer(1),
        Mark.SCHEMA: _schema,
    }
    for mark in marks:
        if mark in simple:
            return Form(simple[mark], same)
    if Mark.THE_WORD_NONE in marks:
        number = form_of(next(member for member in members_of(base) if origin_of(member) is not Literal))
        return Form(lambda node, place: "none" if decoders.is_none(node) else number.read(node, place), same)
    inner = form_of(base)
    if Mark.GROUP in marks:
        return Form(_group(decoders.or_nothing(inner.read, ())), inner.write)
    if Mark.ALL in marks:
        one = form_of(without_none(base))
        return Form(_or_all(one.read), lambda value: "all" if value is None else one.write(value))
    if Mark.NONE in marks and type(None) not in members_of(base):
        return Form(decoders.or_nothing(inner.read, frozenset() if origin_of(base) is frozenset else ()), inner.write)
    return inner


def _or_all(read: Decoder[Value]) -> Decoder[Value]:
    return lambda node, place: None if isinstance(node, Scalar) and node.text == "all" else read(node, place)


def _group(read: Decoder[Value]) -> Decoder[Value]:
    def decode(node: Node, place: Place) -> Value:
        group = read(node, place)
        if len(group) == 1:
            place.fault(node.line, "one call has nothing to be compared with; name at least two")
        return group

    return decode


def _schema(node: Node, place: Place) -> world.JsonValue:
    schema = decoders.json_value(node, place)
    if not isinstance(schema, dict | bool):
        decoders.wants("a JSON Schema (a mapping, true or false)", node, place)
    return schema


# --- classes ----------------------------------------------------------------------------------------------


@cache
def field_forms(kind: type) -> tuple[FieldForm, ...]:
    """The fields of a class, in its order."""
    return tuple(_field_form(kind, one) for one in attrs.fields(kind) if one.name not in _NOT_WRITTEN)


def _field_form(kind: type, attribute: "attrs.Attribute[Value]") -> FieldForm:
    base, marks = _parted(attribute.type)
    marks += _MARKED_HERE.get((kind, attribute.name), ())
    key = next((mark.name for mark in marks if isinstance(mark, WrittenAs)), attribute.name)
    flat = Mark.FLAT in marks
    kept = tuple(mark for mark in marks if not isinstance(mark, WrittenAs) and mark not in (Mark.FLAT, Mark.ALONE))
    if type(None) in members_of(base) and not {Mark.NONE, Mark.ALL}.intersection(kept):
        base = without_none(base)  # a key that is left out says None
    return FieldForm(
        name=attribute.name,
        key=key,
        form=Form(same_node, same) if flat else _marked(base, kept) if kept else form_of(base),
        attribute=attribute,
        variants=members_of(base) if flat else (),
        alone=Mark.ALONE in marks,
    )


def same_node(node: Node, _: Place) -> Node:
    """A flat field has no node of its own."""
    return node


def read_record(kind: type, node: Node, place: Place) -> Value:
    """A value of the class, from a mapping, or from what may stand alone in place of it."""
    alone = [one for one in field_forms(kind) if one.alone]
    if alone and not isinstance(node, MappingNode):
        return _built(kind, {alone[0].name: alone[0].form.read(node, place)}, node, place)
    fields = Fields(node, place)
    values = read_fields(kind, fields)
    fields.finish()
    value = _built(kind, values, node, place)
    return CHECKS[kind](fields, value) if kind in CHECKS else value


def _built(kind: type, values: dict[str, Value], node: Node, place: Place) -> Value:
    try:
        return kind(**values)
    except PolicyError as error:
        place.fault(node.line, "; ".join(map(str, error.faults)))
        return None


def read_fields(kind: type, fields: Fields, usual: object | None = None, *, demanded: bool = True) -> dict[str, Value]:
    """The values of the fields of a class; what is left out is as usual."""
    values: dict[str, Value] = {}
    for one in field_forms(kind):
        if one.variants:
            values[one.name] = read_variant(one.variants, fields, one.default(usual))
            continue
        if one.required and usual is None and demanded:
            fields.demand(one.key)
        given = fields.optional(one.key, one.form.read, None)
        values[one.name] = given if fields.has(one.key) else one.default(usual)
    return values


def write_record(value: object) -> Document:
    """The fields of a value that are not at their defaults."""
    document: Document = {}
    kind: Any = type(value)  # a class that is only known here
    if kind in CONSTANTS:
        key, constant = CONSTANTS[kind]
        document[key] = constant
    for one in field_forms(kind):
        held = getattr(value, one.name)
        if one.attribute.default is not attrs.NOTHING and held == one.default(None):
            continue
        if one.variants:
            document |= write_record(held)
        else:
            document[one.key] = one.form.write(held)
    return WRITTEN[kind](value, document) if kind in WRITTEN else document


# --- one of several classes ---------------------------------------------------------------------------------


@cache
def known_by(kind: type) -> str:
    """The key by which one class of a union is known."""
    if kind in CONSTANTS:
        return CONSTANTS[kind][0]
    return next(one.key for one in field_forms(kind) if one.key != "at_ms")


def read_variant(variants: tuple[type, ...], fields: Fields, usual: Value) -> Value:
    """The one whose key is given among those of the owner; else the usual one, as far as nothing else is said."""
    if len(variants) == 1:
        return variants[0](**read_fields(variants[0], fields, usual))
    tags = {known_by(variant): variant for variant in variants}
    kind = fields.given(*tags)
    chosen = type(usual) if kind is None else tags[kind]
    values = dict(_every(variants, fields, usual))
    return chosen(**values[chosen])


def _every(variants: tuple[type, ...], fields: Fields, usual: Value) -> Iterator[tuple[type, dict[str, Value]]]:
    for variant in variants:
        if variant in CONSTANTS:
            key, constant = CONSTANTS[variant]
            only: Decoder[Value] = decoders.only_true if constant is True else decoders.word(str(constant))
            fields.optional(key, only, None)
            yield variant, {}
        else:
            yield variant, read_fields(variant, fields, usual if isinstance(usual, variant) else None, demanded=False)


def _union(variants: tuple[type, ...]) -> Form:
    """One of several classes, in a mapping of its own: the one whose key is given."""

    def read(node: Node, place: Place) -> Value:
        tags = {known_by(variant): variant for variant in variants}
        fields = Fields(node, place)
        kind = fields.given(*tags)
        chosen = variants[0] if kind is None else tags[kind]
        for key in tags if kind else [one.key for variant in variants for one in field_forms(variant)]:
            fields.optional(key, lambda *_: None, None)
        values = read_fields(chosen, fields, demanded=kind is not None)
        if kind is None and not fields.broken:
            *first, last = tags
            place.fault(node.line, f"`{'`, `'.join(first)}` or `{last}` is missing")
        fields.finish()
        return _built(chosen, values, node, place)

    return Form(read, write_record)
