"""The wires and the provider: the vendors' own clients read what it writes, and it reads what those clients send.

Slow: each test serves on the loopback interface and opens a client of a vendor.
"""

from collections.abc import Callable

import pytest
from loopkernel import EffectClass
from loopkernel.data.tools import Decision
from loopkernel.policy import Policy, Retry
from loopkernel_adapters import Agent, AnthropicProvider, OpenAIChatProvider, OpenAIResponsesProvider, tool
from loopkernel_adapters.conform.asked import Call, Given
from loopkernel_adapters.conform.provider import Provider
from loopkernel_adapters.conform.record import Exchange
from loopkernel_adapters.conform.script import Answer, Called, Cut, Reply, Said, Stop, calling, limited, said
from loopkernel_adapters.conform.shell import Finish, ShellHint
from loopkernel_adapters.ports import Provider as Port

pytestmark = pytest.mark.slow

PORTS: dict[str, Callable[[str], Port]] = {
    "messages": lambda url: AnthropicProvider(api_key="no-key", base_url=url),
    "chat": lambda url: OpenAIChatProvider(api_key="no-key", base_url=f"{url}/v1"),
    "responses": lambda url: OpenAIResponsesProvider(api_key="no-key", base_url=f"{url}/v1"),
}
QUICK = Policy(retry=Retry(base_ms=1, retries=3))


@tool(effect=EffectClass.DANGEROUS, approval=Decision.ALLOW)
def bash(command: str) -> str:
    """Runs a command."""
    return f"ran {len(command)} characters"


def conversation(wire: str, *answers: Answer) -> tuple[str, list[Exchange]]:
    """What our own agent makes of the answers over the wire: its last words, and what it asked."""
    with Provider(answers, "effects", ShellHint(), None) as provider:
        agent = Agent(PORTS[wire](provider.url), [bash], model="m", policy=QUICK)
        return agent.run_sync("say-1: go").text, provider.exchanges


@pytest.fixture(params=sorted(PORTS))
def wire(request: pytest.FixtureRequest) -> str:
    """Each wire."""
    return str(request.param)


def test_a_call_goes_out_and_comes_back_with_its_answer(wire: str) -> None:
    text, asked = conversation(wire, calling(Called(label="a"), Called(label="b")), said("well"))
    assert text == "well"
    assert [exchange.asked.streams for exchange in asked] == [True, True]
    last = asked[-1].asked
    assert [call.label for call in last.calls] == ["a", "b"]
    assert all(given is not None and given.text.startswith("ran ") for _, given in last.answers())
    assert any("say-1" in words for words in last.words("user"))
    assert {each.name for each in last.tools} == {"bash"}


@pytest.mark.parametrize("cut", [Cut.CLEAN, Cut.RESET])
def test_a_cut_stream_is_no_reply(wire: str, cut: Cut) -> None:
    text, asked = conversation(wire, calling(Called(label="a", half=True), cut=cut), said("well"))
    assert text == "well"
    assert not any(isinstance(item, Call | Given) for item in asked[-1].asked.items)


def test_a_call_that_the_output_limit_cuts_is_told_as_cut(wire: str) -> None:
    text, asked = conversation(wire, calling(Called(label="a", half=True), stop=Stop.OUTPUT_LIMIT), said("well"))
    assert text == "well"
    assert not any(given is not None and given.text.startswith("ran ") for _, given in asked[-1].asked.answers())


def test_an_error_is_tried_again_and_words_that_the_limit_cuts_are_gone_on_with(wire: str) -> None:
    text, asked = conversation(wire, limited(0), said("well"))
    assert (text, len(asked)) == ("well", 2)
    assert asked[0].asked.items == asked[1].asked.items


def test_an_empty_reply_and_one_of_words_and_a_call_are_read(wire: str) -> None:
    text, asked = conversation(wire, Reply(parts=(Said("look: "), Called(label="a")), stop=Stop.CALLS), said("well"))
    assert text.endswith("well")
    assert [call.label for call in asked[-1].asked.calls] == ["a"]
    assert conversation(wire, Reply(), said("well"))[0] == "well"


def test_a_request_without_a_shell_is_answered_apart() -> None:
    with Provider((said("well"),), "effects", ShellHint(), None) as provider:
        agent = Agent(PORTS["chat"](provider.url), [], model="m", policy=QUICK)
        assert agent.run_sync("what is the title?").text == "aside"
        assert (provider.asides, provider.exchanges) == (1, [])


def test_a_turn_that_words_do_not_end_is_ended_by_its_call() -> None:
    with Provider((), "effects", ShellHint(), Finish(command="echo over")) as provider:
        agent = Agent(PORTS["chat"](provider.url), [bash], model="m", policy=Policy(max_turns=2))
        agent.run_sync("say-1: go")
        assert "echo over" in provider.exchanges[1].asked.calls[0].arguments
