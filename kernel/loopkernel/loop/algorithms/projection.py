"""The request as messages: a pure projection of the thread (rule INFER-2). The thread itself is a log."""

import re
from typing import assert_never

from attrs import evolve

from loopkernel.data.blocks import (
    AssistantBlock,
    OpaqueBlock,
    ReasoningBlock,
    ServerCall,
    TextBlock,
    ToolCall,
    ToolResult,
    UserBlock,
)
from loopkernel.data.messages import AssistantMessage, ReplyState, ResultMessage, UserMessage
from loopkernel.data.projected import ProjectedBlock, ProjectedMessage, Role
from loopkernel.data.threads import Thread
from loopkernel.loop.algorithms.wording import STOPPED_REPLY, UNSAFE_NAME

_UNSAFE = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME = 64  # the longest tool name that the large providers accept


def safe_tool_name(name: str) -> str:
    """The name with what providers refuse replaced by underscores, at most 64 characters."""
    return _UNSAFE.sub("_", name)[:_LONGEST_NAME] or UNSAFE_NAME


def project(thread: Thread, model: str) -> tuple[ProjectedMessage, ...]:
    """The messages that `model` is shown, oldest first.

    A later thread of the same generation projects to the same messages and more. That a reply was
    stopped by a cancel is told in the user message after it, or in one of its own where none follows before
    the model speaks (rule CANCEL-4).
    """
    projected: list[ProjectedMessage] = []
    stopped = False
    for message in thread:
        match message:
            case UserMessage():
                content = _user_content(message.content)
                if stopped:
                    content = (TextBlock(STOPPED_REPLY), *content)
                    stopped = False
                _add(projected, Role.USER, content)
            case AssistantMessage():
                said = _assistant_content(message.content, model)
                if stopped and said:
                    _add(projected, Role.USER, (TextBlock(STOPPED_REPLY),))
                    stopped = False
                stopped = stopped or message.state is ReplyState.CANCELLED
                _add(projected, Role.ASSISTANT, said)
            case ResultMessage():
                _add(projected, Role.USER, tuple(_result(result) for result in message.results))
            case _:
                assert_never(message)
    if stopped:
        _add(projected, Role.USER, (TextBlock(STOPPED_REPLY),))
    return tuple(projected)


def _add(projected: list[ProjectedMessage], role: Role, content: tuple[ProjectedBlock, ...]) -> None:
    if content:
        projected.append(ProjectedMessage(role, content))


def _user_content(content: tuple[UserBlock, ...]) -> tuple[UserBlock, ...]:
    return tuple(block for block in content if not (isinstance(block, TextBlock) and block.text.strip() == ""))


def _result(result: ToolResult) -> ToolResult:
    return evolve(result, tool=safe_tool_name(result.tool), content=_user_content(result.content))


def _assistant_content(content: tuple[AssistantBlock, ...], model: str) -> tuple[ProjectedBlock, ...]:
    shown: list[ProjectedBlock] = []
    for block in content:
        match block:
            case TextBlock() | ReasoningBlock():
                if block.text.strip() != "":
                    shown.append(block)
            case ToolCall() | ServerCall():
                shown.append(evolve(block, tool=safe_tool_name(block.tool)))
            case OpaqueBlock():
                if block.model == model:
                    shown.append(block)
            case _:
                assert_never(block)
    return tuple(shown)
