"""What an agent begins with: models by their names, paths as texts, runs with other settings, and turns at one time."""

import asyncio
from collections.abc import Awaitable
from pathlib import Path

import pytest
from loopkernel.data.model_deltas import ModelFailed
from loopkernel.data.policy import Policy
from loopkernel.data.sessions import Settings
from loopkernel.data.states import State
from loopkernel.data.words import ErrorClass, RefusalReason, TurnEndReason
from loopkernel_adapters import AnthropicProvider, JsonlFolder, SqliteRuns, read_log
from loopkernel_adapters.agent import Agent, NoAnswer, OnChange, Result, SettingsDiffer
from loopkernel_adapters.ports import ProviderUnavailable
from loopkernel_adapters.providers.scripted import ANY, ScriptedProvider, text_reply
from loopkernel_adapters.stores.memory import MemoryRuns

from tests.adapters.driver.agent_world import TWO_ROUNDS, an_agent, asking
from tests.adapters.driver.driver_world import FunctionTools, echo

# --- names and paths ---


def test_a_model_is_asked_by_its_name(tmp_path: Path) -> None:
    script = tmp_path / "hello.json"
    script.write_text('[{"text": "Hello."}]')
    agent = Agent(f"scripted:{script}", runs=JsonlFolder(str(tmp_path / "runs")))
    result = agent.run_sync("Hi", "r")
    assert result.text_or_raise() == "Hello."
    assert read_log(str(tmp_path / "runs" / "r.jsonl")).records
    assert Agent("scripted:" + str(script), runs=SqliteRuns(str(tmp_path / "runs.db"))).run_sync("Hi").text == "Hello."


@pytest.mark.parametrize(
    "name", ["anthropic:m", "openai:m", "openai-responses:m", "openai-chat:m", "nobody:m", "local:"]
)
def test_a_name_that_cannot_be_had_is_told_before_anything_is_asked(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(ProviderUnavailable, match=r"_API_KEY|choose one of"):
        Agent(name)


def test_a_provider_without_a_key_is_told_before_anything_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(ProviderUnavailable, match="ANTHROPIC_API_KEY"):
        AnthropicProvider()


def test_two_names_of_a_model_are_refused(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text('[{"text": "Hello."}]')
    with pytest.raises(ValueError, match="leave one out"):
        Agent(f"scripted:{tmp_path / 's.json'}", model="another")


# --- what is not an answer ---


@pytest.mark.parametrize(
    ("replies", "words"),
    [
        ((ModelFailed(operation=ANY, error=ErrorClass.AUTH, message="no such key"),), r"failed \(auth\): no such key"),
        ((), r"the model failed"),
    ],
)
def test_a_failure_does_not_look_like_an_empty_answer(replies: tuple[object, ...], words: str) -> None:
    result = Agent(ScriptedProvider([replies] if replies else [])).run_sync("go")  # type: ignore[list-item]  # one delta
    assert result.text == ""
    with pytest.raises(NoAnswer, match=words):
        result.text_or_raise()


def test_calls_that_are_left_waiting_are_told() -> None:
    result = asking().run_sync("go")
    assert result.waiting
    with pytest.raises(NoAnswer, match=r"person has to answer first: echo \(call 1.1\)"):
        result.text_or_raise()
    assert asking(lambda _: True).run_sync("go").text_or_raise() == "That is all."


@pytest.mark.parametrize("reason", TurnEndReason)
def test_every_end_is_an_answer_or_has_its_words(reason: TurnEndReason) -> None:
    state: State = Agent(ScriptedProvider([text_reply("x")])).run_sync("go").state
    result: Result = Result(run="r", reason=reason, text="half", state=state)
    if result.problem is None:
        assert result.text_or_raise() == "half"
    else:
        with pytest.raises(NoAnswer):
            result.text_or_raise()
    refused: Result = Result(run="r", reason=None, refused=RefusalReason.NOT_NOW, state=state)
    assert "was not taken (not now)" in (refused.problem or "")


# --- runs with other settings ---


def settings_of(result: Result) -> Settings:
    assert result.state.session is not None
    return result.state.session.settings


def test_a_run_with_other_settings_is_refreshed_or_kept_as_is_said_and_never_silently() -> None:
    runs = MemoryRuns()
    first = Policy(max_turns=7)
    Agent(ScriptedProvider([text_reply("1")]), policy=first, instructions="Be kind.", runs=runs).run_sync("a", "r")

    def again(on_change: OnChange) -> Result:
        model, tools = ScriptedProvider([text_reply("2")]), FunctionTools(echo=echo)
        other = Agent(
            model, tools, policy=Policy(max_turns=8), instructions="Be brief.", runs=runs, on_change=on_change
        )
        return other.run_sync("b", "r")

    before = asyncio.run(runs_read(runs))
    with pytest.raises(SettingsDiffer) as raised:
        again("raise")
    for part in ("policy (max_turns)", "tools (new: echo)", "instructions", "on_change='refresh'"):
        assert part in str(raised.value)
    assert asyncio.run(runs_read(runs)) == before  # nothing was recorded, and the run is not locked
    kept = settings_of(again("keep"))
    assert (kept.policy.max_turns, kept.tools, kept.instructions) == (7, (), "Be kind.")
    refreshed = settings_of(again("refresh"))
    assert (refreshed.policy.max_turns, len(refreshed.tools), refreshed.instructions) == (8, 1, "Be brief.")
    again("raise")  # now they agree


async def runs_read(runs: MemoryRuns) -> object:
    return runs.read("r")


def test_what_is_given_for_a_session_is_no_difference() -> None:
    async def run() -> None:
        runs = MemoryRuns()
        await Agent(ScriptedProvider([text_reply("1")]), policy=Policy(max_turns=7), runs=runs).run("a", "r")
        agent = Agent(ScriptedProvider([text_reply("2")]), policy=Policy(max_turns=8), runs=runs)
        async with agent.session("r", policy=Policy(max_turns=9)) as session:
            assert session.policy.max_turns == 9
        # An agent that is given no policy has none to differ.
        async with Agent(ScriptedProvider([]), runs=runs).session("r") as session:
            assert session.policy.max_turns == 9

    asyncio.run(run())


def test_another_word_for_what_changes_is_refused() -> None:
    with pytest.raises(ValueError, match="'raise', 'refresh', 'keep'"):
        Agent(ScriptedProvider([]), on_change="ask")  # type: ignore[arg-type]  # as those without a type checker do


# --- turns at one time ---


def test_of_two_turns_of_one_run_the_second_waits() -> None:
    async def run() -> list[str]:
        agent = an_agent(text_reply("one"), text_reply("two"), text_reply("three"))
        results = await asyncio.gather(*(_awaited(agent.run(words, "r")) for words in "abc"))
        return [result.text for result in results]

    assert asyncio.run(run()) == ["one", "two", "three"]


async def _awaited(turn: Awaitable[Result]) -> Result:
    return await turn


def test_a_turn_within_a_turn_of_its_run_is_told_and_does_not_wait_for_itself() -> None:
    async def run() -> None:
        agent = an_agent(*TWO_ROUNDS)
        async with agent.run("go", "r") as turn:
            async for _ in turn:
                with pytest.raises(RuntimeError, match="under way in this very task"):
                    await agent.run("and this", "r")

    asyncio.run(run())


def test_without_asyncio_it_is_said_what_to_write() -> None:
    async def asked() -> None:
        await an_agent(text_reply("Hello.")).run("go")

    waiting = asked()
    with pytest.raises(RuntimeError, match=r"trio.to_thread.run_sync"):
        waiting.send(None)
