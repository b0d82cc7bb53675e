"""`frozen` of attrs, at half the cost of a value, and less of a class: what every class of the data is made by.

attrs fills a frozen instance by `object.__setattr__`, field by field, and calls a function for each field that checks
what it is given. Here the constructor is written out: what is right already is seen in place, and the fields are set
past the frozen `__setattr__`, either by their descriptors or, where there are many, while the instance is of a twin
class that takes them. Nobody has the instance yet, and from then on nobody can change it.

It is written when a class is first built, since a run builds a quarter of the classes. What attrs has made stays for
all that is not of that kind: classes with validators, with fields that a method fills, and classes derived from these.

The methods that copy a value of many fields, and change some, are written out in the same way (`quick_copy`); so are
functions that stand for the classes of which every step makes values (`maker`).
"""

import inspect
from collections.abc import Callable
from functools import wraps
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar

import attrs
from attrs import NOTHING, Attribute, Factory

from loopkernel.data.checked_fields import quick_look

# Any, here and below: what is built is a class that is looked at as a value.
Class: TypeAlias = Any
Names: TypeAlias = dict[str, Any]
Method = TypeVar("Method", bound=Callable[..., Any])
Parameters = ParamSpec("Parameters")
Value = TypeVar("Value")

_FEW = 3  # fields, up to which setting them by descriptors takes less time than two changes of class

if TYPE_CHECKING:  # the type checker knows attrs' own
    from attrs import frozen as frozen
else:

    def frozen(cls: Class = None, /, **options: Any) -> Class:
        """As `attrs.frozen`, with its options."""
        if cls is None:
            return lambda decorated: frozen(decorated, **options)
        own = vars(cls)
        compared = options.get("eq", True) and "__eq__" not in own
        shown = options.get("repr", True) and "__repr__" not in own
        # Without a slot for weak references, a class can change places with its twin.
        made = attrs.frozen(cls, weakref_slot=False, **(options | {"eq": False, "repr": False}))
        if compared:
            made.__eq__, made.__hash__ = _comparison(made)
        if shown:
            made.__repr__ = _shown
        if _is_plain(made):
            made.__init__ = _written_when_needed(made, made.__init__)
        return made


# --- equality, hashes, texts: functions that need not be compiled for each class -------------------------


def _comparison(cls: Class) -> tuple[Callable[[Any, object], bool], Callable[[Any], int]]:
    """Equality by the fields, where what is the very same is not looked into; and a hash that goes with it."""
    names = [each.name for each in attrs.fields(cls) if each.eq]
    parts: Callable[[Any], object] = attrgetter(*names) if names else lambda _: ()

    def __eq__(self: Any, other: object) -> bool:
        return parts(self) == parts(other) if type(self) is type(other) else NotImplemented

    def __hash__(self: Any) -> int:
        return hash((cls, parts(self)))

    return __eq__, __hash__


def _shown(self: Any) -> str:
    """The value as the call that builds it."""
    told = [f"{each.name}={getattr(self, each.name)!r}" for each in attrs.fields(type(self)) if each.repr]
    return f"{type(self).__qualname__}({', '.join(told)})"


# --- constructors ---------------------------------------------------------------------------------------


def _is_plain(cls: Class) -> bool:
    """Whether all that its constructor does is to check its arguments, each by itself, and to keep them."""
    fields = attrs.fields(cls)
    plain = (each.init and each.validator is None and not _is_made_anew(each.default) for each in fields)
    return len(fields) > 0 and all(plain) and not hasattr(cls, "__attrs_post_init__")


def _is_made_anew(default: object) -> bool:
    return isinstance(default, Factory)  # type: ignore[arg-type]  # a class, which its types tell as a function


def _written_when_needed(cls: Class, made_by_attrs: Callable[..., None]) -> Callable[..., None]:
    """A constructor that writes the quick one, puts it in its own place, and leaves the work to it."""

    @wraps(made_by_attrs)
    def first_time(self: Any, *given: Any, **named: Any) -> None:
        cls.__init__ = written = wraps(made_by_attrs)(_written(cls, made_by_attrs))
        written(self, *given, **named)

    return first_time


def _written(cls: Class, made_by_attrs: Callable[..., None]) -> Callable[..., None]:
    fields = attrs.fields(cls)
    names: Names = {"_cls": cls, "_made_by_attrs": made_by_attrs}
    lines = [f"def __init__(self, {_parameters(fields, names)}):"]
    by_twin = len(fields) > _FEW and _may_have_twin(cls)
    if by_twin:
        arguments = ", ".join(f"{each.alias}={each.alias}" for each in fields)
        lines += ["    if type(self) is not _cls:", f"        return _made_by_attrs(self, {arguments})"]
    lines += [line for each in fields for line in _check(each, names)]
    if by_twin:
        names |= {"_twin": _twin(cls), "_become": object.__dict__["__class__"].__set__}
        lines += ["    _become(self, _twin)", *(f"    self.{each.name} = {each.alias}" for each in fields)]
        lines.append("    self.__class__ = _cls")
    else:
        names |= {f"_set_{each.name}": getattr(cls, each.name).__set__ for each in fields}
        lines += [f"    _set_{each.name}(self, {each.alias})" for each in fields]
    return _defined("__init__", lines, names, f"<constructor of {cls.__qualname__}>")


def maker(cls: Callable[Parameters, Value]) -> Callable[Parameters, Value]:
    """A function that does what the class does when it is called, in half the time: `new_draft = maker(Draft)`.

    A call of a class packs the arguments into a dict for the constructor, which unpacks them; and the constructor has
    to make an instance of the class into one of its twin first. In a compiled kernel it is the class itself.
    """
    made: Class = cls
    fields = attrs.fields(made)
    names: Names = {"_new": object.__new__, "_cls": made}
    lines = [f"def made({_parameters(fields, names)}):", *(line for each in fields for line in _check(each, names))]
    if _may_have_twin(made):
        names["_twin"] = _twin(made)
        lines += ["    _made = _new(_twin)", *(f"    _made.{each.name} = {each.alias}" for each in fields)]
        lines.append("    _made.__class__ = _cls")
    else:
        names |= {f"_set_{each.name}": getattr(made, each.name).__set__ for each in fields}
        lines += ["    _made = _new(_cls)", *(f"    _set_{each.name}(_made, {each.alias})" for each in fields)]
    lines.append("    return _made")
    written: Any = _defined("made", lines, names, f"<maker of {made.__qualname__}>")
    written.__wrapped__ = made
    return written  # type: ignore[no-any-return]  # it takes what the class does


def _defined(name: str, lines: list[str], names: Names, place: str) -> Callable[..., Any]:
    """The function of that name, as the lines define it; `names` are those that it knows."""
    exec(compile("\n".join(lines), place, "exec"), names)
    written: Callable[..., Any] = names[name]
    return written


def _may_have_twin(cls: Class) -> bool:
    """Not so below a class of the data, which should not count a twin as one of its own."""
    return not any(map(attrs.has, cls.__bases__))


def _parameters(fields: "tuple[Attribute[Any], ...]", names: Names) -> str:
    by_keyword = [_parameter(each, names) for each in fields if each.kw_only]
    parameters = [_parameter(each, names) for each in fields if not each.kw_only]
    return ", ".join(parameters + (["*", *by_keyword] if by_keyword else []))


def _parameter(field: "Attribute[Any]", names: Names) -> str:
    if field.default is NOTHING:
        return str(field.alias)
    names[f"_default_{field.name}"] = field.default
    return f"{field.alias}=_default_{field.name}"


def _check(field: "Attribute[Any]", names: Names) -> list[str]:
    """What is right as it is given passes; all else goes through the converter of the field."""
    if field.converter is None:
        return []
    names[f"_convert_{field.name}"] = field.converter
    convert = f"{field.alias} = _convert_{field.name}({field.alias})"
    look = quick_look(field)
    if look is None:
        return [f"    {convert}"]
    wrong = []
    if look.items is not None:
        names[f"_are_items_{field.name}"] = look.items.issuperset
        wrong.append(f"(type({field.alias}) is not tuple or not _are_items_{field.name}(map(type, {field.alias})))")
    elif look.texts:
        wrong.append(f"(type({field.alias}) is not str or not {field.alias}.isascii())")
    if len(look.exact) == 1:
        names[f"_type_{field.name}"] = next(iter(look.exact))
        wrong.append(f"type({field.alias}) is not _type_{field.name}")
    elif look.exact:
        names[f"_types_{field.name}"] = look.exact
        wrong.append(f"type({field.alias}) not in _types_{field.name}")
    return [f"    if {' and '.join(wrong)}:", f"        {convert}"]


def _twin(cls: Class) -> Class:
    """A class whose instances look the same, and whose fields can be set."""
    body = {name: vars(cls)[name] for name in ("__slots__", "__qualname__", "__orig_bases__") if name in vars(cls)}
    return type(cls.__name__, cls.__bases__, body | {"__setattr__": object.__setattr__})


# --- copies with changes --------------------------------------------------------------------------------


def quick_copy(method: Method) -> Method:
    """For a method of a class of many unchecked fields that copies it, and sets those that its parameters name.

    A parameter whose default is None then keeps what there is. The body says that by the constructor, which a compiled
    class is quick in; here it is what happens at the first call, which has the same written out, at a third of the
    cost: a call with an argument for each field takes longer than all the rest.
    """

    @wraps(method)
    def first_time(self: Any, *given: Any, **named: Any) -> Any:
        cls = type(self)
        setattr(cls, method.__name__, wraps(method)(_written_copy(cls, method)))
        return method(self, *given, **named)

    return first_time  # type: ignore[return-value]  # it takes and gives what the method does


def _written_copy(cls: Class, method: Callable[..., Any]) -> Callable[..., Any]:
    fields, (_, *taken) = attrs.fields(cls), inspect.signature(method).parameters.values()
    keeping = {each.name for each in taken if each.default is None}
    by_keyword = [f"{each.name}=None" if each.name in keeping else each.name for each in taken if _is_named(each)]
    parameters = ["self", *(each.name for each in taken if not _is_named(each)), "*", *by_keyword]
    lines = [f"def {method.__name__}({', '.join(parameters)}):", "    _made = _new(_twin)"]
    for name in (each.name for each in fields):
        given = f"{name} if {name} is not None else self.{name}" if name in keeping else name
        lines.append(f"    _made.{name} = {given if name in {each.name for each in taken} else f'self.{name}'}")
    lines += ["    _made.__class__ = _cls", "    return _made"]
    names: Names = {"_new": object.__new__, "_twin": _twin(cls), "_cls": cls}
    return _defined(method.__name__, lines, names, f"<copy of {cls.__qualname__}>")


def _is_named(parameter: inspect.Parameter) -> bool:
    return parameter.kind is inspect.Parameter.KEYWORD_ONLY
