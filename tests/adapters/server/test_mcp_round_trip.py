"""What a client of MCP is told of a run, read back, is the run; and what its person says is what the run hears."""

import asyncio
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some
from loopkernel.data.blocks import text_of
from loopkernel.data.effects import StartTool
from loopkernel.data.events import CallAppeared, Event, MessageAdded, ReplyGrew, ToolEnded, ToolProgressed
from loopkernel.data.ids import CallId, ModelOperation, RunOperation
from loopkernel.data.json_text import Json
from loopkernel.data.messages import AssistantMessage, ResultMessage, UserMessage
from loopkernel.data.records import LogRecord
from loopkernel.data.user_deltas import AnswerAfterCrash, AnswerQuestion, Approve, CallAnswer, CrashAnswerKind, Reject
from loopkernel.replaying import fold
from loopkernel.testing.run import Run
from loopkernel.testing.strategies.walks import runs
from loopkernel_adapters.driver.asyncio_driver import is_event
from loopkernel_adapters.server.mcp_progress import progress_of
from loopkernel_adapters.server.mcp_questions import answer_of
from loopkernel_adapters.sessions.waiting_calls import WaitingCall
from loopkernel_adapters.tools.mcp import StdioServer, open_servers
from typing_extensions import override

from tests.adapters.driver.silent_context import SilentContext
from tests.adapters.server.test_commands import COMMAND
from tests.kernel.scenario_logs import FILES, logs_of

MESSAGE = re.compile(r"message (\d+), (the reply|the results of (\d+) calls|[\w-]+)")
CALL = re.compile(r"call (-?\d+\.\d+): the model calls (\".*\")")
ANSWER = re.compile(r"call (-?\d+\.\d+) is answered: ([\w-]+)")
Fact = tuple[str, ...]


def happened_in(log: Sequence[LogRecord]) -> list[Event]:
    return [effect for step in fold(log) for effect in step.effects if is_event(effect)]


def facts_of(happened: Sequence[Event]) -> Iterator[Fact]:
    """The thread as it grew: messages, the calls in them, and their answers."""
    for event in happened:
        match event:
            case MessageAdded(message=AssistantMessage() as message):
                yield "message", str(message.id), "the reply"
            case MessageAdded(message=ResultMessage() as message):
                yield "message", str(message.id), f"the results of {len(message.results)} calls"
            case MessageAdded(message=UserMessage() as message):
                yield "message", str(message.id), message.origin.value
            case CallAppeared():
                yield "call", str(event.call), event.tool
            case ToolEnded(result):
                yield "answer", str(result.call), result.status.value
            case _:
                pass


def facts_in(lines: Sequence[str]) -> Iterator[Fact]:
    """The same, from what a client was told."""
    for line in lines:
        if found := MESSAGE.match(line):
            yield "message", found[1], found[2]
        elif found := CALL.match(line):
            yield "call", found[1], json.loads(found[2])
        elif found := ANSWER.match(line):
            yield "answer", found[1], found[2]


def check(log: Sequence[LogRecord]) -> None:
    happened = happened_in(log)
    lines = [progress_of(event) for event in happened]
    pieces = [event for event, line in zip(happened, lines, strict=True) if line is None]
    assert all(isinstance(event, ReplyGrew | ToolProgressed) for event in pieces)
    told = [line for line in lines if line is not None]
    assert all(line.isprintable() and line for line in told)
    assert list(facts_in(told)) == list(facts_of(happened))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_lines_of_every_scenario_give_its_thread_back(file: Path) -> None:
    for log in logs_of(file).values():
        check(log)


@given(run=runs())
def test_the_lines_of_any_run_give_its_thread_back(run: Run) -> None:
    check(run.log)


ID = CallId(ModelOperation(1), 1)
APPROVAL = WaitingCall(path=(ID,), tool="pay", input=Json.of({"amount": 5}))
QUESTION = WaitingCall(path=(ID,), tool="pay", input=Json.of({}), question="To whom?")
CRASHED = WaitingCall(path=(ID,), tool="pay", input=Json.of({}), after_crash=True)
WORDS = some.sampled_from(["yes", "no", "rerun", "cancel", "YES", "always", ""])
FILLED_IN = some.fixed_dictionaries({}, optional={"answer": WORDS, "why": some.text(), "text": some.text()})


@given(call=some.sampled_from([APPROVAL, QUESTION, CRASHED]), content=some.none() | FILLED_IN)
def test_what_the_person_fills_in_is_what_the_run_hears(call: WaitingCall, content: dict[str, str] | None) -> None:
    assert answer_of(call, content) == heard(call, content or {})


def heard(call: WaitingCall, content: dict[str, str]) -> CallAnswer:
    """In the plainest words: one word of each form lets a call run, and everything else is a no."""
    said = content.get("answer")
    if call.question is not None:
        return AnswerQuestion(call=ID, value=Json.of(content["text"]) if "text" in content else None)
    if call.after_crash:
        kind = CrashAnswerKind.RERUN if said == "rerun" else CrashAnswerKind.CANCEL
        return AnswerAfterCrash(call=ID, kind=kind, text="")
    if said == "yes":
        return Approve(call=ID)
    return Reject(call=ID, why=content.get("why", "") if said == "no" else "")


class Listening(SilentContext):
    """Notes the progress that is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    @override
    async def report_progress(self, text: str) -> None:  # type: ignore[override]  # the silent one never returns
        self.told.append(text)


def test_a_task_goes_out_by_the_client_of_this_project_and_comes_back(tmp_path: Path) -> None:
    """Both ways at once: an agent's tool is the server of another agent, in a process of its own."""
    replies = [{"calls": [{"tool": "read_file", "input": {"path": "notes.txt"}}]}, {"text": "It says: buy milk."}]
    (tmp_path / "script.json").write_text(json.dumps(replies))
    (tmp_path / "notes.txt").write_text("buy milk")
    command = (*COMMAND, "mcp", "--model", "scripted:script.json", "--tools", "files")
    context = Listening()

    async def play() -> str:
        async with open_servers([StdioServer(name="inner", command=command, folder=tmp_path)]) as tools:
            given = Json.of({"task": "What do my notes say?"})
            start = StartTool(
                operation=RunOperation(1), call=ID, run=1, tool="mcp__inner__run_task", input=given, key="k"
            )
            return text_of((await tools.run(start, context)).content)

    task = json.loads(asyncio.run(play()))
    assert (task["text"], task["reason"], task["waiting"]) == ("It says: buy milk.", "model_stop", [])
    facts = list(facts_in(context.told))
    assert ("call", "1.1", "read_file") in facts and ("answer", "1.1", "done") in facts
    assert [fact[2] for fact in facts if fact[0] == "message"] == [
        "said",
        "the reply",
        "the results of 1 calls",
        "the reply",
    ]
