"""A tool out of a typed function: its schema from the signature and the docstring, its inputs checked by pydantic.

    @tool(effect=EffectClass.READ_ONLY)
    def find_orders(customer: str, most: int = 10) -> list[Order]:
        \"\"\"Find the latest orders of a customer.

        Args:
            customer: the number on the card
            most: how many
        \"\"\"

Inputs are checked strictly, as JSON: "3" is not a number and 1 is not a boolean. Two things that models often do are
put right first: a value that should not be a text is given as JSON in a text ("3", "[1, 2]", "null"), and a whole
number as 3.0.
"""

import functools
import inspect
import typing
import warnings
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Generic, ParamSpec, TypeVar, overload

import attrs
from loopkernel.data.errors import CodecError, Fault, json_path
from loopkernel.data.json_text import Json, canonical_text
from loopkernel.data.tools import (
    Decision,
    EffectClass,
    FieldResource,
    ResourceRule,
    Tool,
    ToolOutput,
    ToolProfile,
)
from loopkernel.later_typing import override

try:
    import pydantic
    import pydantic_core
    from pydantic.json_schema import GenerateJsonSchema, PydanticJsonSchemaWarning
except ModuleNotFoundError as error:
    raise ImportError("a tool of a typed function needs an extra: pip install 'loopkernel[tools]'") from error

from loopkernel_adapters.ports import RunContext, ToolError
from loopkernel_adapters.tools.docstrings import described
from loopkernel_adapters.tools.functions_faults import faults_of, repaired
from loopkernel_adapters.tools.input_schema import JsonObject, with_defaults
from loopkernel_adapters.tools.registry import FunctionTool, TextFunction
from loopkernel_adapters.tools.threads import Aborted, run_in_thread

Source = Callable[..., object]
Parameters = ParamSpec("Parameters")
Returned_co = TypeVar("Returned_co", covariant=True)

MOST_ROUNDS = 3  # of putting an input right: JSON in a text may hold JSON in a text
NO_OUTPUT = "(no output)"

_CONFIG = pydantic.ConfigDict(extra="forbid", validate_by_alias=True, validate_by_name=False)


class ToolSignatureError(TypeError):
    """No tool can be made of this function; the message says why, and what to write instead."""


@attrs.frozen(kw_only=True)
class TypedTool(FunctionTool, Generic[Parameters, Returned_co]):
    """A tool made of a typed function. Called, it is that function."""

    source: Callable[Parameters, Returned_co]

    def __call__(self, *arguments: Parameters.args, **named: Parameters.kwargs) -> Returned_co:
        """What the function itself returns."""
        return self.source(*arguments, **named)


@overload
def tool(
    function: Callable[Parameters, Returned_co],
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    effect: EffectClass | None = None,
    resources: Iterable[ResourceRule] | None = None,
    resource_key: Callable[[str], str] | None = None,
    approval: Decision | None = None,
    timeout_ms: int | None = None,
    serial: bool = False,
    early: bool = False,
    commands: Iterable[str] = (),
) -> TypedTool[Parameters, Returned_co]:
    """A tool of the function."""


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    effect: EffectClass | None = None,
    resources: Iterable[ResourceRule] | None = None,
    resource_key: Callable[[str], str] | None = None,
    approval: Decision | None = None,
    timeout_ms: int | None = None,
    serial: bool = False,
    early: bool = False,
    commands: Iterable[str] = (),
) -> Callable[[Callable[Parameters, Returned_co]], TypedTool[Parameters, Returned_co]]:
    """A decorator that makes a tool of a function."""


def tool(
    function: Callable[Parameters, Returned_co] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    effect: EffectClass | None = None,
    resources: Iterable[ResourceRule] | None = None,
    resource_key: Callable[[str], str] | None = None,
    approval: Decision | None = None,
    timeout_ms: int | None = None,
    serial: bool = False,
    early: bool = False,
    commands: Iterable[str] = (),
) -> (
    TypedTool[Parameters, Returned_co]
    | Callable[[Callable[Parameters, Returned_co]], TypedTool[Parameters, Returned_co]]
):
    """A tool of the function, or a decorator that makes one.

    Of an `async def` the run is awaited; any other function runs in a thread of its own. A parameter of type
    `RunContext` is given the context (`async def` alone), one of type `Aborted` the sign that the run was aborted (any
    other function alone); the model sees neither. What is returned is told as it is (str, ToolOutput) or as JSON.

    Without `effect` and all the other settings the tool has no profile: it counts as dangerous and conflicts with
    everything. With any, `effect` is dangerous where it is not given, `approval` asks where the effect is dangerous,
    and the tool touches the `resources` and nothing else, unless it has `commands`: the parameters that hold a command
    for a shell. Raises ToolSignatureError.
    """
    settings = (effect, resources, approval, timeout_ms)
    shell = tuple(commands)
    profile: ToolProfile | None = None
    if any(setting is not None for setting in settings) or serial or early or shell:
        worst = effect or EffectClass.DANGEROUS
        profile = ToolProfile(
            effect=worst,
            serial=serial,
            resources=tuple(resources or ()),
            approval=approval or (Decision.ASK if worst is EffectClass.DANGEROUS else Decision.ALLOW),
            timeout_ms=timeout_ms,
            early=early,
            commands=shell,
        )

    def made(source: Callable[Parameters, Returned_co]) -> TypedTool[Parameters, Returned_co]:
        entry = _made(source, name, description, profile)
        return entry if resource_key is None else attrs.evolve(entry, resource_key=resource_key)

    return made if function is None else made(function)


def _made(
    source: Callable[Parameters, Returned_co], name: str | None, description: str | None, profile: ToolProfile | None
) -> TypedTool[Parameters, Returned_co]:
    called = name or getattr(source, "__name__", None) or type(source).__name__
    signature = _Signature(source, called)
    for rule in profile.resources if profile is not None else ():
        if isinstance(rule, FieldResource) and rule.field not in signature.names:
            raise ToolSignatureError(f"{called}: the resource {rule.field} is not a parameter; name one of them")
    for field in profile.commands if profile is not None else ():
        if field not in signature.names:
            raise ToolSignatureError(f"{called}: the command {field} is not a parameter; name one of them")

    return TypedTool(
        tool=Tool(
            name=called,
            description=signature.description if description is None else description,
            input_schema=Json.of(signature.schema),
            profile=profile,
        ),
        function=signature,
        judge=signature.faults,
        understood=signature.understood,
        source=source,
    )


# --- the signature ------------------------------------------------------------------------------------


@attrs.frozen
class _Fit:
    """An input that fits, put right where it had to be, and its values."""

    values: pydantic.BaseModel
    given: JsonObject


@attrs.frozen
class _Misfit:
    """An input that does not fit, as far as it could be put right."""

    error: pydantic.ValidationError
    given: JsonObject


class _Signature(TextFunction):
    """The parameters of a function: their schema, and their values out of an input; called with one, the function."""

    def __init__(self, source: Source, name: str) -> None:
        self._source = source
        self._name = name
        # An instance with an async __call__ is not a coroutine function itself.
        plain = inspect.isroutine(source) or isinstance(source, functools.partial)
        call: Source = source if plain else source.__call__  # type: ignore[operator]  # whatever can be called has it
        self._is_async = inspect.iscoroutinefunction(source) or inspect.iscoroutinefunction(call)
        text, of_parameters = described(inspect.getdoc(source) or "")
        self.description = text
        self._given_by_us: dict[str, type] = {}
        self.names: dict[str, str] = {}  # of the parameters, and of the fields that stand for them
        fields: dict[str, Any] = {}  # Any, as create_model has it: a type and a default of it
        hints = self._hints(call)
        for parameter in inspect.signature(source).parameters.values():
            annotation = self._annotation(parameter, hints)
            if annotation is RunContext or annotation is Aborted:
                self._demand_fit(parameter.name, annotation)
                self._given_by_us[parameter.name] = annotation
                continue
            field = f"field_{len(fields)}"  # pydantic has names of its own, which a parameter may have as well
            default: Any = ... if parameter.default is parameter.empty else parameter.default  # as Field has it
            self.names[parameter.name] = field
            fields[field] = (
                _with_description(annotation, of_parameters.get(parameter.name)),
                pydantic.Field(alias=parameter.name, default=default),
            )
        self._model = self._modelled(fields)
        self.schema = self._schema()
        self._demand_fitting_defaults()

    def _refuse(self, problem: str) -> ToolSignatureError:
        return ToolSignatureError(f"{self._name}: {problem}")

    def _hints(self, call: Source) -> Mapping[str, object]:
        while isinstance(call, functools.partial):
            call = call.func
        try:
            return typing.get_type_hints(call, include_extras=True)
        except (NameError, TypeError) as error:
            raise self._refuse(f"its annotations cannot be read: {error}") from error

    def _annotation(self, parameter: inspect.Parameter, hints: Mapping[str, object]) -> object:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise self._refuse(f"the parameter {parameter} takes any number of values; name each parameter")
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise self._refuse(f"the parameter {parameter.name} has no name that can be given; take the / away")
        if parameter.name not in hints:
            raise self._refuse(f"the parameter {parameter.name} has no type; annotate it")
        return hints[parameter.name]

    def _demand_fit(self, name: str, wanted: object) -> None:
        if wanted is RunContext and not self._is_async:
            raise self._refuse(f"{name} is a RunContext, which can be awaited in the event loop alone; use async def")
        if wanted is Aborted and self._is_async:
            raise self._refuse(f"{name} is an Aborted, but an async def is cancelled where it awaits; leave it out")

    def _modelled(self, fields: dict[str, Any]) -> type[pydantic.BaseModel]:
        try:
            return pydantic.create_model("Input", __config__=_CONFIG, **fields)
        except (pydantic.errors.PydanticUserError, TypeError) as error:
            raise self._refuse(f"a parameter has a type that cannot be checked: {first_line(error)}") from error

    def _schema(self) -> JsonObject:
        try:
            schema = plain_schema(self._model.model_json_schema)
            Json.of(schema)
        except (pydantic.errors.PydanticUserError, PydanticJsonSchemaWarning) as error:
            raise self._refuse(
                f"a parameter has a type or a default that JSON cannot say: {first_line(error)}"
            ) from error
        except CodecError as error:
            raise self._refuse(f"a default is nothing that JSON can say: {error}") from error
        return schema

    def _demand_fitting_defaults(self) -> None:
        defaults = with_defaults(self.schema, {})
        for fault in self.faults(defaults):
            if any(fault.path.startswith(json_path([name])) for name in defaults):
                raise self._refuse(f"a default does not fit the type of its parameter: {fault}")

    # --- inputs ---

    @override
    def faults(self, given: JsonObject) -> list[Fault]:
        """All that keeps the input from fitting, also when what models often do is put right."""
        read = self._read(given)
        return list(faults_of(read.error, read.given, [*self.names])) if isinstance(read, _Misfit) else []

    def understood(self, given: JsonObject) -> JsonObject:
        """The input with what models often do put right, as the function gets it."""
        return self._read(given).given

    def _read(self, given: JsonObject, rounds: int = MOST_ROUNDS) -> "_Fit | _Misfit":
        try:
            return _Fit(self._validated(given), given)
        except pydantic.ValidationError as error:
            better = repaired(given, error)
            if better is given or rounds == 0:
                return _Misfit(error, given)
            return self._read(better, rounds - 1)

    def _validated(self, given: JsonObject) -> pydantic.BaseModel:
        return self._model.model_validate_json(canonical_text(given), strict=True)

    # --- calls ---

    @override
    async def __call__(self, given: JsonObject, context: RunContext) -> ToolOutput | str:
        """The output of the function for the input. Raises ToolError, and what the function raises."""
        read = self._read(given)
        if isinstance(read, _Misfit):
            raise self._met_misfit(read.error) from read.error
        return await self._output(read.values, context)

    @override
    def ready(self, text: str) -> Callable[[RunContext], Awaitable[ToolOutput | str]] | None:
        try:
            values = self._model.__pydantic_validator__.validate_json(text, strict=True)
        except pydantic.ValidationError:
            return None
        return functools.partial(self._output, values)

    async def _output(self, values: pydantic.BaseModel, context: RunContext) -> ToolOutput | str:
        try:
            if not self._is_async:
                return as_output(await self._called_in_thread(values))
            returned = self._source(**self._arguments(values, context))
            return as_output(await returned)  # type: ignore[misc]  # of a coroutine function: an isinstance check would cost a call
        except pydantic.ValidationError as error:
            raise self._met_misfit(error) from error

    def _met_misfit(self, error: pydantic.ValidationError) -> ToolError:
        """In words: its own text is long, and leads the model to a web page."""
        faults = "; ".join(str(fault) for fault in faults_of(error, None))
        return ToolError(f"{self._name} met data that does not fit: {faults}")

    def _arguments(self, values: pydantic.BaseModel, ours: RunContext | Aborted) -> dict[str, object]:
        """The values by the names of the parameters, and what we give ourselves."""
        arguments: dict[str, object] = dict.fromkeys(self._given_by_us, ours)
        for name, field in self.names.items():
            arguments[name] = getattr(values, field)
        return arguments

    async def _called_in_thread(self, values: pydantic.BaseModel) -> object:
        """What the function returns. Raises what it raises."""
        returned = await run_in_thread(
            lambda aborted: self._source(**self._arguments(values, aborted)), f"the tool {self._name}"
        )
        return await returned if inspect.isawaitable(returned) else returned  # as of an async def that is decorated


def plain_schema(made: Callable[..., JsonObject]) -> JsonObject:
    """The schema that pydantic makes, without titles. Raises PydanticUserError, PydanticJsonSchemaWarning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", PydanticJsonSchemaWarning)
        schema = made(schema_generator=_WithoutTitles)
    definitions = schema.get("$defs")
    for part in (schema, *(definitions.values() if isinstance(definitions, dict) else ())):
        if isinstance(part, dict):
            part.pop("title", None)
    return schema


class _WithoutTitles(GenerateJsonSchema):
    """Titles say again what names say, and models pay for every word."""

    @override
    def field_title_should_be_set(self, schema: object) -> bool:
        return False


def _with_description(annotation: object, text: str | None) -> object:
    if text is None or any(
        getattr(extra, "description", None) is not None for extra in getattr(annotation, "__metadata__", ())
    ):
        return annotation
    described_type: object = typing.Annotated[annotation, pydantic.Field(description=text)]
    return described_type


def first_line(error: BaseException) -> str:
    """What pydantic has against a type, in short."""
    return str(error).partition("\n")[0].partition(". ")[0]  # what follows is advice for users of pydantic


# --- what is returned ---------------------------------------------------------------------------------


def as_output(returned: object) -> ToolOutput | str:
    """What a model is told of a value that a function has returned. Raises TypeError for what JSON cannot say."""
    if isinstance(returned, ToolOutput | str):
        return returned
    if returned is None:
        return NO_OUTPUT
    try:
        return pydantic_core.to_json(returned, fallback=_plain, bytes_mode="base64", inf_nan_mode="strings").decode()
    except ValueError as error:  # pydantic's own, or a text that cannot be encoded
        raise TypeError(f"the tool returned a {type(returned).__name__}, which cannot be told: {error}") from error


def _plain(value: object) -> object:
    kind = type(value)
    if attrs.has(kind):
        return {field.name: getattr(value, field.name) for field in attrs.fields(kind)}
    raise TypeError(f"a {type(value).__name__} is nothing that JSON can say")
