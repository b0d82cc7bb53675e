"""The repair, the messages of a request and references, written anew from the words of specs/algorithms alone."""

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.blocks import OpaqueBlock, ReasoningBlock, ServerCall, TextBlock, ToolCall
from loopkernel.data.foreign import (
    ForeignMessage,
    ForeignReply,
    ForeignResult,
    ForeignResults,
    ForeignUser,
    Repair,
    RepairKind,
)
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.messages import AssistantMessage, ReplyState, ResultMessage, UserMessage
from loopkernel.data.threads import Thread
from loopkernel.data.words import CallStatus
from loopkernel.loop.algorithms.projection import project
from loopkernel.loop.algorithms.references import resolved, sources
from loopkernel.loop.algorithms.repair import repair
from loopkernel.loop.algorithms.wording import LOST, STOPPED_REPLY
from loopkernel.testing.strategies.conversation import threads

from tests.kernel.foreign import broken_conversations

Told = tuple[tuple[ForeignMessage, ...], tuple[Repair, ...]]


# --- lives.md: an import --------------------------------------------------------------------------------


def says_nothing(message: ForeignMessage) -> bool:
    if isinstance(message, ForeignResults):
        return not message.results
    return all(isinstance(block, TextBlock | ReasoningBlock) and not block.text.strip() for block in message.content)


def repair_as_told(conversation: Sequence[ForeignMessage]) -> Told:
    """The two passes of the page."""
    standing: list[tuple[int, int, str]] = []  # each call: its reply, its position, its id
    answers: dict[tuple[int, int], ForeignResult] = {}
    aside: list[tuple[int, ForeignResult]] = []
    repairs: list[Repair] = []
    last_reply: int | None = None
    for place, message in enumerate(conversation):
        if isinstance(message, ForeignResults):
            for result in message.results:
                same = [call for call in standing if call[2] == result.provider_id]
                still = [call for call in same if call[:2] not in answers]
                if not same:
                    aside.append((place, result))
                elif not still:
                    repairs.append(Repair(RepairKind.DUPLICATE, place, result.provider_id))
                else:
                    latest = max(call[0] for call in still)
                    reply, position, _ = min(call for call in still if call[0] == latest)
                    answers[reply, position] = result
                    if reply != last_reply:
                        repairs.append(Repair(RepairKind.MOVED, place, result.provider_id))
        elif not says_nothing(message):
            last_reply = place if isinstance(message, ForeignReply) else None
            if isinstance(message, ForeignReply):
                standing += [(place, position, call.provider_id) for position, call in enumerate(message.calls)]
    for place, result in aside:
        same = [call for call in standing if call[2] == result.provider_id]
        still = [call for call in same if call[:2] not in answers]
        kind = RepairKind.MOVED if still else RepairKind.DUPLICATE if same else RepairKind.ORPHAN
        repairs.append(Repair(kind, place, result.provider_id))
        if still:
            answers[still[0][:2]] = result
    return _written(conversation, answers, repairs)


def _written(
    conversation: Sequence[ForeignMessage], answers: dict[tuple[int, int], ForeignResult], repairs: list[Repair]
) -> Told:
    kept: list[ForeignMessage] = []
    for place, message in enumerate(conversation):
        if says_nothing(message):
            repairs.append(Repair(RepairKind.EMPTY, place))
        elif isinstance(message, ForeignUser):
            kept.append(message)
        elif isinstance(message, ForeignReply):
            kept.append(message)
            results: list[ForeignResult] = []
            for position, call in enumerate(message.calls):
                found = answers.get((place, position))
                if found is None:
                    repairs.append(Repair(RepairKind.LOST, place, call.provider_id))
                    found = ForeignResult(
                        provider_id=call.provider_id, status=CallStatus.LOST, content=(TextBlock(LOST),)
                    )
                results.append(found)
            kept += [ForeignResults(tuple(results))] if results else []
    return tuple(kept), tuple(sorted(repairs, key=lambda made: made.place))


@pytest.mark.rule("RESUME-5")
@given(broken_conversations)
def test_the_repair_is_as_told(conversation: list[ForeignMessage]) -> None:
    found = repair(conversation)
    assert (found.messages, found.repairs) == repair_as_told(conversation)


# --- requests.md: its messages --------------------------------------------------------------------------


def safe_as_told(name: str) -> str:
    return re.sub("[^a-zA-Z0-9_-]", "_", name)[:64] or "invalid_tool_name"


def shown_as_told(message: UserMessage | AssistantMessage | ResultMessage, model: str) -> list[tuple[str, str]]:
    """What is kept of a message, each block as its kind and what tells it apart."""
    if isinstance(message, ResultMessage):
        return [("result", f"{result.call} {safe_as_told(result.tool)}") for result in message.results]
    shown: list[tuple[str, str]] = []
    for block in message.content:
        if isinstance(block, TextBlock | ReasoningBlock):
            shown += [(type(block).__name__, block.text)] if block.text.strip() else []
        elif isinstance(block, OpaqueBlock):
            shown += [("opaque", block.payload.text)] if block.model == model else []
        elif isinstance(block, ToolCall | ServerCall):
            shown.append(("call", safe_as_told(block.tool)))
        else:
            shown.append(("media", block.data))
    return shown


def request_as_told(thread: Thread, model: str) -> list[list[tuple[str, str]]]:
    request: list[list[tuple[str, str]]] = []
    cut = False
    for message in thread:
        shown = shown_as_told(message, model)
        if isinstance(message, UserMessage) and cut:
            shown, cut = [("TextBlock", STOPPED_REPLY), *shown], False
        if isinstance(message, AssistantMessage):
            if cut and shown:
                request.append([("TextBlock", STOPPED_REPLY)])
                cut = False
            cut = cut or message.state is ReplyState.CANCELLED
        request += [shown] if shown else []
    return [*request, [("TextBlock", STOPPED_REPLY)]] if cut else request


@pytest.mark.rule("INFER-2", "CANCEL-4")
@given(threads(), st.sampled_from(("m", "other", "default")))
def test_the_messages_of_a_request_are_as_told(thread: Thread, model: str) -> None:
    found: list[list[tuple[str, str]]] = []
    for message in project(thread, model):
        told: list[tuple[str, str]] = []
        for block in message.content:
            match block:
                case TextBlock() | ReasoningBlock():
                    told.append((type(block).__name__, block.text))
                case OpaqueBlock():
                    told.append(("opaque", block.payload.text))
                case ToolCall() | ServerCall():
                    told.append(("call", block.tool))
                case _:
                    told.append(
                        ("media", block.data) if hasattr(block, "data") else ("result", f"{block.call} {block.tool}")
                    )
        found.append(told)
    assert found == request_as_told(thread, model)


# --- calls.md: references -------------------------------------------------------------------------------

names = st.sampled_from(("c1", "c2", "c3", "c4"))
referring: st.SearchStrategy[JsonValue] = st.recursive(
    st.one_of(st.integers(0, 2), names, st.builds(lambda name: {"$result": name}, names), st.just({"$result": 1})),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(("a", "$result")), inner, max_size=2),
    max_leaves=4,
)


def references_as_told(value: JsonValue) -> list[JsonValue]:
    if isinstance(value, list):
        return [name for part in value for name in references_as_told(part)]
    if not isinstance(value, dict):
        return []
    own: list[JsonValue] = [value["$result"]] if list(value) == ["$result"] else []
    return own + [name for part in value.values() for name in references_as_told(part)]


def filled_as_told(value: JsonValue) -> JsonValue:
    if isinstance(value, list):
        return [filled_as_told(part) for part in value]
    if not isinstance(value, dict):
        return value
    if list(value) == ["$result"] and isinstance(value["$result"], str):
        return f"output of {value['$result']}"
    return {key: filled_as_told(part) for key, part in value.items()}


@pytest.mark.rule("CALL-1")
@given(st.lists(names, max_size=2), referring)
def test_references_are_as_told(after: list[str], value: JsonValue) -> None:
    earlier = {"c1": 0, "c2": 1}
    named = references_as_told(value)
    wanted = list(dict.fromkeys([*after, *(name for name in named if isinstance(name, str))]))
    found = sources(earlier, "c3", after, Json.of(value))
    assert found.places == tuple(sorted({earlier[name] for name in wanted if name in earlier}))
    unknown = [name for name in wanted if name not in earlier]
    assert len(found.faults) == len(unknown) + any(not isinstance(name, str) for name in named)
    outputs = {name: f"output of {name}" for name in ("c1", "c2", "c3", "c4")}
    assert resolved(Json.of(value), outputs).value() == filled_as_told(value)
