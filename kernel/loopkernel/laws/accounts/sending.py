"""What a model is sent of a thread: an account of rule INFER-2 by which law SHOWN judges, message by message."""

from collections.abc import Iterable, Iterator

from attrs import evolve

from loopkernel.data.blocks import OpaqueBlock, ReasoningBlock, ServerCall, TextBlock, ToolCall
from loopkernel.data.messages import AssistantMessage, Message, ReplyState, ResultMessage, UserMessage
from loopkernel.data.projected import ProjectedBlock, ProjectedMessage, Role
from loopkernel.laws.accounts.sentences import STOPPED, UNNAMED

_IN_NAMES = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


def as_sent(messages: Iterable[Message], model: str) -> tuple[ProjectedMessage, ...]:
    """The messages as the model is to read them; one of which nothing is left is not sent."""
    return tuple(ProjectedMessage(role, tuple(content)) for role, content in _told(messages, model) if content)


def _told(messages: Iterable[Message], model: str) -> Iterator[tuple[Role, list[ProjectedBlock]]]:
    """Who says what. That a reply was stopped is told once, before the model speaks again (rule CANCEL-4)."""
    owed: list[ProjectedBlock] = []
    for message in messages:
        content = [block for block in _blocks_of(message) if _is_read(block, model)]
        if isinstance(message, AssistantMessage):
            if content:
                yield Role.USER, owed
                owed = []
            yield Role.ASSISTANT, content
            if message.state is ReplyState.CANCELLED:
                owed = [TextBlock(STOPPED)]
        elif isinstance(message, UserMessage):
            yield Role.USER, owed + content
            owed = []
        else:
            yield Role.USER, content
    yield Role.USER, owed


def _blocks_of(message: Message) -> Iterator[ProjectedBlock]:
    if isinstance(message, ResultMessage):
        for result in message.results:
            said = tuple(block for block in result.content if not _is_blank(block))
            yield evolve(result, tool=_safe(result.tool), content=said)
        return
    for block in message.content:
        yield evolve(block, tool=_safe(block.tool)) if isinstance(block, ToolCall | ServerCall) else block


def _is_read(block: ProjectedBlock, model: str) -> bool:
    """Whether the block is for this model, and says anything."""
    return block.model == model if isinstance(block, OpaqueBlock) else not _is_blank(block)


def _is_blank(block: ProjectedBlock) -> bool:
    return isinstance(block, TextBlock | ReasoningBlock) and not block.text.strip()


def _safe(name: str) -> str:
    """The name of a tool as every provider takes it."""
    return "".join(letter if letter in _IN_NAMES else "_" for letter in name[:64]) or UNNAMED
