"""Deltas of the model family: reports about one model call (rule DELTA-4)."""

from typing import final

from loopkernel.data.blocks import RawInput
from loopkernel.data.checked_fields import checked_fields
from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.tools import Verdict
from loopkernel.data.usage import NO_USAGE, Usage
from loopkernel.data.value_classes import frozen
from loopkernel.data.words import ErrorClass, StopReason


@frozen
class FromModel:
    """Family: reports about the model call `operation`."""

    operation: ModelOperation


@final
@frozen(field_transformer=checked_fields)
class ModelStarted(FromModel):
    """The model `model` began to answer. For display: the reply has the name of the model that was asked."""

    model: str


@final
@frozen(field_transformer=checked_fields)
class ModelText(FromModel):
    """The next piece of text."""

    text: str


@final
@frozen(field_transformer=checked_fields)
class ModelReasoning(FromModel):
    """The next piece of visible reasoning."""

    text: str


@final
@frozen(field_transformer=checked_fields)
class ModelOpaque(FromModel):
    """A provider's own item, whole."""

    payload: Json


@final
@frozen(field_transformer=checked_fields)
class ModelInput(FromModel):
    """The next piece of the arguments of the call that is being written; for display only."""

    text: str


@final
@frozen(kw_only=True, field_transformer=checked_fields)
class ModelCall(FromModel):
    """One complete tool call. `verdict` may bring the adapter's check with it (rule TOOL-18)."""

    provider_id: str
    tool: str
    input: Json | RawInput
    after: tuple[str, ...] = ()
    verdict: Verdict | None = None


@final
@frozen(kw_only=True, field_transformer=checked_fields)
class ModelServerCall(FromModel):
    """A call that the provider runs itself."""

    provider_id: str
    tool: str
    input: Json
    result: Json | None = None


@final
@frozen(field_transformer=checked_fields)
class ModelUsage(FromModel):
    """What the reply has used so far."""

    usage: Usage


@final
@frozen(field_transformer=checked_fields)
class Redaction:
    """Texts that a guardrail puts in place of the stored user message and of the reply; None keeps one."""

    user_text: str | None = None
    reply_text: str | None = None


@final
@frozen(field_transformer=checked_fields)
class ModelCompleted(FromModel):
    """The reply is complete."""

    stop: StopReason
    usage: Usage = NO_USAGE
    redaction: Redaction | None = None
    cut_call: bool = False  # the last call of the reply has arguments that were cut


@final
@frozen(kw_only=True, field_transformer=checked_fields)
class ModelFailed(FromModel):
    """The call failed. `retry_after_ms` is what the server asked to wait.

    `unfinished`: so many characters of the text and reasoning that came last belong to a block that had not ended;
    None: the adapter does not know, and all of that text may.
    """

    error: ErrorClass
    message: str = ""
    retry_after_ms: int | None = None
    usage: Usage = NO_USAGE
    unfinished: int | None = None


ModelDelta = (
    ModelText
    | ModelReasoning
    | ModelInput
    | ModelCall
    | ModelCompleted
    | ModelUsage
    | ModelStarted
    | ModelOpaque
    | ModelServerCall
    | ModelFailed
)

# What a partial reply is made of, kept as it came (rule INFER-3).
Piece = ModelText | ModelReasoning | ModelInput | ModelCall | ModelOpaque | ModelServerCall
