"""An output of a Python type: the tool that a model gives it to, and the value out of what the model gave.

Whatever pydantic reads is such a type: its models, dataclasses, TypedDicts, and plain types. What is an object as JSON
is the tool's whole input; of anything else, as a list or a number, it is the field `value`.
"""

from typing import Any, Generic, TypeVar

import pydantic
from loopkernel.data.errors import Fault
from loopkernel.data.json_text import Json, canonical_text
from loopkernel.data.tools import Decision, EffectClass, Tool, ToolProfile

from loopkernel_adapters.ports import RunContext
from loopkernel_adapters.tools.functions import MOST_ROUNDS, first_line, plain_schema
from loopkernel_adapters.tools.functions_faults import faults_of, repaired
from loopkernel_adapters.tools.input_schema import JsonObject
from loopkernel_adapters.tools.registry import FunctionTool

Output = TypeVar("Output")

OUTPUT_TOOL = "give_output"
_DESCRIPTION = "Give the final answer. This ends the task: call it once, by itself, when everything else is done."


class OutputType(Generic[Output]):
    """The type that an agent's answers have. Raises TypeError where JSON cannot say it."""

    def __init__(self, kind: type[Output]) -> None:
        self._reader: pydantic.TypeAdapter[Any]  # of the type, or of an object around a value of it
        try:
            self._reader = pydantic.TypeAdapter(kind)
            schema = plain_schema(self._reader.json_schema)
            self._is_object = schema.get("type") == "object"
            if not self._is_object:
                self._reader = pydantic.TypeAdapter(pydantic.create_model("Output", value=(kind, ...)))
                schema = plain_schema(self._reader.json_schema)
        except (pydantic.errors.PydanticUserError, pydantic.json_schema.PydanticJsonSchemaWarning, TypeError) as error:
            raise TypeError(
                f"output_type {kind!r} is not a type that JSON can say ({first_line(error)}); give a pydantic model, a "
                "dataclass, a TypedDict, or a plain type such as list[str]"
            ) from error
        self._schema = schema

    def tool(self) -> FunctionTool:
        """The tool that takes it; it is never run, since its call ends the turn (rule CALL-5)."""
        profile = ToolProfile(effect=EffectClass.READ_ONLY, approval=Decision.ALLOW)
        tool = Tool(name=OUTPUT_TOOL, description=_DESCRIPTION, input_schema=Json.of(self._schema), profile=profile)
        return FunctionTool(tool=tool, function=_unrun, judge=self._faults)

    def read(self, given: Json) -> Output:
        """The value. Raises ValueError where it does not fit, as one of an older log may not."""
        value = given.value()
        found = self._read(value if isinstance(value, dict) else {}, MOST_ROUNDS)
        if isinstance(found, tuple):
            faults = "; ".join(str(fault) for fault in found)
            raise ValueError(f"the output in the log does not fit the output_type: {faults}")
        output: Output = found.value if self._is_object else found.value.value
        return output

    def _faults(self, given: JsonObject) -> tuple[Fault, ...]:
        found = self._read(given, MOST_ROUNDS)
        return found if isinstance(found, tuple) else ()

    def _read(self, given: JsonObject, rounds: int) -> "_Fit | tuple[Fault, ...]":
        """The value, with what models often do put right; else all that keeps it from fitting."""
        try:
            return _Fit(self._reader.validate_json(canonical_text(given), strict=True))
        except pydantic.ValidationError as error:
            better = repaired(given, error)
            if better is given or rounds == 0:
                return tuple(faults_of(error, given))
            return self._read(better, rounds - 1)


class _Fit:
    """What fits: it may be a tuple, as the faults are."""

    def __init__(self, value: Any) -> None:  # of the type, which pydantic alone has seen
        self.value = value


def _unrun(given: JsonObject, context: RunContext) -> str:
    raise AssertionError("an output is not run")
