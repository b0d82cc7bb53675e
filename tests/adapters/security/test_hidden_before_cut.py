"""Hidden first, cut second: wherever a bound falls, no part of a secret of 8 or more characters is told.

Random secrets and texts of them go through everything that bounds a text: each tool, each failure, each error of a
provider. The letters of the secrets stand in no other text here: every part that is found has leaked.
"""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loopkernel.codec import record_to_text
from loopkernel.data.blocks import RawInput, text_of
from loopkernel.data.choices import ApprovalMode
from loopkernel.data.effects import StartTool
from loopkernel.data.ids import CallId, ModelOperation, RunOperation
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.model_deltas import ModelCall, ModelCompleted, ModelDelta, ModelFailed, ModelInput, ModelText
from loopkernel.data.policy import Policy
from loopkernel.data.tool_deltas import ToolChecked, ToolFailed, ToolSucceeded
from loopkernel.data.tools import EffectClass, Tool, ToolProfile
from loopkernel.data.words import ErrorClass, StopReason
from loopkernel_adapters.agent import Agent
from loopkernel_adapters.bounded_text import beginning, both_ends, first_line, in_force, one_line
from loopkernel_adapters.driver.failures import words_of
from loopkernel_adapters.ports import RunContext, ToolError
from loopkernel_adapters.providers.scripted import ANY, ScriptedProvider, call_reply, text_reply
from loopkernel_adapters.providers.wire_errors import failure
from loopkernel_adapters.secrets import SHORTEST_PART, Secrets
from loopkernel_adapters.tools.coding import coding_tools
from loopkernel_adapters.tools.files import Workspace
from loopkernel_adapters.tools.input_schema import JsonObject
from loopkernel_adapters.tools.output_bounds import Capture
from loopkernel_adapters.tools.reading import read_lines
from loopkernel_adapters.tools.registry import FunctionTool, Registry
from loopkernel_adapters.tools.searching import LineSearch, SearchProcess, find_lines
from loopkernel_adapters.tools.threads import Aborted

from tests.adapters.driver.driver_world import World, one_turn
from tests.adapters.tools.tools_world import Listener

LETTERS = 'QXZÄ"/\\+'  # of secrets, and of nothing else
VALUES = st.text(LETTERS, min_size=SHORTEST_PART, max_size=60).filter(lambda value: len(set(value)) > 3)
MANY_LINES = st.lists(VALUES, min_size=2, max_size=4).map("\n".join)
FILLINGS = st.text("ab é\n{:", max_size=30)
KEY = 'QXZÄ/XQ+ZZXQÄ\\QX"ZX/+QZÄXQ'
SECRETS = Secrets({"KEY": KEY})


@st.composite
def held(draw: st.DrawFn, values: st.SearchStrategy[str] = VALUES) -> tuple[str, str]:
    """A value, and a text in which it stands a few times."""
    value = draw(values)
    parts = draw(st.lists(FILLINGS, min_size=2, max_size=6))
    return value, value.join(parts)


def leaked(text: str, value: str, size: int = SHORTEST_PART) -> str | None:
    """A part of the value, of that many characters, in the text, plain or as JSON writes it."""
    for line in value.split("\n"):
        for place in range(len(line) - size + 1):
            part = line[place : place + size]
            if any(form in text for form in (part, json.dumps(part)[1:-1], json.dumps(part, ensure_ascii=False)[1:-1])):
                return part
    return None


def demand_none(text: str, value: str) -> None:
    found = leaked(text, value)
    assert found is None, (
        f"{found!r} of {value!r} is told: {text[max(0, text.find(json.dumps(found or '')[1:-1]) - 300) :][:600]!r}"
    )


def repeated(value: str, size: int) -> str:
    """Lines with the value, so that any cut but a few falls within one."""
    return "".join(f"k={value}\n" if number % 7 else f"{value}" for number in range(size // len(value)))


def test_the_look_out_finds_a_part() -> None:
    assert leaked(f"it is {KEY[3:11]}", KEY) == KEY[3:11]
    assert leaked(f"it is {KEY[3:10]}", KEY) is None
    assert leaked(json.dumps(KEY)[:20], KEY) is not None


# --- the door itself ------------------------------------------------------------------------------------


@given(held(VALUES | MANY_LINES), st.integers(0, 200))
@pytest.mark.rule("TOOL-12")
def test_no_cut_leaves_a_part_of_a_secret(both: tuple[str, str], most: int) -> None:
    value, text = both
    secrets = Secrets({"KEY": value})
    with in_force(secrets):
        for told in (
            beginning(text, most, "..."),
            both_ends(text, most, lambda left_out: f"({left_out} more)"),
            one_line(text, most + 1),
            first_line(text),
            words_of(ValueError(text * 40)),
        ):
            demand_none(told, value)


@given(st.text("abc {}:", max_size=300), st.integers(0, 100))
def test_a_text_without_secrets_is_cut_as_any_other(text: str, most: int) -> None:
    secrets = Secrets({"KEY": KEY})
    for known in (secrets, None):
        assert beginning(text, most, "...", known) == (text if len(text) <= most else f"{text[:most]}...")
        whole = both_ends(text, most, lambda left_out: f"({left_out})", known)
        cut = f"{text[:most]}({len(text) - 2 * most}){text[-most:] if most else text}"
        assert whole == (text if len(text) <= 2 * most else cut)


@given(
    held(VALUES | MANY_LINES), st.lists(st.integers(0, 2_000), max_size=12), st.integers(1, 120), st.integers(1, 120)
)
@pytest.mark.rule("TOOL-12")
def test_an_output_that_streams_is_kept_without_any_part_of_a_secret(
    both: tuple[str, str], places: list[int], head: int, tail: int
) -> None:
    value, text = both
    content = (text * 3).encode()
    with in_force(Secrets({"KEY": value})):
        capture = Capture(head, tail)
    bounds = [0, *sorted(min(place, len(content)) for place in places), len(content)]
    for begin, end in pairwise(bounds):
        capture.add(content[begin:end])
        demand_none(capture.last_line(30), value)
    capture.end()
    demand_none(capture.text(), value)
    assert capture.total == len(content)


@given(st.binary(max_size=300), st.lists(st.integers(0, 300), max_size=6), st.integers(1, 60), st.integers(1, 60))
def test_bytes_without_secrets_are_kept_as_they_are(content: bytes, places: list[int], head: int, tail: int) -> None:
    with in_force(SECRETS):
        hiding = Capture(head, tail)
    plain = Capture(head, tail)
    bounds = [0, *sorted(min(place, len(content)) for place in places), len(content)]
    for begin, end in pairwise(bounds):
        hiding.add(content[begin:end])
        plain.add(content[begin:end])
    hiding.end()
    assert hiding.text() == plain.text()


def test_an_output_that_was_broken_off_tells_no_beginning_of_a_secret() -> None:
    with in_force(SECRETS):
        capture = Capture(100, 100)
    capture.add(f"the key is {KEY[:-1]}".encode())
    capture.end(cut=True)
    assert capture.text() == "the key is {{secret:KEY as a beginning}}"


# --- the tools ------------------------------------------------------------------------------------------


@contextmanager
def workspace_with(text: str) -> Iterator[Workspace]:
    """A workspace with one file of this text, `notes`."""
    with TemporaryDirectory() as folder:
        (Path(folder) / "notes").write_text(text, encoding="utf-8")
        with Workspace(Path(folder)) as workspace:
            yield workspace


@given(held(VALUES | MANY_LINES), st.integers(1, 300), st.integers(1, 5), st.none() | st.integers(1, 3))
@settings(max_examples=60)
@pytest.mark.rule("TOOL-12")
def test_a_file_is_read_without_any_part_of_a_secret(
    both: tuple[str, str], most: int, first: int, lines: int | None
) -> None:
    value, text = both
    with workspace_with(text) as workspace, in_force(Secrets({"KEY": value})):
        demand_none(workspace.read("notes", most), value)
        try:
            told = read_lines(workspace, "notes", first, lines, most)
        except ToolError as error:
            told = str(error)
        assert isinstance(told, str)
        demand_none(told, value)


@given(held(), st.integers(0, 400))
@settings(max_examples=10)
@pytest.mark.rule("TOOL-12")
def test_a_search_tells_no_part_of_a_secret_and_finds_none_by_its_parts(both: tuple[str, str], before: int) -> None:
    value, text = both
    line = "a" * before + text.replace("\n", " ")
    with workspace_with(f"{line}\nb\n") as workspace, in_force(Secrets({"KEY": value})):
        told = find_lines(workspace, LineSearch(pattern="a|é|$"), Aborted(), SearchProcess())
        demand_none(told, value)
        # Letter by letter, a search would tell what the secret is.
        asked = find_lines(workspace, LineSearch(pattern=f"[{LETTERS[:3]}]"), Aborted(), SearchProcess())
        assert asked.startswith("No line matches")


def test_a_search_for_the_handle_of_a_secret_finds_it() -> None:
    with workspace_with(f"one\nkey = {KEY}\n") as workspace, in_force(SECRETS):
        told = find_lines(workspace, LineSearch(pattern=KEY.replace("\\", "\\\\")), Aborted(), SearchProcess())
        assert told.startswith("No line matches") or "notes:2" in told
        assert find_lines(workspace, LineSearch(pattern=KEY), Aborted(), SearchProcess()) == (
            "notes:2: key = {{secret:KEY}}"
        )


def output_of(text: str) -> FunctionTool:
    """A tool that says this text."""
    tool = Tool(
        name="says",
        description="",
        input_schema=Json.of({"type": "object"}),
        profile=ToolProfile(effect=EffectClass.READ_ONLY),
    )

    async def run(given: JsonObject, context: RunContext) -> str:
        if given.get("fails"):
            raise ToolError(text)
        return text

    return FunctionTool(tool=tool, function=run)


@pytest.mark.rule("TOOL-12")
@pytest.mark.parametrize("shift", range(0, len(KEY), 5))
def test_what_is_kept_of_a_long_result_or_failure_holds_no_part_of_a_secret(shift: int) -> None:
    text = "a" * shift + repeated(KEY, 1_200_000)
    registry = Registry([output_of(text)])

    async def run(given: dict[str, JsonValue]) -> str:
        command = StartTool(
            operation=RunOperation(1),
            call=CallId(ModelOperation(1), 1),
            run=1,
            tool="says",
            input=Json.of(given),
            key="",
        )
        try:
            return text_of((await registry.run(command, Listener())).content)
        except ToolError as error:
            return str(error)

    with in_force(SECRETS):
        for fails in (False, True):
            told = asyncio.run(run({"fails": fails}))
            assert len(told) < 100_000
            demand_none(told, KEY)


@pytest.mark.rule("TOOL-12")
@pytest.mark.parametrize("path", ["QXZQ://QZXX:ZZXQ@XX/QZ", "a/./QXZQ://QZXX:ZZXQ@XX/QZ"])
def test_a_path_that_is_spelled_otherwise_does_not_tell_the_secret_in_it(path: str, tmp_path: Path) -> None:
    value = path.removeprefix("a/./")
    with Workspace(tmp_path) as workspace, in_force(Secrets({"KEY": value})):
        for act in (workspace.read, workspace.names, partial(workspace.write, text="a", make_folders=True)):
            with pytest.raises(ToolError) as raised:
                act(path)
            demand_none(str(raised.value), value)
            assert "{{secret:KEY}}" in str(raised.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.rule("TOOL-12")
def test_no_tool_of_the_coding_set_tells_a_part_of_a_secret_whatever_cuts_it(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text(repeated(KEY, 100_000), encoding="utf-8")
    (tmp_path / "long").write_text(f"{'a' * 290}{KEY}{'b' * 290}{KEY}\n{'c' * 190}{KEY}", encoding="utf-8")
    calls: list[tuple[str, dict[str, JsonValue]]] = [
        ("read_file", {"path": "keys"}),
        ("read_file", {"path": "keys", "first_line": 3, "lines": 1}),
        ("grep", {"pattern": "a|b|c|k"}),
        ("glob", {"pattern": "*"}),
        ("list_files", {}),
        ("shell", {"command": "cat keys; cat long"}),
        ("shell", {"command": "cat long; exit 3"}),
        ("edit_file", {"path": f"{'d' * 60}{KEY}{'e' * 60}", "old_text": "a", "new_text": "b"}),
        ("read_file", {"path": f"{'d' * 70}{KEY}"}),
        ("read_file", {"path": f"a/./{KEY}"}),
        ("write_file", {"path": f"none/{KEY}", "text": "a"}),
        ("glob", {"pattern": f"/{'d' * 65}{KEY}"}),
        ("grep", {"pattern": f"({'d' * 70}{KEY}"}),
    ]

    replies = [call_reply((tool, Json.of(given_input))) for tool, given_input in calls]
    with Workspace(tmp_path) as workspace:
        agent = Agent(
            ScriptedProvider([*replies, text_reply("done")]),
            Registry(coding_tools(workspace)),
            secrets=SECRETS,
            policy=Policy(approval_mode=ApprovalMode.BYPASS, max_turns=100),
        )
        result = agent.run_sync("look at the keys")
    records = asyncio.run(agent.runs.read(result.run))
    demand_none("\n".join(map(record_to_text, records)), KEY)
    ended = [record.delta for record in records if isinstance(record.delta, ToolSucceeded | ToolFailed | ToolChecked)]
    told = [record_to_text(record) for record in records if "{{secret:KEY}}" in record_to_text(record)]
    assert len(ended) >= len(calls)
    assert len(told) >= 5


# --- the providers --------------------------------------------------------------------------------------


@given(held(), st.integers(0, 1_300))
@pytest.mark.rule("TOOL-12")
def test_no_failure_of_a_provider_tells_a_part_of_a_secret(both: tuple[str, str], before: int) -> None:
    value, text = both
    said = "a" * before + text
    with in_force(Secrets({"KEY": value})):
        told = failure(ModelOperation(1), status=400, kind=said, message=said)
    demand_none(told.message, value)


@given(held(), st.integers(0, 1_300))
@pytest.mark.rule("TOOL-12")
def test_no_failure_tells_a_part_of_the_key_itself(both: tuple[str, str], before: int) -> None:
    value, text = both
    key = f"{value}7"
    said = "a" * before + text.replace(value, key)
    demand_none(failure(ModelOperation(1), status=400, kind=said, message=said, keys=(key,)).message, value)


Ending = ModelCompleted | ModelFailed
CUT = ModelCompleted(ANY, StopReason.MAX_TOKENS, cut_call=True)
LOST = ModelFailed(operation=ANY, error=ErrorClass.NETWORK, message="lost")


@given(held(), st.lists(st.integers(0, 300), max_size=8), st.integers(0, 300), st.sampled_from([CUT, LOST]))
@settings(max_examples=40)
@pytest.mark.rule("TOOL-12")
def test_a_reply_that_is_cut_within_a_secret_tells_no_part_of_it(
    both: tuple[str, str], places: list[int], stop: int, ending: Ending
) -> None:
    value, text = both
    text = text[:stop]
    bounds = [0, *sorted(min(place, len(text)) for place in places), len(text)]
    pieces = [text[begin:end] for begin, end in pairwise(bounds)]
    kind = ModelInput if ending is CUT else ModelText
    reply: list[ModelDelta] = [kind(ANY, piece) for piece in pieces]
    if ending is CUT:
        reply.append(ModelCall(operation=ANY, provider_id="a", tool="echo", input=RawInput(text)))

    async def run() -> None:
        world = World(
            [[*reply, ending], *[text_reply("b")] * 4], secrets=Secrets({"KEY": value}), policy=Policy(retry=None)
        )
        await one_turn(world)
        demand_none("\n".join(map(record_to_text, world.noted.load())), value)

    asyncio.run(run())
