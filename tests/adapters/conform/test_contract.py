"""The scenarios of the contract from outside: which can be played, and that a right loop breaks no law there."""

from functools import cache

import pytest
from loopkernel.testing.contract import contract_folder
from loopkernel.testing.scenarios.format.document import read_scenarios
from loopkernel_adapters.conform.catalogue import SCENARIOS
from loopkernel_adapters.conform.contract import MOST_ANSWERS, NotPlayable, contract_scenarios, outside
from loopkernel_adapters.conform.judges import judged
from loopkernel_adapters.conform.scenario import End, Life, Scenario
from loopkernel_adapters.conform.script import BUSY, Called, Cut, Reply, Said, Stop, calling, said

from tests.adapters.conform.ideal import record_of

WORDS = said("so be it")
TWO_TOOLS = "tools: {slow: {takes_ms: 900}, quick: {takes_ms: 10, fails: no}}"
CALLS_SLOW = "- calls: [{id: c1, tool: slow}, {id: c2, tool: quick}]"


def world(model: str, user: str = "- {at: 0, say: go}", tools: str = TWO_TOOLS, more: str = "") -> Scenario:
    """What an agent meets, of a scenario with these parts."""
    lines = [f"  {line}" for line in model.splitlines()]
    text = "\n".join(["scenario: drawn", tools, "model:", *lines, "user:", f"  {user}", more])
    return outside(read_scenarios(text, "here")[0])


def test_the_calls_of_a_reply_are_commands_and_the_slower_sleeps_longer() -> None:
    played = world(f"{CALLS_SLOW}\n- text: Done.")
    first = (Called(label="a", sleeps_s=1), Called(label="b", status=1))
    assert played.answers == (calling(*first), WORDS)
    assert played.lives == (Life(),)


def test_each_thing_that_is_said_is_a_process() -> None:
    played = world("- text: One.\n- text: Two.", "- {at: 0, say: go}\n  - {at: 9, say: on}")
    assert played.answers == (WORDS, WORDS)
    assert played.lives == (Life(), Life())


@pytest.mark.parametrize(
    ("action", "end", "sleeps_s"), [("cancel: all", End.CANCELLED, 1), ("crash: {}", End.KILLED, 9)]
)
def test_a_process_is_ended_within_the_call_that_runs_then(action: str, end: End, sleeps_s: int) -> None:
    played = world(f"{CALLS_SLOW}\n- text: Done.", f"- {{at: 0, say: go}}\n  - {{at: 100, {action}}}")
    assert played.lives == (Life(end=end, within="a"), Life())
    assert isinstance(played.answers[0], Reply)
    assert played.answers[0].calls == (
        Called(label="a", held=True, sleeps_s=sleeps_s),
        Called(label="b", status=1),
    )


@pytest.mark.parametrize(
    ("entry", "answer"),
    [
        ("- {fails: overloaded}", BUSY),
        ("- {fails: network}", Reply(cut=Cut.RESET)),
        ("- {text: I, ends: early}", Reply(parts=(Said("so be it"),), cut=Cut.CLEAN)),
        ("- {text: I, stop: max_tokens}", said("so be it", Stop.OUTPUT_LIMIT)),
        ("- {calls: [{id: c1, tool: none}]}", calling(Called(label="a", tool="nowhere_to_be_found", raw="{}"))),
    ],
)
def test_what_the_model_does_is_done_on_the_wire(entry: str, answer: Reply) -> None:
    assert world(entry).answers == (answer,)


@pytest.mark.parametrize(
    ("parts", "told"),
    [
        ({"model": "- {hangs: true}"}, "silent"),
        ({"model": "- text: x", "user": "- {at: 0, say: go}\n  - {at: 1, cancel: all}"}, "no command of its turn runs"),
        ({"model": "- text: x", "user": "- {at: 0, say: go}\n  - {at: 1, steer: there}"}, "Steer"),
        ({"model": "- text: x", "more": "hooks: [{point: before_model}]"}, "hooks"),
        ({"model": "\n".join(["- text: x"] * (MOST_ANSWERS + 1))}, "12 answers"),
        ({"model": CALLS_SLOW, "tools": "tools: {slow: {hangs: true}, quick: {}}"}, "never ends"),
        ({"model": CALLS_SLOW, "tools": "tools: {slow: {final: true}, quick: {}}"}, "ends the turn"),
    ],
)
def test_what_cannot_be_had_from_outside_is_not_played_and_says_why(parts: dict[str, str], told: str) -> None:
    with pytest.raises(NotPlayable, match=told):
        world(**parts)


@cache
def whole_contract() -> tuple[Scenario, ...]:
    """All that can be played."""
    return contract_scenarios()


def test_a_loop_without_a_fault_breaks_no_law_in_any_world_of_the_contract() -> None:
    worlds = whole_contract()
    wrong = {each.name: found for each in worlds if (found := [*broken(each)])}
    assert wrong == {}
    assert len(worlds) >= 200


def broken(world: Scenario) -> list[str]:
    """What the judges find wrong in it, of a loop without a fault."""
    return [f"{each.law}: {each.detail}" for each in judged(record_of(world)) if each.weight is not None]


def test_each_world_of_the_contract_is_another_and_its_lives_end_within_calls_that_are_held() -> None:
    worlds = whole_contract()
    kinds = [(each.answers, each.lives) for each in (*worlds, *SCENARIOS)]
    assert len({each.name for each in worlds}) == len(worlds)
    assert all(kinds.count(kind) == 1 for kind in kinds)
    for each in worlds:
        held = {
            call.label for answer in each.answers if isinstance(answer, Reply) for call in answer.calls if call.held
        }
        assert {life.within for life in each.lives} - {None} <= held
        assert bool(held) == any(life.end is not End.BY_ITSELF for life in each.lives)
        assert each.lives[-1] == Life()


def test_one_file_gives_its_own_worlds() -> None:
    names = {each.name for each in contract_scenarios(contract_folder() / "scenarios" / "broken_streams.yaml")}
    assert names
    assert names <= {each.name for each in whole_contract()} | names
