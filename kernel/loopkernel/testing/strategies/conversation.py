"""Strategies for what is said: blocks, messages, threads, and the tools that are offered and called."""

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from loopkernel.data.blocks import (
    AssistantBlock,
    MediaBlock,
    OpaqueBlock,
    RawInput,
    ReasoningBlock,
    ServerCall,
    TextBlock,
    ToolCall,
    ToolResult,
    UserBlock,
)
from loopkernel.data.foreign import Repair, RepairKind
from loopkernel.data.ids import CallId, MessageId, ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.messages import AssistantMessage, Message, ReplyState, ResultMessage, UserMessage, UserOrigin
from loopkernel.data.threads import Thread
from loopkernel.data.tools import (
    AccessMode,
    Claim,
    Decision,
    EffectClass,
    FieldResource,
    FixedResource,
    InvalidCall,
    ResourceRule,
    Tool,
    ToolOutput,
    ToolProfile,
    UnknownTool,
    ValidCall,
    Verdict,
)
from loopkernel.data.vector import Vector
from loopkernel.data.words import OPEN_STATUSES, CallStatus, CancelReason, StopReason
from loopkernel.testing.strategies.values import (
    call_ids,
    counts,
    json_texts,
    message_ids,
    model_operations,
    models,
    names,
    provider_ids,
    raw_texts,
    receipt_ids,
    resource_keys,
    usages,
)

# --- blocks ---------------------------------------------------------------------------------------------

text_blocks: SearchStrategy[TextBlock] = st.builds(TextBlock, raw_texts)
media_blocks: SearchStrategy[MediaBlock] = st.builds(
    MediaBlock, st.sampled_from(("image/png", "text/plain")), raw_texts
)
reasoning_blocks: SearchStrategy[ReasoningBlock] = st.builds(ReasoningBlock, raw_texts)
opaque_blocks: SearchStrategy[OpaqueBlock] = st.builds(OpaqueBlock, models, json_texts)
user_blocks: SearchStrategy[UserBlock] = text_blocks | media_blocks
contents: SearchStrategy[tuple[UserBlock, ...]] = st.lists(user_blocks, max_size=2).map(tuple)

# Inputs that tools of RESOURCES take, a reference to another call's output, anything, and what does not parse.
call_inputs: SearchStrategy[Json] = st.one_of(
    st.builds(lambda key: Json.of({"path": key}), resource_keys),
    st.just(Json.of({"path": {"$result": "c1"}})),
    json_texts,
)
raw_inputs: SearchStrategy[RawInput] = st.builds(RawInput, st.sampled_from(('{"pa', "NaN")) | raw_texts)
dependencies: SearchStrategy[tuple[str, ...]] = st.just(()) | st.lists(provider_ids | raw_texts, max_size=2).map(tuple)
tool_calls: SearchStrategy[ToolCall] = st.builds(
    ToolCall,
    id=call_ids,
    provider_id=provider_ids | raw_texts,
    tool=names,
    input=call_inputs | raw_inputs,
    after=dependencies,
)
server_calls: SearchStrategy[ServerCall] = st.builds(
    ServerCall, provider_id=provider_ids, tool=names, input=json_texts, result=st.none() | json_texts
)
assistant_blocks: SearchStrategy[AssistantBlock] = st.one_of(
    text_blocks, reasoning_blocks, opaque_blocks, tool_calls, server_calls
)
terminal_statuses: SearchStrategy[CallStatus] = st.sampled_from(
    [status for status in CallStatus if status not in OPEN_STATUSES]
)
cancel_reasons: SearchStrategy[CancelReason] = st.sampled_from(CancelReason)
tool_results: SearchStrategy[ToolResult] = st.builds(
    ToolResult,
    call=call_ids,
    provider_id=provider_ids,
    tool=names,
    status=terminal_statuses,
    content=contents,
    reason=st.none() | cancel_reasons,
    ran=st.booleans(),
    final=st.booleans(),
    stops_loop=st.booleans(),
    status_from_text=st.booleans(),
    decided=st.booleans(),
)

# --- tools ----------------------------------------------------------------------------------------------

access_modes: SearchStrategy[AccessMode] = st.sampled_from(AccessMode)
resource_rules: SearchStrategy[ResourceRule] = st.one_of(
    st.builds(FieldResource, st.just("path") | raw_texts, access_modes, tree=st.booleans()),
    st.builds(FixedResource, resource_keys | raw_texts, access_modes),
)
# Mostly of the kind that runs as soon as it may: no person, no sub-agent.
tool_profiles: SearchStrategy[ToolProfile] = st.builds(
    ToolProfile,
    effect=st.sampled_from(EffectClass),
    serial=st.booleans(),
    resources=st.lists(resource_rules, max_size=2).map(tuple),
    approval=st.just(Decision.ALLOW) | st.sampled_from(Decision),
    timeout_ms=st.none() | counts,
    child=st.integers(0, 5).map(lambda number: number == 5),
    early=st.booleans(),
    polling=st.booleans(),
    commands=st.just(()) | st.lists(st.just("path") | raw_texts, max_size=1).map(tuple),
    unbounded=st.integers(0, 5).map(lambda number: number == 5),
)
tools: SearchStrategy[Tool] = st.builds(
    Tool,
    name=names,
    description=raw_texts,
    input_schema=st.just(Json.of({"type": "object"})) | json_texts,
    profile=tool_profiles | st.none(),
)
tool_sets: SearchStrategy[tuple[Tool, ...]] = st.lists(tools, max_size=3, unique_by=lambda tool: tool.name).map(tuple)
claims: SearchStrategy[Claim] = st.builds(
    Claim,
    resource_keys | raw_texts,
    access_modes,
    tree=st.booleans(),
    also=st.lists(resource_keys | raw_texts, max_size=1).map(tuple),
    ignores_case=st.booleans(),
)
valid_calls: SearchStrategy[ValidCall] = st.builds(ValidCall, st.none() | st.lists(claims, max_size=2).map(tuple))
verdicts: SearchStrategy[Verdict] = st.one_of(
    valid_calls, valid_calls, st.just(UnknownTool()), st.builds(InvalidCall, raw_texts)
)
tool_outputs: SearchStrategy[ToolOutput] = st.builds(
    ToolOutput, content=contents, final=st.booleans(), stops_loop=st.booleans(), background=st.booleans()
)

# --- messages -------------------------------------------------------------------------------------------

user_messages: SearchStrategy[UserMessage] = st.builds(
    UserMessage,
    id=message_ids,
    content=contents,
    origin=st.sampled_from(UserOrigin),
    receipt=st.none() | receipt_ids,
)
assistant_messages: SearchStrategy[AssistantMessage] = st.builds(
    AssistantMessage,
    id=message_ids,
    reply=model_operations,
    model=models,
    content=st.lists(assistant_blocks, max_size=3).map(tuple),
    stop=st.none() | st.sampled_from(StopReason),
    state=st.sampled_from(ReplyState),
    usage=usages,
)
result_messages: SearchStrategy[ResultMessage] = st.builds(
    ResultMessage, id=message_ids, reply=model_operations, results=st.lists(tool_results, max_size=2).map(tuple)
)
messages: SearchStrategy[Message] = user_messages | assistant_messages | result_messages

# As broken as threads from elsewhere: any messages in any order.
broken_threads: SearchStrategy[Thread] = st.builds(
    Thread,
    st.lists(messages, max_size=3).map(Vector.of),
    st.integers(0, 2),
    st.lists(models, unique=True, max_size=2).map(tuple),
)


# What a recorded conversation may have wrong with it.
repairs: SearchStrategy[Repair] = st.builds(Repair, st.sampled_from(RepairKind), counts, provider_ids)

# --- threads that the kernel could have made ------------------------------------------------------------


def call_of(reply: int, position: int, call: ToolCall) -> ToolCall:
    """The call under the identity that its place gives it."""
    return ToolCall(
        id=CallId(ModelOperation(reply), position),
        provider_id=call.provider_id,
        tool=call.tool,
        input=call.input,
        after=call.after,
    )


def result_of(call: ToolCall, result: ToolResult) -> ToolResult:
    """The result as the answer to that call."""
    return ToolResult(
        call=call.id,
        provider_id=call.provider_id,
        tool=call.tool,
        status=result.status,
        content=result.content,
        reason=result.reason,
        ran=result.ran,
        final=result.final,
        stops_loop=result.stops_loop,
        status_from_text=result.status_from_text,
        decided=result.decided,
    )


def numbered(blocks: list[AssistantBlock], reply: int) -> tuple[AssistantBlock, ...]:
    """The blocks of a reply, its calls under their identities."""
    position = 0
    placed: list[AssistantBlock] = []
    for block in blocks:
        if isinstance(block, ToolCall):
            position += 1
            block = call_of(reply, position, block)
        placed.append(block)
    return tuple(placed)


@st.composite
def threads(draw: DrawFn, max_rounds: int = 2) -> Thread:
    """A coherent thread: replies numbered from 1, each call answered right after its reply, ids in order."""
    thread = Thread()
    for reply in range(1, draw(st.integers(0, max_rounds)) + 1):
        if reply == 1 or draw(st.booleans()):
            thread = thread.append(_with_next_id(thread, draw(user_messages)))
        message = draw(assistant_messages)
        content = numbered(list(message.content), reply)
        asked = AssistantMessage(
            id=_next_id(thread),
            reply=ModelOperation(reply),
            model=message.model,
            content=content,
            stop=message.stop,
            state=ReplyState.CANCELLED if message.stop is None else ReplyState.COMPLETE,
            usage=message.usage,
        )
        thread = thread.append(asked)
        if asked.calls:
            results = tuple(result_of(call, draw(tool_results)) for call in asked.calls)
            thread = thread.append(ResultMessage(id=_next_id(thread), reply=asked.reply, results=results))
        if any(isinstance(block, OpaqueBlock) for block in content):
            left = dict.fromkeys((*thread.opaque_models, asked.model))
            thread = Thread(thread.messages, thread.generation, tuple(left))
    return thread


def _next_id(thread: Thread) -> MessageId:
    return MessageId(len(thread) + 1)


def _with_next_id(thread: Thread, message: UserMessage) -> UserMessage:
    return UserMessage(id=_next_id(thread), content=message.content, origin=message.origin, receipt=message.receipt)
