"""What a client of AG-UI is told of a run gives its conversation back: over every scenario, and over any run.

The client here keeps messages as the protocol's own does: a start begins one, a piece is added to it, and a snapshot
takes the place of all.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from ag_ui.core import AssistantMessage as ShownAssistantMessage
from ag_ui.core import BaseEvent, MessagesSnapshotEvent, ReasoningMessage
from ag_ui.core import Message as ShownMessage
from ag_ui.core import ToolMessage as ShownToolMessage
from ag_ui.core import UserMessage as ShownUserMessage
from ag_ui.core.types import ContentPart
from attrs import evolve, field, frozen
from hypothesis import given
from loopkernel.data.blocks import OpaqueBlock, ReasoningBlock, ServerCall, TextBlock, ToolCall
from loopkernel.data.events import MessageAdded
from loopkernel.data.messages import SENT_BY_USER, AssistantMessage, Message, ResultMessage, UserMessage
from loopkernel.data.records import LogRecord
from loopkernel.data.states import Initial
from loopkernel.data.user_deltas import CancelAll
from loopkernel.replaying import fold, replay
from loopkernel.testing.run import Run
from loopkernel.testing.strategies.walks import runs
from loopkernel_adapters.driver.asyncio_driver import is_event
from loopkernel_adapters.server.ag_ui_content import parts_of
from loopkernel_adapters.server.ag_ui_events import Translation, snapshot_of

from tests.kernel.scenario_logs import FILES, logs_of

Content = str | Sequence[ContentPart]
# Events that bracket what others tell, and what the protocol has no word for.
SILENT = {"TEXT_MESSAGE_END", "REASONING_START", "REASONING_MESSAGE_END", "REASONING_END", "TOOL_CALL_END", "CUSTOM"}


@frozen
class Part:
    """Something that was said, thought or called; `call` is the id of a call."""

    kind: str
    text: str
    call: str = ""


@frozen
class Seen:
    """A conversation: its parts in order, pieces of a text put together; and what each call gave."""

    parts: tuple[Part, ...]
    results: dict[str, str]

    def in_any_order(self) -> "Seen":
        """The same, without where in a reply its calls stand."""
        calls = sorted((part for part in self.parts if part.call), key=lambda part: part.call)
        return evolve(self, parts=(*_joined(part for part in self.parts if not part.call), *calls))


@frozen
class Client:
    """What a client holds: parts, each under the name of its message, and results."""

    parts: list[tuple[str, Part]] = field(factory=list)
    results: dict[str, str] = field(factory=dict)

    def begin(self, name: str, kind: str, call: str = "") -> None:
        """A message begins, whose name is new."""
        assert name not in [known for known, _ in self.parts]
        self.parts.append((name, Part(kind, "", call)))

    def add(self, name: str, text: str) -> None:
        """A piece of the message that is open."""
        last, part = self.parts[-1]
        assert last == name
        self.parts[-1] = name, evolve(part, text=part.text + text)

    def hear(self, event: BaseEvent) -> None:
        """An event, as it comes over the wire."""
        told = json.loads(event.model_dump_json(by_alias=True, exclude_none=True))
        match told["type"]:
            case "TEXT_MESSAGE_START" | "REASONING_MESSAGE_START":
                self.begin(told["messageId"], told["role"])
            case "TEXT_MESSAGE_CONTENT" | "REASONING_MESSAGE_CONTENT":
                self.add(told["messageId"], told["delta"])
            case "TOOL_CALL_START":
                self.begin(told["toolCallId"], f"calls {told['toolCallName']}", told["toolCallId"])
            case "TOOL_CALL_ARGS":
                self.add(told["toolCallId"], told["delta"])
            case "TOOL_CALL_RESULT":
                content = told["content"]
                self.results[told["toolCallId"]] = content if isinstance(content, str) else json.dumps(content)
            case "MESSAGES_SNAPSHOT":
                self.parts.clear()
                self.results.clear()
                for message in MessagesSnapshotEvent.model_validate(told).messages:
                    self.take(message)
            case kind:
                assert kind in SILENT

    def take(self, message: ShownMessage) -> None:
        """A message of a snapshot."""
        match message:
            case ShownUserMessage():
                self.parts.append((message.id, Part("user", _written(message.content))))
            case ReasoningMessage():
                self.parts.append((message.id, Part("reasoning", message.content)))
            case ShownAssistantMessage():
                self.parts.append((message.id, Part("assistant", message.content or "")))
                for call in message.tool_calls or ():
                    part = Part(f"calls {call.function.name}", call.function.arguments, call.id)
                    self.parts.append((call.id, part))
            case ShownToolMessage():
                self.results[message.tool_call_id] = _written(message.content)
            case _:
                raise AssertionError(message)

    def seen(self) -> Seen:
        """What it shows."""
        return Seen(_joined(part for _, part in self.parts), self.results)


def said_in(messages: Iterable[Message]) -> Seen:
    """The conversation of a thread."""
    parts: list[Part] = []
    results: dict[str, str] = {}
    for message in messages:
        match message:
            case UserMessage():
                parts.append(Part("user", _written(parts_of(message.content))))
            case AssistantMessage():
                parts += _parts_in(message)
                results |= {
                    _elsewhere(block, message): "" if block.result is None else block.result.text
                    for block in message.content
                    if isinstance(block, ServerCall)
                }
            case ResultMessage():
                results |= {str(each.call): _written(parts_of(each.content)) for each in message.results}
    return Seen(_joined(parts), results)


def _parts_in(message: AssistantMessage) -> Iterator[Part]:
    for block in message.content:
        match block:
            case TextBlock():
                yield Part("assistant", block.text)
            case ReasoningBlock():
                yield Part("reasoning", block.text)
            case ToolCall():
                yield Part(f"calls {block.tool}", block.input.text, str(block.id))
            case ServerCall():
                yield Part(f"calls {block.tool}", block.input.text, _elsewhere(block, message))
            case OpaqueBlock():
                pass


def _elsewhere(call: ServerCall, message: AssistantMessage) -> str:
    return f"provider/{message.reply}/{call.provider_id}"


def _written(content: Content) -> str:
    """A text as it is, and anything else as JSON."""
    if isinstance(content, str):
        return content
    return json.dumps([json.loads(part.model_dump_json(by_alias=True, exclude_none=True)) for part in content])


def _joined(parts: Iterable[Part]) -> tuple[Part, ...]:
    joined: list[Part] = []
    for part in parts:
        last = joined[-1] if joined else None
        if last is not None and last.kind == part.kind and not part.call and part.kind != "user":
            joined[-1] = evolve(last, text=last.text + part.text)
        elif part.text or part.call:
            joined.append(part)
    return tuple(joined)


def both(log: Sequence[LogRecord]) -> tuple[Seen, Seen]:
    """What the client has, and what is in the thread.

    Where the client was told to take nothing back, it has all that was ever said, also from before a compaction.
    """
    translation, client, added = Translation(), Client(), list[Message]()
    for step in fold(log):
        for effect in step.effects:
            if not is_event(effect):
                continue
            if isinstance(effect, MessageAdded):
                added.append(effect.message)
                message = effect.message
                if isinstance(message, UserMessage) and message.origin in SENT_BY_USER:  # the client has sent it
                    client.parts.append((f"sent-{message.id}", Part("user", _written(parts_of(message.content)))))
            for told in translation.of(effect, step.after):
                client.hear(told)
    for told in translation.close():
        client.hear(told)
    session = replay(log).session
    if translation.differs and session is not None:
        client.hear(snapshot_of(session.thread))
        added = list(session.thread)
    return client.seen(), said_in(added)


def check(log: Sequence[LogRecord], *, in_order: bool = True) -> None:
    """Fails where the two differ."""
    client, thread = both(log)
    if isinstance(replay(log), Initial):  # a client is told what became of the calls that were open, and no thread is
        results = {call: given for call, given in client.results.items() if call in thread.results}
        client = evolve(client, results=results)
    if not in_order:
        client, thread = client.in_any_order(), thread.in_any_order()
    assert client == thread


# Of calls that a provider runs itself a client is told when the whole reply is there.
LATE = "a-call-beside-one-run-by-the-provider"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_client_has_the_conversation_of_every_scenario(file: Path) -> None:
    for name, log in logs_of(file).items():
        check(log, in_order=name != LATE)


@given(run=runs())
def test_a_client_has_the_conversation_of_any_run(run: Run) -> None:
    check((*run.log, LogRecord(CancelAll(), run.log[-1].now_ms)), in_order=False)  # so that no reply is on its way


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_snapshot_has_the_whole_thread(file: Path) -> None:
    for log in logs_of(file).values():
        session = replay(log).session
        thread = () if session is None else tuple(session.thread)
        client = Client()
        client.hear(snapshot_of(thread))
        assert client.seen() == said_in(thread)
