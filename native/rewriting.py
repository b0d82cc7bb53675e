"""Rewrites the frozen attrs classes of a module as native classes, which mypyc turns into C structures.

mypyc compiles a class that attrs decorates as an ordinary Python object, which gains little. So what attrs does when a
module is imported is written out here, before it is compiled: `__init__` with its checks, `__eq__`, `__hash__`,
`__repr__`, and what pickles are made of. Fields become `Final`, which nobody can set from outside. What the fields are
is asked of the classes themselves, as attrs has made them; their types and defaults are taken from the source.
"""

import ast
import importlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, get_origin

import attrs
from attrs import NOTHING, frozen

from native.native_records import classes_in

SUPPORT = "loopkernel.data.native_records"
_HEAD = f"from typing import Any as _Any, Final as _Final, cast as _cast\nimport {SUPPORT} as _native\n"
_DECORATORS = {"attrs", "loopkernel.data.value_classes"}
_MADE_BY_ATTRS = {"frozen", "evolve", "maker", "quick_copy"}  # taken from the support module, or not needed any more
# How a value is built past its own check: attrs fields are set from outside there, native ones by the constructor.
_PAST_THE_CHECK = {
    "Json": (
        "json_value = object.__new__(Json)  # past the validator, which would parse the text once more\n"
        '        object.__setattr__(json_value, "text", text)\n'
        "        return json_value",
        "return Json(text, _good=True)",
    )
}
Field = Any  # an `attrs.Attribute`, whose type hides some of what it tells
_CONSTANT = (ast.Constant, ast.Name, ast.Attribute)


@frozen
class _Class:
    """An attrs class of the module: how it stands in the source, and what attrs has made of it."""

    node: ast.ClassDef
    made: type
    transformer: str | None

    @property
    def name(self) -> str:
        return self.node.name

    @property
    def fields(self) -> tuple[Field, ...]:
        fields: tuple[Field, ...] = attrs.fields(self.made)
        return fields

    @property
    def own(self) -> tuple[Field, ...]:
        return tuple(field for field in self.fields if not field.inherited)

    @property
    def annotations(self) -> dict[str, ast.expr]:
        return {statement.target.id: statement.annotation for statement in _field_statements(self.node)}

    def defines(self, method: str) -> bool:
        return any(isinstance(part, ast.FunctionDef) and part.name == method for part in self.node.body)


def rewritten(source: str, module: str) -> str:
    """The source of the module with native classes in the place of its attrs classes."""
    made = importlib.import_module(module)
    source = _without_makers(_with_plain_returns(source), vars(made))
    tree = ast.parse(source)
    lines = source.splitlines(keepends=True)
    definitions = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    classes = [_Class(node, getattr(made, node.name), found[0]) for node in definitions if (found := _decorated(node))]
    edits: list[tuple[int, int, str]] = []  # from a line, to a line, both from 0, the latter not included
    for one in classes:
        edits.append((_first_line(one.node), one.node.end_lineno or 0, _native_class(one, lines)))
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module in _DECORATORS:
            edits.append((node.lineno - 1, node.end_lineno or 0, _attrs_import(node)))
    first = tree.body[1]  # behind the docstring
    edits.append((_first_line(first), _first_line(first), _HEAD))
    for start, end, text in sorted(edits, key=lambda edit: edit[:2], reverse=True):
        lines[start:end] = [text]
    return "".join(lines)


def _with_plain_returns(source: str) -> str:
    """The source with `return a if b and c else d` as a statement: mypyc (2.4) releases what it did not take there."""
    lines = source.splitlines(keepends=True)
    returns = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Return)]
    for node in sorted(returns, key=lambda node: node.lineno, reverse=True):
        choice = node.value
        if isinstance(choice, ast.IfExp) and isinstance(choice.test, ast.BoolOp):
            indent = " " * node.col_offset
            parts = f"if {ast.unparse(choice.test)}:", f"    return {ast.unparse(choice.body)}"
            plain = [*parts, f"return {ast.unparse(choice.orelse)}"]
            lines[node.lineno - 1 : node.end_lineno] = [f"{indent}{line}\n" for line in plain]
    return "".join(lines)


def _without_makers(source: str, known: Mapping[str, object]) -> str:
    """The source with the classes themselves for the functions that make their values, under whose names they stay."""
    for name, value in known.items():
        made = getattr(value, "__wrapped__", None)
        if isinstance(made, type) and attrs.has(made):
            before, definition, behind = source.partition(f"\n{name} = maker({made.__name__})\n")
            source = re.sub(rf"\b{name}\b", made.__name__, before)
            if definition:
                source += f"\n{name} = {made.__name__}\n" + re.sub(rf"\b{name}\b", made.__name__, behind)
    return source


def _decorated(node: ast.ClassDef) -> tuple[str | None] | None:
    """The name of the transformer of a class that is `@frozen`, if it has one; None for any other class."""
    for decorator in node.decorator_list:
        call = decorator if isinstance(decorator, ast.Call) else None
        if ast.unparse(call.func if call else decorator) == "frozen":
            keywords = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords} if call else {}
            return (keywords.get("field_transformer"),)
    return None


def _first_line(node: ast.stmt) -> int:
    decorators = node.decorator_list if isinstance(node, ast.ClassDef | ast.FunctionDef) else []
    return min(node.lineno, *(decorator.lineno for decorator in decorators), node.lineno) - 1


def _attrs_import(node: ast.ImportFrom) -> str:
    names = {alias.name: alias.asname or alias.name for alias in node.names}
    kept = [f"{name} as {known}" for name, known in names.items() if name not in _MADE_BY_ATTRS]
    taken = [f"from {SUPPORT} import evolve\n"] if "evolve" in names else []
    return "".join([*([f"from attrs import {', '.join(kept)}\n"] if kept else []), *taken]) or "pass\n"


def _field_statements(node: ast.ClassDef) -> Iterator[Any]:  # Any: an ast.AnnAssign whose target is a name
    for statement in node.body:
        if isinstance(statement, ast.AnnAssign) and "ClassVar" not in ast.unparse(statement.annotation):
            yield statement


# --- a class ---------------------------------------------------------------------------------------------


def _native_class(one: _Class, lines: list[str]) -> str:
    before = "".join(
        f"{_default_name(one, field)}: _Final[{ast.unparse(one.annotations[field.name])}] = {text}\n"
        for field, text in _hoisted(one)
    )
    head = [f"@{ast.unparse(each)}\n" for each in one.node.decorator_list if "frozen" not in ast.unparse(each)]
    bases = ", ".join(ast.unparse(base) for base in one.node.bases)
    head.append(f"class {one.name}({bases}):\n" if bases else f"class {one.name}:\n")
    if ast.get_docstring(one.node) is not None:
        head.append("".join(lines[_first_line(one.node.body[0]) : one.node.body[0].end_lineno]))
    positional = [field.name for field in one.fields if field.init and not field.kw_only]
    body = [line for field in one.own for line in _declared(one, field)]
    body.append(f"    __match_args__: _Final = ({''.join(f'{name!r}, ' for name in positional)})\n")
    body += [*_init(one), *_equality(one), *_text_and_pickle(one), *_kept(one, lines)]
    return "".join([before, *_exact(one), *head, *body, *_table(one)])


def _declared(one: _Class, field: Field) -> Iterator[str]:
    """The field as one that cannot be set. Final is not for types with variables, which are left out within a tuple."""
    annotation = _annotation(one, field)
    variables = _variables_in(one, field)
    if not variables:
        yield f"    {field.name}: _Final[{annotation}]\n"
    elif annotation.startswith("tuple"):
        for variable in variables:
            annotation = re.sub(rf"\b{variable}\b", "_Any", annotation)
        yield f"    {field.name}: _Final[{annotation}]\n"
    else:
        yield f"    _{field.name}: {annotation}\n"
        yield f"    @property\n    def {field.name}(self) -> {annotation}:\n        return self._{field.name}\n"


def _annotation(one: _Class, field: Field) -> str:
    """The type of the field. Where a float is due a whole number stays one, which mypyc would make a float of."""
    return re.sub(r"\bfloat\b", "float | int", ast.unparse(one.annotations[field.name]))


def _variables_in(one: _Class, field: Field) -> set[str]:
    """The type variables in the annotation of the field."""
    bound = {ast.unparse(base) for base in one.node.bases}
    names = {ast.unparse(node) for node in ast.walk(one.annotations[field.name]) if isinstance(node, ast.Name)}
    return {name for name in names if f"Generic[{name}]" in bound}


def _stored(one: _Class, field: Field) -> str:
    """The name under which the field is stored."""
    whole = _variables_in(one, field) and not ast.unparse(one.annotations[field.name]).startswith("tuple")
    return f"_{field.name}" if whole else field.name


def _kept(one: _Class, lines: list[str]) -> Iterator[str]:
    """The methods of the class as they are, but for decorators that attrs, or the interpreter alone, has a use for."""
    fields = [*_field_statements(one.node)]
    for part in one.node.body:
        if part in fields or isinstance(part, ast.Expr):  # a text, which stands above already
            continue
        text = "".join(lines[_first_line(part) : part.end_lineno])
        if isinstance(part, ast.FunctionDef):
            for decorator in part.decorator_list:
                if ast.unparse(decorator).split(".")[-1] in ("default", "validator", "quick_copy"):
                    text = text.replace(f"    @{ast.unparse(decorator)}\n", "", 1)
            if one.name in _PAST_THE_CHECK and _PAST_THE_CHECK[one.name][0] in text:
                text = text.replace(*_PAST_THE_CHECK[one.name])
        yield f"{text}\n"


def _init(one: _Class) -> Iterator[str]:
    taken = [field for field in one.fields if field.init]
    inherited = [field for field in taken if field.inherited]
    parameters = ["self", *(_parameter(one, field) for field in taken if not field.kw_only)]
    by_keyword = [_parameter(one, field) for field in taken if field.kw_only]
    by_keyword += ["_good: bool = False"] if one.name in _PAST_THE_CHECK else []
    parameters += ["*", *by_keyword] if by_keyword else []
    yield f"    def __init__({', '.join(parameters)}) -> None:\n"
    if inherited:
        base = one.made.__mro__[1].__name__
        values = ", ".join(_value(one, field) for field in inherited)
        yield f"        {base}.__init__(self, {values})\n"
    for field in one.own:
        yield f"        self.{_stored(one, field)} = {_value(one, field) if field.init else _own_default(one, field)}\n"
    checks = [line for field in one.own for line in _validation(one, field)]
    if one.name in _PAST_THE_CHECK:
        checks = ["        if not _good:\n", *(f"    {line}" for line in checks)]
    yield from checks
    if one.defines("__attrs_post_init__"):
        yield "        self.__attrs_post_init__()\n"
    yield "        return\n"


def _parameter(one: _Class, field: Field) -> str:
    checks = one.transformer is not None or field.inherited or field.converter is not None
    kind = "_Any" if checks else _annotation(one, field)
    default = "" if field.default is NOTHING else f" = {_default(one, field)}"
    return f"{field.alias}: {kind}{default}"


def _default(one: _Class, field: Field) -> str:
    source = _default_source(one, field)
    return ast.unparse(source) if _is_plain(source) else _default_name(one, field)


def _default_source(one: _Class, field: Field) -> ast.expr:
    """The default as the source has it."""
    (statement,) = (each for each in _field_statements(one.node) if each.target.id == field.name)
    value: ast.expr = statement.value
    if isinstance(value, ast.Call) and ast.unparse(value.func) in ("field", "attrs_field"):
        (value,) = (keyword.value for keyword in value.keywords if keyword.arg == "default")
    return value


def _is_plain(source: ast.expr) -> bool:
    return isinstance(source, _CONSTANT) or ast.unparse(source) == "()"


def _default_name(one: _Class, field: Field) -> str:
    return f"_default_{one.name}_{field.name}"


def _hoisted(one: _Class) -> Iterator[tuple[Field, str]]:
    """Defaults that are built once, and shared."""
    for field in one.own:
        if field.init and field.default is not NOTHING and not _is_plain(source := _default_source(one, field)):
            yield field, ast.unparse(source)


def _own_default(one: _Class, field: Field) -> str:
    """What fills a field in that no argument gives: the method that the source marks so."""
    for part in one.node.body:
        if isinstance(part, ast.FunctionDef):
            for decorator in part.decorator_list:
                if ast.unparse(decorator) == f"{field.name}.default":
                    return f"self.{part.name}()"
    raise TypeError(f"{one.name}.{field.name} has no default that is a method")


def _value(one: _Class, field: Field) -> str:
    """What the field becomes: what was given, or what its check makes of it."""
    given: str = field.alias
    place = [each.name for each in one.fields].index(field.name)
    converted = f"_native.converted({one.name}, {place}, {given})"
    if one.transformer is None:
        return given if field.converter is None else converted
    quick = _quick(one, field, given) if _first_converter(one, field) is None else None
    return converted if quick is None else f"_cast(_Any, {given} if {quick} else {converted})"


def _first_converter(one: _Class, field: Field) -> str | None:
    """The converter that the source gives to the field, if it gives one."""
    if field.inherited:
        return None
    return _field_argument(one, field, "converter")


def _field_argument(one: _Class, field: Field, argument: str) -> str | None:
    (statement,) = (each for each in _field_statements(one.node) if each.target.id == field.name)
    if isinstance(statement.value, ast.Call):
        for keyword in statement.value.keywords:
            if keyword.arg == argument and ast.unparse(statement.value.func) in ("field", "attrs_field"):
                return ast.unparse(keyword.value)
    return None


def _quick(one: _Class, field: Field, given: str) -> str | None:
    """The condition under which a given value is right as it is; None: that is not quick to see."""
    kinds, several = classes_in(field.type), get_origin(field.type) is tuple
    if kinds == {str} and not several:
        return f"type({given}) is str and {given}.isascii()"
    if kinds == {type(None)}:
        return f"{given} is None"
    if len(kinds) == 1 and not several and (kind := next(iter(kinds))).__module__ == "builtins":
        return f"type({given}) is {kind.__name__}"
    if field.inherited:
        return None
    if several:
        return f"type({given}) is tuple and {{type(item) for item in {given}}} <= {_exact_name(one, field)}"
    return f"type({given}) in {_exact_name(one, field)}"


def _exact_name(one: _Class, field: Field) -> str:
    return f"_exact_{one.name}_{field.name}"


def _exact(one: _Class) -> Iterator[str]:
    """The classes that are right in a field as they are. A text has to be looked at, and so is none of them."""
    for field in one.own if one.transformer is not None else ():
        if field.init and f" {_exact_name(one, field)}" in _value(one, field):
            annotation = ast.unparse(one.annotations[field.name])
            yield f"{_exact_name(one, field)}: _Final = frozenset(_native.classes_in({annotation}) - {{str}})\n"


def _validation(one: _Class, field: Field) -> Iterator[str]:
    if field.validator is None:
        return
    for part in one.node.body:
        if isinstance(part, ast.FunctionDef):
            for decorator in part.decorator_list:
                if ast.unparse(decorator) == f"{field.name}.validator":
                    yield f"        self.{part.name}(None, self.{field.name})\n"
                    return
    ask = f"_native.validated({one.name}, {field.name!r}, self)"
    least = getattr(field.validator, "bound", None)
    quick = f"if self.{field.name} < {least}: " if getattr(field.validator, "compare_op", "") == ">=" else ""
    yield f"        {quick}{ask}\n"


def _equality(one: _Class) -> Iterator[str]:
    compared = [field.name for field in one.fields if field.eq]
    if not one.made.__dict__.get("__eq__") or one.defines("__eq__") or not _eq_wanted(one):
        return
    same = " and ".join(f"self.{name} == other.{name}" for name in compared) or "True"
    exact = "" if _is_final(one) else " or type(other) is not type(self)"
    yield "    def __eq__(self, other: object) -> bool:\n"
    yield f"        if not isinstance(other, {one.name}){exact}:\n            return NotImplemented\n"
    yield f"        return {same}\n"
    yield "    def __hash__(self) -> int:\n"
    yield f"        return hash(({''.join(f'self.{name}, ' for name in compared)}))\n"


def _eq_wanted(one: _Class) -> bool:
    return not any(
        keyword.arg == "eq" and isinstance(keyword.value, ast.Constant) and keyword.value.value is False
        for decorator in one.node.decorator_list
        if isinstance(decorator, ast.Call)
        for keyword in decorator.keywords
    )


def _is_final(one: _Class) -> bool:
    return any(ast.unparse(decorator) == "final" for decorator in one.node.decorator_list)


def _text_and_pickle(one: _Class) -> Iterator[str]:
    shown = ", ".join(f"{field.name}={{self.{field.name}!r}}" for field in one.fields if field.repr)
    if not one.defines("__repr__") and "__repr__" in one.made.__dict__:
        yield f"    def __repr__(self) -> str:\n        return f'{one.name}({shown})'\n"
    given = "".join(f"self.{field.name}, " for field in one.fields if field.init)
    yield f"    def __reduce__(self) -> _Any:\n        return _native.rebuilt, ({one.name}, ({given}))\n"


def _table(one: _Class) -> Iterator[str]:
    """What gives `attrs.fields`, and the types of the fields, back to those who ask. A text, which is seldom read."""
    types = {field.name: ast.unparse(one.annotations[field.name]) for field in one.own}
    told = "".join(f"field({field.name!r}, {_told(one, field)}),\n" for field in one.own)
    types_text = "".join(f"{name}: {kind}\n" for name, kind in types.items())
    yield f"_native.register({one.name}, {one.transformer}, {types_text!r}, {f'[{told}]'!r})\n"


def _told(one: _Class, field: Field) -> str:
    """The arguments of `field` in the support module."""
    parts = {"default": "NOTHING"}
    if not field.init:
        parts["default"] = f"by_self({one.name}.{_own_default(one, field)[5:-2]})"
    elif field.default is not NOTHING:
        parts["default"] = _default(one, field)
    parts |= {name: str(getattr(field, name)) for name in ("init", "repr", "eq", "kw_only")}
    for name in ("metadata", "converter", "validator"):
        given = _field_argument(one, field, name)
        if given is not None:
            parts[name] = given
    return ", ".join(f"{name}={text}" for name, text in parts.items())
