"""Logs of loopkernel itself, as files of lines: what is told here is what the kernel made of them.

Each line has a number and a checksum, and the parser of the store judges them. The log is folded as it is read, and the
events of the fold say which of its deltas counted. A damaged line is passed over: what follows is folded without it.
Times are told without those in which nothing ran: a process that was down for an hour has not kept anybody waiting.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from attrs import Factory, define, frozen
from loopkernel.data.blocks import (
    AssistantBlock,
    OpaqueBlock,
    ReasoningBlock,
    ServerCall,
    TextBlock,
    ToolCall,
    ToolResult,
)
from loopkernel.data.effects import Effect, StartTool
from loopkernel.data.events import (
    MessageAdded,
    ReplyAborted,
    ReplyEnded,
    ReplyFailed,
    ThreadCompacted,
    ToolEnded,
    WorkCancelled,
)
from loopkernel.data.foreign import ForeignBlock, ForeignCall
from loopkernel.data.ids import CallId, ModelOperation
from loopkernel.data.messages import SENT_BY_USER, AssistantMessage, ResultMessage, UserMessage
from loopkernel.data.model_deltas import (
    ModelCall,
    ModelCompleted,
    ModelFailed,
    ModelOpaque,
    ModelReasoning,
    ModelServerCall,
    ModelText,
)
from loopkernel.data.states import State, Streaming
from loopkernel.data.steps import Context
from loopkernel.data.thread_deltas import RULES_VERSION, Created, Forked, Resumed
from loopkernel.data.words import CallStatus, StopReason
from loopkernel.later_typing import override
from loopkernel.loop.transition import transition
from loopkernel.replaying import START, LogRecord

from loopkernel_adapters.ports import StoreCorrupt
from loopkernel_adapters.stores.jsonl import BareRecords, parse_log
from loopkernel_adapters.transcripts.entries import (
    Bookkeeping,
    CallStarted,
    Compacted,
    Entry,
    Finding,
    FindingKind,
    Interrupted,
    ModelTrouble,
    Outcome,
    Place,
    ReplyEnd,
    ReplyPart,
    ResultSeen,
    UserSaid,
)
from loopkernel_adapters.transcripts.fields import at, record_at
from loopkernel_adapters.transcripts.source import Head, RawLine, Reader, Source, Unreadable, parsed, torn

OUTCOMES = {
    CallStatus.DONE: Outcome.DONE,
    CallStatus.ERROR: Outcome.ERROR,
    CallStatus.REJECTED_BY_USER: Outcome.REJECTED,
    CallStatus.CANCELLED: Outcome.CANCELLED,
}  # whatever else a result says of its call: what it did is not known


class OwnLog(Reader):
    """The reader."""

    name = "loopkernel"
    times_pieces = True

    @override
    def fits(self, head: Head) -> bool:
        keys = [record_at(line).keys() for line in head.lines]
        return any(found - {"seal"} == {"n", "crc", "r"} for found in keys) or keys[:1] == [{"delta", "now_ms"}]

    @override
    def entries(self, source: Source) -> Iterator[Entry]:
        lines, fold = _Lines(source.path), _Fold()
        for raw in source.raw_lines():
            for found in lines.taken(raw):
                if isinstance(found, Finding):
                    yield found
                else:
                    yield from fold.entries_of(Place(raw.number), found)


@define
class _Lines:
    """What of the lines of a log can be trusted."""

    path: Path
    expected: int = 1  # the number of the next record

    def taken(self, raw: RawLine) -> Iterator[LogRecord | Finding]:
        """The record in a line, and what is wrong with it. Raises Unreadable where no line is one of a log."""
        place = Place(raw.number)
        if not raw.ended:
            yield torn(raw.number)
            return
        number = at(parsed(raw.content), "n")
        number = number if isinstance(number, int) and 0 < number < 10**18 else self.expected
        try:
            records = parse_log(raw.content, str(self.path), lines_before=number - 1).records
        except BareRecords as error:
            raise Unreadable(str(error)) from error
        except StoreCorrupt as error:
            self.expected += 1
            text = f"the line is damaged, and was passed over: {error.problem}"
            yield Finding(place=place, kind=FindingKind.BROKEN_RECORD, text=text)
            return
        if number < self.expected:
            text = f"record {number} stands there again; it was passed over"
            yield Finding(place=place, kind=FindingKind.REPEATED_RECORD, text=text)
            return
        if number > self.expected:
            text = f"this is record {number}: those from {self.expected} on are missing"
            yield Finding(place=place, kind=FindingKind.BROKEN_RECORD, text=text)
        self.expected = number + 1
        yield from records


@frozen
class _Step:
    """What a record did."""

    place: Place
    record: LogRecord
    at_ms: int
    before: State
    effects: tuple[Effect, ...]


@define
class _Fold:
    """The state that the log leads to so far, and what was told of it."""

    state: State = START
    down_ms: int = 0  # for how long nothing ran until now: before each restart and fork
    streamed: set[ModelOperation] = Factory(set)  # the replies of which a part was told
    answered: set[CallId] = Factory(set)
    names: dict[CallId, str] = Factory(dict)  # the ids that the calls have here
    taken: set[str] = Factory(set)  # of those, the ones of calls that are open

    def entries_of(self, place: Place, record: LogRecord) -> Iterator[Entry]:
        """What a record says."""
        before = self.state
        step = transition(before, Context(record.delta, record.now_ms))
        self.state = step.next
        delta = record.delta
        if isinstance(delta, Resumed | Forked):
            self.down_ms += max(0, record.now_ms - before.stamp.now_ms)
        taken = _Step(place, record, record.now_ms - self.down_ms, before, tuple(step.effects))
        if isinstance(delta, Created) and delta.rules_version != RULES_VERSION:
            text = f"written under version {delta.rules_version} of the rules, folded under version {RULES_VERSION}"
            yield Finding(place=place, kind=FindingKind.ODD_FIELD, text=text)
        told = [*self._streamed(taken), *(entry for effect in taken.effects for entry in self._effect(taken, effect))]
        yield from told
        if not told:
            yield Bookkeeping(place=place, kind=type(delta).__name__)

    def _streamed(self, step: _Step) -> Iterator[Entry]:
        """A block of the reply that is under way."""
        delta, before = step.record.delta, step.before
        if not isinstance(before, Streaming):
            return
        block: ForeignBlock | None = None
        match delta:
            case ModelText():
                block = TextBlock(delta.text)
            case ModelReasoning():
                block = ReasoningBlock(delta.text)
            case ModelOpaque():
                block = OpaqueBlock(before.reply.model, delta.payload)
            case ModelServerCall():
                block = ServerCall(
                    provider_id=delta.provider_id, tool=delta.tool, input=delta.input, result=delta.result
                )
            case ModelCall():
                name = self._named(CallId(delta.operation, len(before.ledger.entries) + 1), delta.provider_id)
                block = ForeignCall(provider_id=name, tool=delta.tool, input=delta.input)
            case _:
                return  # the rest of the deltas holds no block
        if delta.operation == before.reply.operation:
            self.streamed.add(delta.operation)
            yield self._part(step, delta.operation, (block,), model=before.reply.model)

    def _named(self, call: CallId, provider_id: str) -> str:
        """The provider's id, or one of our own where a call that is open has that already."""
        name = f"{provider_id or 'call'} ({call})" if not provider_id or provider_id in self.taken else provider_id
        self.names[call] = name
        self.taken.add(name)
        return name

    def _effect(self, step: _Step, effect: Effect) -> Iterator[Entry]:
        place, now = step.place, step.at_ms
        match effect:
            case MessageAdded(message=UserMessage() as message):
                yield UserSaid(
                    place=place,
                    at_ms=now,
                    conversation="",
                    content=message.content,
                    injected=message.origin not in SENT_BY_USER,
                )
            case MessageAdded(message=AssistantMessage() as message) if message.reply not in self.streamed:
                self.streamed.add(message.reply)
                yield self._part(step, message.reply, tuple(self._blocks(message.content)), stop=message.stop)
            case MessageAdded(message=ResultMessage() as message):
                yield from self._results(step, message.results)
            case ReplyEnded():
                usage = step.record.delta.usage if isinstance(step.record.delta, ModelCompleted) else None
                yield ReplyPart(
                    place=place,
                    at_ms=now,
                    conversation="",
                    reply=f"reply {effect.reply}",
                    content=(),
                    stop=effect.stop,
                    usage=usage,
                )
            case ReplyFailed() if effect.reply in self.streamed:
                yield self._part(step, effect.reply, (), end=ReplyEnd.FAILED)
            case ReplyFailed():
                words = step.record.delta.message if isinstance(step.record.delta, ModelFailed) else ""
                yield ModelTrouble(place=place, at_ms=now, conversation="", error=effect.error, message=words)
            case ReplyAborted() if effect.reply in self.streamed:
                yield self._part(step, effect.reply, (), end=ReplyEnd.ABORTED)
            case ToolEnded():
                yield from self._results(step, (effect.result,))
            case StartTool():
                yield CallStarted(place=place, at_ms=now, conversation="", call=self.names.get(effect.call, ""))
            case ThreadCompacted():
                said = effect.note.content if isinstance(effect.note, UserMessage) else ()
                summary = "\n".join(block.text for block in said if isinstance(block, TextBlock)) or None
                yield Compacted(place=place, at_ms=now, conversation="", summary=summary)
            case WorkCancelled():
                yield Interrupted(place=place, at_ms=now, conversation="", reason=effect.reason.value)
            case _:
                pass  # everything else a kernel tells is its own bookkeeping

    def _part(
        self,
        step: _Step,
        reply: ModelOperation,
        content: tuple[ForeignBlock, ...],
        *,
        model: str | None = None,
        stop: StopReason | None = None,
        end: ReplyEnd | None = None,
    ) -> ReplyPart:
        delta = step.record.delta
        failed = delta if isinstance(delta, ModelFailed) and end is ReplyEnd.FAILED else None
        return ReplyPart(
            place=step.place,
            at_ms=step.at_ms,
            conversation="",
            reply=f"reply {reply}",
            content=content,
            model=model or None,
            stop=stop,
            end=end,
            error=None if failed is None else failed.error,
            message="" if failed is None else failed.message,
        )

    def _blocks(self, content: Iterable[AssistantBlock]) -> Iterator[ForeignBlock]:
        """The blocks of a reply that was never streamed here: it came with the log's first record."""
        for block in content:
            if isinstance(block, ToolCall):
                name = self._named(block.id, block.provider_id)
                yield ForeignCall(provider_id=name, tool=block.tool, input=block.input)
            else:
                yield block

    def _results(self, step: _Step, results: Iterable[ToolResult]) -> Iterator[ResultSeen]:
        """What was not told yet of the results; a result message tells again what each call's end did."""
        for result in results:
            if result.call in self.answered:
                continue
            self.answered.add(result.call)
            name = self.names.pop(result.call, result.provider_id)
            self.taken.discard(name)
            yield ResultSeen(
                place=step.place,
                at_ms=step.at_ms,
                conversation="",
                call=name,
                outcome=OUTCOMES.get(result.status, Outcome.LOST),
                content=result.content,
                tool=result.tool,
            )
