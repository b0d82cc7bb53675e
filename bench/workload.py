"""The work that is measured: rounds of text, one call, its check and its result, at a thread of a given length."""

from loopkernel.data.blocks import TextBlock
from loopkernel.data.deltas import Delta
from loopkernel.data.ids import CheckOperation, ModelOperation, RunOperation
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelCall, ModelCompleted, ModelText
from loopkernel.data.policy import Compaction, Policy
from loopkernel.data.states import Initial, State, Streaming
from loopkernel.data.steps import Context
from loopkernel.data.thread_deltas import Acquired, Created
from loopkernel.data.tool_deltas import ToolChecked, ToolSucceeded
from loopkernel.data.tools import AccessMode, Claim, EffectClass, Tool, ToolOutput, ToolProfile, ValidCall
from loopkernel.data.user_deltas import Say
from loopkernel.data.words import StopReason
from loopkernel.loop.transition import transition

READ = Tool(name="read_file", profile=ToolProfile(effect=EffectClass.READ_ONLY))
VERDICT = ValidCall((Claim("notes.txt", AccessMode.READ),))
# Neither the limit of rounds nor a full context comes in the way; both are looked at before each request.
UNENDING = Policy(max_turns=None, compaction=Compaction(window_tokens=1_000_000_000))
OUTPUT = ToolOutput(content=(TextBlock("buy milk"),))


def round_of(number: int) -> tuple[Delta, ...]:
    """The five deltas of round `number`, counted from 1. No two rounds read the same file: that would be a loop."""
    operation = ModelOperation(number)
    tool_input = Json.of({"path": f"notes-{number}.txt"})
    return (
        ModelText(operation, "I will read the file."),
        ModelCall(operation=operation, provider_id="call", tool="read_file", input=tool_input),
        ModelCompleted(operation, StopReason.TOOL_USE),
        ToolChecked(CheckOperation(number), VERDICT),
        ToolSucceeded(RunOperation(number), OUTPUT),
    )


def streaming_after(rounds: int) -> Streaming:
    """A session whose thread holds so many whole rounds, with the next request under way."""
    state: State = Initial()
    opening: tuple[Delta, ...] = (
        Created(session_id="bench", policy=UNENDING, tools=(READ,)),
        Acquired(),
        Say(content=(TextBlock("Read the notes."),)),
    )
    for delta in opening:
        state = transition(state, Context(delta, 0)).next
    for number in range(1, rounds + 1):
        for delta in round_of(number):
            state = transition(state, Context(delta, number)).next
    assert isinstance(state, Streaming)
    assert len(state.session.thread) == 1 + 2 * rounds
    return state


def contexts(first: int, rounds: int) -> tuple[tuple[Context, ...], ...]:
    """The contexts of so many rounds from round `first` on, built before the clock starts."""
    return tuple(tuple(Context(delta, number) for delta in round_of(number)) for number in range(first, first + rounds))
