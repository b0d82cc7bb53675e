"""Strategies for the calls of one reply: a ledger that agrees with itself, and the stream of the reply so far."""

from collections.abc import Sequence

from attrs import evolve, frozen
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from loopkernel.data.blocks import RawInput, ToolCall
from loopkernel.data.held_runs import HeldRun
from loopkernel.data.ids import ModelOperation, OperationKind
from loopkernel.data.json_text import Json
from loopkernel.data.ledgers import (
    Ledger,
    LedgerEntry,
)
from loopkernel.data.messages import AssistantMessage
from loopkernel.data.model_deltas import (
    ModelCall,
    ModelInput,
    ModelOpaque,
    ModelReasoning,
    ModelServerCall,
    ModelText,
    Piece,
)
from loopkernel.data.threads import Thread
from loopkernel.data.vector import Vector
from loopkernel.data.words import TimerPurpose
from loopkernel.testing.strategies.call_stages import OVER, WORKING, BuiltCalls, Stage, claimed, effects
from loopkernel.testing.strategies.conversation import (
    call_of,
    tool_calls,
)
from loopkernel.testing.strategies.numbers import Numbers
from loopkernel.testing.strategies.values import (
    json_texts,
    names,
    provider_ids,
    raw_texts,
    resource_keys,
)


@frozen
class Calls:
    """The calls of a reply, and the runs of them that outlast their answers."""

    ledger: Ledger
    held: tuple[HeldRun, ...]


@st.composite
def calls_in(
    draw: DrawFn,
    reply: ModelOperation,
    numbers: Numbers,
    stages: Sequence[Stage] = WORKING,
    least: int = 0,
) -> Calls:
    """A few calls of the reply, each at one of the stages; one is open if there are at least `least`."""
    numbers.pass_over(draw, OperationKind.CHECK, OperationKind.RUN, OperationKind.TIMER, OperationKind.HOOK)
    numbers.newest[OperationKind.MODEL] = reply
    build = BuiltCalls(draw, numbers)
    wanted = draw(st.lists(st.sampled_from(stages), min_size=least, max_size=3))
    if least and all(stage in OVER for stage in wanted):
        wanted[0] = draw(st.sampled_from([stage for stage in stages if stage not in OVER]))
    for place, stage in enumerate(wanted):
        call = call_of(reply, place + 1, draw(tool_calls))
        if (least and place == 0) or draw(st.integers(0, 3)) > 0:
            call = draw(_sound(call, [entry.call.provider_id for entry in build.entries]))
        build.add(call, stage)
    if least and not any(entry.is_open for entry in build.entries):
        # What was to be open depends on what ended otherwise, or cannot run at all.
        call = call_of(reply, len(build.entries) + 1, draw(tool_calls))
        build.add(draw(_sound(call, [])), draw(st.sampled_from([stage for stage in stages if stage not in OVER])))
    ledger = build.ledger(reply)
    if draw(st.booleans()):
        ledger = evolve(ledger, entries=Vector.of(draw(_in_batches(build.entries))))
    return Calls(ledger, tuple(build.held))


@st.composite
def _sound(draw: DrawFn, call: ToolCall, earlier: list[str]) -> ToolCall:
    """The call with arguments that parse, and dependent on earlier calls alone, if on any."""
    after: tuple[str, ...] = ()
    given = Json.of({"path": draw(resource_keys)})
    if earlier:
        after = draw(st.just(()) | st.sampled_from(earlier).map(lambda name: (name,)))
        given = draw(st.just(given) | st.sampled_from(earlier).map(lambda name: Json.of({"path": {"$result": name}})))
    return evolve(call, input=given, after=after)


@st.composite
def _in_batches(draw: DrawFn, entries: list[LedgerEntry]) -> list[LedgerEntry]:
    """The first calls are in batches: each joins the current one or begins another, but for some that never ran."""
    first, placed = 0, list[LedgerEntry]()
    upto = draw(st.integers(0, len(entries)))
    for place, entry in enumerate(entries[:upto]):
        if entry.is_open or entry.runs or draw(st.booleans()):
            first = draw(st.sampled_from((first, place)))
            entry = evolve(entry, batch=first)
        placed.append(entry)
    return [*placed, *entries[upto:]]


@st.composite
def runs_held_elsewhere(draw: DrawFn, thread: Thread, numbers: Numbers) -> tuple[HeldRun, ...]:
    """Runs of calls of earlier replies that have not stopped, or go on in the background."""
    held: list[HeldRun] = []
    replies = [message for message in thread if isinstance(message, AssistantMessage)]
    for call in [call for message in replies for call in message.calls]:
        this_reply = call.id.reply == numbers.newest[OperationKind.MODEL]
        if this_reply or isinstance(call.input, RawInput) or not draw(st.booleans()):
            continue
        operation, grace = numbers.mint_run(), None
        if draw(st.booleans()):
            numbers.cut_short(OperationKind.RUN, operation)
            grace = numbers.mint_timer(draw, TimerPurpose.GRACE)
        held.append(
            HeldRun(
                operation=operation,
                call=call.id,
                tool=call.tool,
                input=call.input,
                runs=draw(st.integers(1, 2)),
                claims=draw(claimed),
                grace=grace,
                effect=draw(effects),
                handle=draw(st.booleans()),
                approved=draw(st.booleans()),
            )
        )
    return tuple(held)


def ledgers(reply: ModelOperation, least: int = 0) -> SearchStrategy[Ledger]:
    """The ledger of up to three calls, each anywhere on its way; one is open if there are at least `least`."""
    return st.builds(Numbers).flatmap(lambda numbers: calls_in(reply, numbers, least=least)).map(_ledger_of)


def _ledger_of(calls: Calls) -> Ledger:
    return calls.ledger


def calls_of(ledger: Ledger) -> tuple[ToolCall, ...]:
    """The calls, in the model's order."""
    return tuple(entry.call for entry in ledger.entries)


def _other_pieces(reply: ModelOperation) -> SearchStrategy[Piece]:
    return st.one_of(
        st.builds(ModelText, st.just(reply), raw_texts),
        st.builds(ModelReasoning, st.just(reply), raw_texts),
        st.builds(ModelInput, st.just(reply), raw_texts),
        st.builds(ModelOpaque, st.just(reply), json_texts),
        st.builds(ModelServerCall, st.just(reply), provider_id=provider_ids, tool=names, input=json_texts),
    )


@st.composite
def pieces_of(draw: DrawFn, ledger: Ledger) -> Vector[Piece]:
    """A stream that holds the calls of the ledger, in their order, among other pieces."""
    pieces: list[Piece] = []
    others = st.lists(_other_pieces(ledger.reply), max_size=2)
    checked = set(ledger.checked)
    for place, entry in enumerate(ledger.entries):
        pieces += draw(others)
        pieces.append(
            ModelCall(
                ledger.reply,
                provider_id=entry.call.provider_id,
                tool=entry.call.tool,
                input=entry.call.input,
                after=entry.call.after,
                verdict=None if place in checked else entry.verdict,
            )
        )
    return Vector.of([*pieces, *draw(others)])
