"""What a scenario says of the world around the loop: tools, model, hooks, sub-agents, a thread to start from.

Times are milliseconds of virtual time. JSON values are plain Python data, since this is test data.
"""

import enum
from collections.abc import Mapping
from typing import Annotated, TypeAlias, final

from attrs import Factory, frozen

from loopkernel.data.model_deltas import Redaction
from loopkernel.data.tools import ToolProfile
from loopkernel.data.usage import Usage
from loopkernel.data.words import CallStatus, HookPoint, StopReason
from loopkernel.testing.scenarios.data.marks import EndStatus, Mark, Name, ReportedError, WrittenAs

# What the summariser and the handoff answer where a scenario does not say.
DEFAULT_SUMMARY = "What came before, in short."
DEFAULT_HANDOFF = "the next thread"

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"


@final
@frozen
class ToolReturns:
    """The run succeeds with this text."""

    text: Annotated[str, WrittenAs("returns")] = "ok"


@final
@frozen
class ToolFails:
    """The run ends in an error with this text."""

    text: Annotated[str, WrittenAs("fails")]


@final
@frozen
class ToolHangs:
    """The run never reports."""


ToolOutcome = ToolReturns | ToolFails | ToolHangs


@final
@frozen
class Progress:
    """What a run reports on the way, `at_ms` after its start."""

    at_ms: int
    text: str


@final
@frozen
class ToolQuestion:
    """What a run asks of the person, `at_ms` after its start."""

    at_ms: int
    question: str


@final
@frozen(kw_only=True)
class Behaviour:
    """What one run of a tool does."""

    takes_ms: int = 0
    outcome: Annotated[ToolOutcome, Mark.FLAT] = ToolReturns()
    progress: Annotated[tuple[Progress, ...], Mark.NONE] = ()
    final: bool = False
    stops_loop: bool = False
    ignores_abort: bool = False
    asks: Annotated[ToolQuestion | None, Mark.NONE] = None
    background: bool = False

    @property
    def lasts_ms(self) -> int:
        """How long the run lasts, less the wait for an answer: long enough for all that it is to say."""
        told = [progress.at_ms for progress in self.progress]
        return max(self.takes_ms, 0 if self.asks is None else self.asks.at_ms, *told)


@final
@frozen(kw_only=True)
class ToolScript:
    """A tool: its profile (None: known, but without one), its input's JSON Schema, and how its runs go."""

    profile: ToolProfile | None = Factory(ToolProfile)
    input_schema: Annotated[JsonValue, Mark.SCHEMA, WrittenAs("input")] = Factory(dict)
    behaviour: Annotated[Behaviour, Mark.FLAT] = Behaviour()
    runs: tuple[Behaviour, ...] = ()
    calls: Mapping[Name, Behaviour] = Factory(dict)

    def behaviour_of(self, call: str, run: int) -> Behaviour:
        """How the `run`-th run of the tool (from 1) goes, made for `call`: the call decides, else the run."""
        if call in self.calls:
            return self.calls[call]
        return self.runs[run - 1] if 1 <= run <= len(self.runs) else self.behaviour


@final
@frozen(kw_only=True)
class ScriptedCall:
    """A tool call of a reply.

    `id` is the provider's, `name` the scenario's (the same, unless the document has `as`). `raw`, if given,
    stands for arguments that do not parse; `input` is then without meaning. `after` names what it depends on.
    """

    id: str
    name: str
    tool: str
    input: JsonValue = Factory(dict)
    raw: str | None = None
    after: tuple[Name, ...] = ()


@final
@frozen
class TextPiece:
    """A part of the reply's text that has streamed `at_ms` after the request."""

    at_ms: int
    text: str


@final
@frozen
class ReasoningPiece:
    """A part of the reply's reasoning that has streamed `at_ms` after the request."""

    at_ms: int
    text: Annotated[str, WrittenAs("reasoning")]


@final
@frozen
class CallPiece:
    """The call (the scenario's name) is complete `at_ms` after the request."""

    at_ms: int
    call: Name


@final
@frozen
class UsagePiece:
    """What the reply is reported to have used in all, `at_ms` after the request."""

    at_ms: int
    usage: Usage


Piece = TextPiece | ReasoningPiece | CallPiece | UsagePiece


@final
@frozen
class ModelCompletes:
    """The reply ends properly. `cut` names the call whose arguments were cut, if `stop` is `max_tokens`."""

    stop: StopReason
    cut: Name | None = None


@final
@frozen
class ModelFails:
    """The model call fails with a classified error, and perhaps the server's wish when to be asked again.

    `unfinished`: how many characters at the end of what had come belong to a block that had not ended.
    """

    error_class: Annotated[ReportedError, WrittenAs("fails")]
    retry_after_ms: int | None = None
    unfinished: int | None = None


@final
@frozen
class ModelHangs:
    """The model never answers, or never goes on."""


@final
@frozen
class ModelEndsEarly:
    """The stream ends without a completion."""


ModelEnding = ModelCompletes | ModelFails | ModelHangs | ModelEndsEarly


@final
@frozen(kw_only=True)
class ModelEntry:
    """The answer to one request, complete after `takes_ms`. Without `pieces`, all streams at the end."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[ScriptedCall, ...] = ()
    server_calls: tuple[ScriptedCall, ...] = ()
    usage: Usage | None = None
    takes_ms: int = 0
    pieces: tuple[Piece, ...] = ()
    model_name: str | None = None
    redaction: Redaction | None = None
    ending: Annotated[ModelEnding, Mark.FLAT] = ModelCompletes(StopReason.END_TURN)


class HookAnswerKind(enum.Enum):
    """What a gated hook may answer (rule HOOK-2)."""

    CONTINUE = "continue"
    BLOCK = "block"
    MODIFY = "modify"
    RETRY = "retry"


@final
@frozen(kw_only=True)
class HookReplies:
    """The hook answers. `input`, `result` and `text` are what `modify` puts in place; None: not given."""

    answer: HookAnswerKind = HookAnswerKind.CONTINUE
    why: str | None = None
    input: JsonValue = None
    result: str | None = None
    text: str | None = None


@final
@frozen
class HookFails:
    """The hook fails with this text."""

    text: Annotated[str, WrittenAs("fails")]


@final
@frozen
class HookHangs:
    """The hook never answers."""


@final
@frozen(kw_only=True)
class HookScript:
    """The answer to the first gated hook asked at `point` (about `call`, if given) that finds it unused."""

    point: HookPoint
    call: Name | None = None
    takes_ms: int = 0
    outcome: Annotated[HookReplies | HookFails | HookHangs, Mark.FLAT] = HookReplies()


@final
@frozen
class SummaryText:
    """The summariser's text, and what it used."""

    text: str = DEFAULT_SUMMARY
    usage: Usage | None = None


@final
@frozen
class SummaryFails:
    """The summariser fails with this text."""

    text: Annotated[str, WrittenAs("fails")]


@final
@frozen(kw_only=True)
class SummaryScript:
    """One answer of the summariser."""

    outcome: Annotated[SummaryText | SummaryFails, Mark.FLAT] = SummaryText()
    takes_ms: int = 0


@final
@frozen(kw_only=True)
class CorrectionScript:
    """One answer of course correction; without text there is nothing to correct."""

    text: str | None = None
    takes_ms: int = 0


@final
@frozen
class HandoffDone:
    """The work goes on in this thread."""

    thread: str = DEFAULT_HANDOFF


@final
@frozen
class HandoffFails:
    """The handoff fails with this text."""

    text: Annotated[str, WrittenAs("fails")]


@final
@frozen(kw_only=True)
class HandoffScript:
    """The answer to one handoff."""

    outcome: Annotated[HandoffDone | HandoffFails, Mark.FLAT] = HandoffDone()
    takes_ms: int = 0


@final
@frozen(kw_only=True)
class ChildScript:
    """A sub-agent: its model, and its tools, where they are not the parent's (None)."""

    model: tuple[ModelEntry, ...]
    model_rest: ModelEntry | None = None
    tools: Mapping[str, ToolScript] | None = None


class Role(enum.Enum):
    """Who speaks in a message."""

    USER = "user"
    ASSISTANT = "assistant"


@final
@frozen(kw_only=True)
class StartResult:
    """A tool result of a thread that was found elsewhere."""

    call: Name
    status: EndStatus = CallStatus.DONE
    text: str = ""


@final
@frozen(kw_only=True)
class StartMessage:
    """A message of a thread that was found elsewhere, however broken."""

    role: Role
    text: str | None = None
    calls: tuple[ScriptedCall, ...] = ()
    results: tuple[StartResult, ...] = ()
