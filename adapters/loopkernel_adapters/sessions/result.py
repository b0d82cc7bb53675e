"""What has come of a turn, and what to do where that is not an answer."""

from typing import TYPE_CHECKING, Generic

from attrs import field, frozen
from loopkernel.data.blocks import ToolResult
from loopkernel.data.json_text import Json
from loopkernel.data.sessions import ShownError
from loopkernel.data.states import State
from loopkernel.data.usage import NO_USAGE, Usage
from loopkernel.data.words import NATURAL_ENDS, RefusalReason, TurnEndReason
from loopkernel_adapters.sessions.waiting_calls import WaitingCall

if TYPE_CHECKING:  # what stands for an output without a type, where nothing else is said
    from loopkernel.later_typing import TypeVar

    Output_co = TypeVar("Output_co", covariant=True, default=Json)
else:
    from typing import TypeVar

    Output_co = TypeVar("Output_co", covariant=True)


class NoAnswer(Exception):
    """A turn has come to no answer. The message says why, and what to do."""


@frozen(kw_only=True)
class Result(Generic[Output_co]):
    """What has come of a turn.

    `run` is the id to go on with. `reason` is why the turn ended; None: it has not, and `waiting` says what waits for a
    person, or the message is still in the queue. `text` is the last text of the model in this turn, `calls` are the
    answers to its tool calls, in the order in which they came. `output` is what the model gave to the policy's
    `output_tool`, checked as its inputs are, and a value of the agent's `output_type` where it has one; None where the
    turn did not end with that (`reason` is not `OUTPUT`). `usage` is that of the whole run so far. `refused`: what was
    said was not taken, and why. `error` is the failure of the model that the turn ended with. `state` is that of the
    kernel, and is not printed. `problem` says in words why there is no whole answer.
    """

    run: str
    reason: TurnEndReason | None
    text: str = ""
    usage: Usage = NO_USAGE
    calls: tuple[ToolResult, ...] = ()
    output: Output_co | None = None
    waiting: tuple[WaitingCall, ...] = ()
    refused: RefusalReason | None = None
    error: ShownError | None = None
    state: State = field(repr=False)

    @property
    def problem(self) -> str | None:
        """Why the model has not come to an end of its own, in words; None: it has."""
        if self.refused is not None:
            return f"what was said was not taken ({_words(self.refused.value)}); say it again when the run is at rest"
        if self.waiting:
            calls = ", ".join(f"{call.tool} (call {'/'.join(map(str, call.path))})" for call in self.waiting)
            return (
                f"a person has to answer first: {calls}; give the agent approve=..., or go on with run {self.run!r} "
                "in a session, and answer there"
            )
        if self.reason is None:
            return "the message waits behind the turn that is under way"
        if self.reason in NATURAL_ENDS:
            return None
        if self.reason is TurnEndReason.ERROR and self.error is not None:
            told = f"the model failed ({_words(self.error.error.value)})"
            return f"{told}: {self.error.message}" if self.error.message else told
        return f"the turn ended early: {_words(self.reason.value)}"

    def text_or_raise(self) -> str:
        """The text of an answer. Raises NoAnswer where there is none, or where it is not whole."""
        if self.problem is not None:
            raise NoAnswer(self.problem)
        if not self.text:
            raise NoAnswer(
                "the model ended without a word" if self.output is None else "the answer is the output alone"
            )
        return self.text

    def output_or_raise(self) -> Output_co:
        """The output. Raises NoAnswer where there is none."""
        if self.output is not None:
            return self.output
        raise NoAnswer(self.problem or "the model ended without an output: a policy with output_required demands one")


def _words(value: str) -> str:
    return value.replace("_", " ").replace("-", " ")
