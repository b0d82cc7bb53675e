"""Agent files: the shipped ones are good, a bad one is refused in words, and the shell is found in what is offered."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel_adapters.conform.agent_file import AgentFileUnusable, agent_of, agent_text, shipped
from loopkernel_adapters.conform.asked import Tool
from loopkernel_adapters.conform.living import Home, environment_of, filled
from loopkernel_adapters.conform.shell import ShellHint, shell_in

GOOD = 'name = "one"\nwire = "chat"\nversion = ["one", "-v"]\nstart = ["one", "{prompt}"]\n'


@pytest.mark.parametrize("name", shipped())
def test_a_shipped_file_is_good_and_named_after_its_agent(name: str) -> None:
    agent = agent_of(agent_text(name))
    assert agent.name == name
    assert agent.version and agent.about
    assert any("{prompt}" in word for word in (*agent.start, agent.stdin))
    assert any("{url}" in text for text in (*agent.start, *agent.environment.values(), *agent.files.values()))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("name = ", "not TOML"),
        (GOOD.replace('"chat"', '"smoke"'), "the wire of the agent file is 'smoke'"),
        (GOOD + "patience_s = 0", "must be a whole number above 0"),
        (GOOD + "starts = 1", "'starts', which means nothing"),
        (GOOD + 'signal = "SIGNAL"', "the signal 'SIGNAL'"),
        (GOOD.replace('["one", "-v"]', "[1]"), "'version' as a list of words"),
        (GOOD + "[finish]\nmessage = 1", "a tool or a command"),
        (GOOD + "[environment]\nA = 1", "'environment' as a table of texts"),
        ('wire = "chat"', "must have 'name' as a text"),
    ],
)
def test_a_bad_file_is_refused_in_words(text: str, complaint: str) -> None:
    with pytest.raises(AgentFileUnusable, match=complaint):
        agent_of(text)


def test_a_file_that_is_not_there_is_told_with_the_names_that_are() -> None:
    with pytest.raises(AgentFileUnusable, match="codex"):
        agent_text("nowhere.toml")


@pytest.mark.parametrize("folder", ["plain", "with space", 'a "quoted" one', "a back\\slash", "é"])
def test_a_program_beside_the_file_is_named_by_the_folder_of_the_file(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "agent.toml").write_text(GOOD.replace('"one", "-v"', '"{here}/one", "-v"'), encoding="utf-8")
    monkeypatch.chdir(tmp_path / folder)
    for given_as in ("agent.toml", str(tmp_path / folder / "agent.toml")):
        assert agent_of(agent_text(given_as)).version == (f"{tmp_path.resolve()}/{folder}/one", "-v")


@given(st.recursive(st.none() | st.integers() | st.text(max_size=5), lambda each: st.lists(each, max_size=3)))
def test_whatever_a_value_is_it_is_taken_or_refused_in_words(value: object) -> None:
    text = GOOD + f"patience_s = {json.dumps(value)}"
    try:
        agent_of(text)
    except AgentFileUnusable as error:
        assert str(error)


def test_an_agent_gets_its_own_environment_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a real one")
    monkeypatch.setenv("SOMETHING", "else")
    agent = agent_of(GOOD + '[environment]\nOPENAI_BASE_URL = "{url}/v1"')
    found = environment_of(Home(folder=tmp_path, url="http://here"), agent)
    assert found["OPENAI_BASE_URL"] == "http://here/v1"
    assert "a real one" not in found.values() and "SOMETHING" not in found
    assert found["HOME"] == str(tmp_path / "home")
    assert found["TMUX_TMPDIR"] == found["HOME"], "a server of tmux would be shared between boxes"


def test_braces_that_are_no_placeholders_stay() -> None:
    assert filled('{"a": {}} {url}', {"{url}": "here"}) == '{"a": {}} here'


def tool(name: str, **properties: object) -> Tool:
    """A tool, all of whose properties are required."""
    return Tool(name=name, schema={"properties": json.loads(json.dumps(properties)), "required": [*properties]})


def test_the_likeliest_tool_is_the_shell_and_what_else_it_needs_is_filled_in() -> None:
    text = {"type": "string"}
    tools = (
        tool("commands_help", topic=text),
        tool("terminal_list", command=text),
        tool("bash", command=text, background={"type": "boolean"}, wait={"type": "integer", "minimum": 5}, why=text),
    )
    found = shell_in(tools, ShellHint())
    assert found is not None and found.name == "bash"
    assert json.loads(found.arguments("ls")) == {"command": "ls", "background": False, "wait": 5, "why": "run it"}
    named = shell_in(tools, ShellHint(tool="terminal_list"))
    assert named is not None and named.name == "terminal_list"
    assert shell_in(tools[:1], ShellHint()) is None


def test_a_shell_that_takes_words_gets_words() -> None:
    found = shell_in((tool("shell", command={"type": "array", "items": {"type": "string"}}),), ShellHint())
    assert found is not None and json.loads(found.arguments("ls"))["command"] == ["bash", "-lc", "ls"]
