"""What the embedded model is asked: only what is legal now, and what it needs to know for it."""

import json

from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.blocks import MediaBlock, RawInput, TextBlock, ToolCall
from loopkernel.data.effects import Request
from loopkernel.data.ids import CallId, MessageId
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.messages import Message, UserMessage
from loopkernel.data.tools import Tool
from loopkernel_adapters.providers.local.request import ReplyRules, chat_messages, reply_schema

from tests.adapters.providers.local_world import OPERATION, READ_CALL, call, fits, reply, request, results, user


def may_call(asked: Request, rules: ReplyRules = ReplyRules()) -> bool:  # noqa: B008 - frozen data
    return fits(reply_schema(asked, rules), json.loads(READ_CALL))


def may_answer(asked: Request) -> bool:
    return fits(reply_schema(asked), {"answer": "Milk."})


def test_a_reply_is_a_call_of_an_offered_tool_or_an_answer_and_nothing_else() -> None:
    schema = reply_schema(request(user("read it")))
    assert fits(schema, json.loads(READ_CALL))
    assert fits(schema, {"tool": "list_files", "input": {}})
    assert fits(schema, {"answer": "Milk."})
    others: list[JsonValue] = [
        {"tool": "delete_file", "input": {"path": "notes.txt"}},
        {"tool": "read_file", "input": {"path": "absent.txt"}},
        {"tool": "read_file", "input": {}},
        {"tool": "read_file"},
        {"answer": "Milk.", "tool": "read_file", "input": {"path": "notes.txt"}},
        {},
        "Milk.",
    ]
    for other in others:
        assert not fits(schema, other)


def test_where_a_tool_gives_examples_only_these_are_legal() -> None:
    schema: dict[str, JsonValue] = {
        "type": "object",
        "properties": {"path": {"type": "string", "examples": ["notes.txt"]}, "text": {"type": "string"}},
        "required": ["path"],
        "additionalProperties": False,
    }
    legal = reply_schema(request(user("read it"), tools=(Tool(name="read_file", input_schema=Json.of(schema)),)))
    assert fits(legal, {"tool": "read_file", "input": {"path": "notes.txt", "text": "anything"}})
    assert not fits(legal, {"tool": "read_file", "input": {"path": "other.txt"}})


@given(st.text())
def test_an_answer_is_one_short_sentence(answer: str) -> None:
    rules = ReplyRules(longest_answer=20)
    schema = reply_schema(request(user("hello"), tools=()), rules)
    if fits(schema, {"answer": answer}):
        answer = answer.removesuffix("\n")  # a pattern of Python lets one stand behind its end
        assert 2 <= len(answer) <= 21
        assert answer[-1] in ".!?"
        assert not set(answer[:-1]) & set('.!?\n"\\')


def test_without_tools_only_an_answer_is_legal() -> None:
    assert may_answer(request(user("hello"), tools=()))
    assert not may_call(request(user("hello"), tools=()))


def test_a_forced_tool_is_the_only_legal_reply_until_it_was_called() -> None:
    forced = request(user("list"), forced="list_files")
    assert fits(reply_schema(forced), {"tool": "list_files", "input": {}})
    assert not may_call(forced)
    assert not may_answer(forced)
    assert may_answer(request(user("list"), reply(call()), results("milk"), forced="list_files"))


def test_after_a_result_only_an_answer_is_legal_until_the_user_speaks_again() -> None:
    asked: list[Message] = [user("read it"), reply(call()), results("milk")]
    assert not may_call(request(*asked))
    assert may_answer(request(*asked))
    assert may_call(request(*asked, reply(TextBlock("Milk.")), user("and again?")))


@given(
    st.lists(st.lists(st.integers(1, 3), max_size=3), min_size=1, max_size=3),
    st.integers(0, 4),
)
def test_tools_are_legal_while_the_calls_of_this_turn_are_few(turns: list[list[int]], most: int) -> None:
    messages: list[Message] = []
    for rounds in turns:
        messages.append(user("go on"))
        for calls in rounds:
            messages.append(reply(*(call(position) for position in range(1, calls + 1))))
            messages.append(results(*["milk"] * calls))
    rules = ReplyRules(calls_per_turn=most)
    assert may_call(request(*messages), rules) == (sum(turns[-1]) < most)


# --- what the model is told ---


def test_the_tools_are_explained_while_they_are_legal_and_no_longer_after() -> None:
    before = chat_messages(request(user("read it"), instructions="Be kind."))
    assert before == [
        {
            "role": "system",
            "content": "Be kind.\n"
            'Reply with one JSON object. To use a tool: {"tool": "read_file", "input": {"path": "..."}}. '
            'When you know the answer: {"answer": "..."}.\n'
            "Tools:\nread_file: Read a text file.\nlist_files: List the files.",
        },
        {"role": "user", "content": "read it"},
    ]
    after = chat_messages(request(user("read it"), reply(call()), results("milk")))
    assert after == [
        {"role": "system", "content": 'Reply with one JSON object: {"answer": "..."}.'},
        {"role": "user", "content": 'read it\n\nread_file {"path": "notes.txt"}:\nmilk'},
    ]


def test_earlier_turns_and_what_the_model_cannot_see_are_told() -> None:
    photo = UserMessage(id=MessageId(1), content=(MediaBlock("image/png", "AAAA"),))
    raw = ToolCall(id=CallId(OPERATION, 1), provider_id="c", tool="read_file", input=RawInput("{pa"))
    told = chat_messages(request(user("hi"), reply(TextBlock("Hello.")), photo, reply(raw), results("no"), tools=()))
    assert told[1:] == [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "(image/png, which this model cannot see)\n\nread_file {pa:\nno"},
    ]
