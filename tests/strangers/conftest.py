"""Plays are begun side by side: each waits most of its time, and the tests read what came of them."""

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TypeAlias

import pytest
from loopkernel_adapters.conform.agent_file import agent_text
from loopkernel_adapters.conform.catalogue import scenario_named
from loopkernel_adapters.conform.running import Found, lifeline, played

STRANGER = Path(__file__).resolve().parents[1] / "adapters" / "conform" / "planted_agent.py"
NO_BUG = ""
_AT_A_TIME = 8
_PATIENCE_S = 20  # of rest; our own agent asks sooner than any of the others

Play: TypeAlias = tuple[str, str]  # the bug, and the scenario


def own_agent(*program: str) -> str:
    """The agent file of our own agent, which is started so."""
    words = ", ".join(f'"{word}"' for word in program)
    return f"patience_s = {_PATIENCE_S}\n" + agent_text("loopkernel").replace('"loopkernel", "', f'{words}, "')


def _play(play: Play, line: int) -> Found:
    bug, scenario = play
    program = (str(STRANGER), bug) if bug else ("-m", "loopkernel_adapters")
    return played(own_agent(sys.executable, *program), scenario_named(scenario), "again", line)


@pytest.fixture(scope="session")
def found(request: pytest.FixtureRequest) -> Iterator[Callable[[Play], Found]]:
    """What came of a play. Those of all tests that are to be run have begun."""
    plays = [item.callspec.params["play"] for item in request.session.items if hasattr(item, "callspec")]
    with lifeline() as line, ThreadPoolExecutor(_AT_A_TIME) as threads:
        begun: dict[Play, Future[Found]] = {play: threads.submit(_play, play, line) for play in plays}
        try:
            yield lambda play: begun[play].result()
        finally:
            threads.shutdown(cancel_futures=True)
