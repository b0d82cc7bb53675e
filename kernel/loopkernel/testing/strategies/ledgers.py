"""Strategies for the calls of one reply: a ledger whose counts agree, and the stream of the reply so far."""

from attrs import evolve
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from loopkernel.data.blocks import ToolCall
from loopkernel.data.ids import CheckOperation, ModelOperation, RunOperation
from loopkernel.data.ledgers import Ledger, LedgerEntry
from loopkernel.data.model_deltas import (
    ModelCall,
    ModelInput,
    ModelOpaque,
    ModelReasoning,
    ModelServerCall,
    ModelText,
    Piece,
)
from loopkernel.data.vector import Vector
from loopkernel.data.words import CallStatus
from loopkernel.testing.strategies.conversation import (
    call_of,
    result_of,
    tool_calls,
    tool_results,
    valid_calls,
)
from loopkernel.testing.strategies.values import json_texts, names, provider_ids, raw_texts, texts

_QUEUED, _RUNNING, _ASKING, _ANSWERED = (
    CallStatus.QUEUED,
    CallStatus.IN_PROGRESS,
    CallStatus.BLOCKED_ON_USER,
    CallStatus.DONE,
)


@st.composite
def ledgers(draw: DrawFn, reply: ModelOperation, least: int = 0, asking: bool = False) -> Ledger:
    """The ledger of up to three calls, each anywhere on its way; one is open if there are at least `least`.

    If `asking`, a call waits for a person, and none runs.
    """
    first_check, first_run = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    anywhere = (_QUEUED, _ASKING, _ANSWERED) if asking else (_QUEUED, _RUNNING, _ASKING, _ANSWERED)
    statuses = draw(st.lists(st.sampled_from(anywhere), min_size=least, max_size=3))
    if asking:
        statuses.insert(draw(st.integers(0, len(statuses))), _ASKING)
    elif least and all(status is _ANSWERED for status in statuses):
        statuses[0] = _RUNNING
    entries: list[LedgerEntry] = []
    checked: list[int] = []
    started: list[int] = []
    for place, status in enumerate(statuses):
        entry = LedgerEntry(call=call_of(reply, place + 1, draw(tool_calls)))
        if draw(st.booleans()):  # else the verdict came with the call
            checked.append(place)
            if status is _QUEUED and draw(st.booleans()):
                entries.append(evolve(entry, check=CheckOperation(first_check + len(checked) - 1)))
                continue
        if status in (_RUNNING, _ANSWERED):
            started.append(place)
        run = RunOperation(first_run + len(started) - 1)
        entries.append(_checked(draw, entry, status, run))
    waiting = [place for place, entry in enumerate(entries) if entry.status is _QUEUED]
    return Ledger(
        reply=reply,
        entries=Vector.of(entries),
        unanswered=sum(entry.is_open for entry in entries),
        running=sum(entry.status is _RUNNING for entry in entries),
        next_queued=min(waiting, default=len(entries)),
        first_check=first_check,
        first_run=first_run,
        checked=Vector.of(checked),
        started=Vector.of(started),
    )


def _checked(draw: DrawFn, entry: LedgerEntry, status: CallStatus, run: RunOperation) -> LedgerEntry:
    """The entry, found valid, where it stands now."""
    entry = evolve(entry, verdict=draw(valid_calls))
    if status in (_QUEUED, _ASKING):
        return evolve(entry, status=status)
    progress = Vector.of(draw(st.lists(texts, max_size=1)))
    entry = evolve(entry, status=_RUNNING, operation=run, runs=1, progress=progress)
    if status is _RUNNING:
        return entry
    result = result_of(entry.call, draw(tool_results))
    return evolve(entry, status=result.status, result=result)


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
    for entry in ledger.entries:
        pieces += draw(others)
        pieces.append(
            ModelCall(
                ledger.reply,
                provider_id=entry.call.provider_id,
                tool=entry.call.tool,
                input=entry.call.input,
                after=entry.call.after,
                verdict=None if entry.check is not None else entry.verdict,
            )
        )
    return Vector.of([*pieces, *draw(others)])
