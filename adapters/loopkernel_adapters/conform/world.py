"""A scenario played with an agent, within the box: run as a module there, it tells on standard output what it found.

It is given the text of the agent file and the name of the scenario on standard input, and the folder to live in.
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from loopkernel.data.json_text import JsonValue

from loopkernel_adapters.conform import box
from loopkernel_adapters.conform.agent_file import AgentFile, agent_of
from loopkernel_adapters.conform.catalogue import scenario_named
from loopkernel_adapters.conform.choices import choices_seen
from loopkernel_adapters.conform.judges import judged
from loopkernel_adapters.conform.living import KEY, Home, Living, furnish, wait_for
from loopkernel_adapters.conform.provider import Provider
from loopkernel_adapters.conform.record import Effect, LifeSeen, Record
from loopkernel_adapters.conform.scenario import End, Life, Scenario, prompt_of
from loopkernel_adapters.conform.trace import lines_of

_CANCEL_PATIENCE_S = 40.0  # for a cancelled agent to end
_SETTLE_S = 1.0  # a command that runs beside another begins within this
_AFTERMATH_S = 11.0  # for a command that was not stopped to show it


def played(agent: AgentFile, scenario: Scenario, folder: Path, begun: list[Living]) -> Record:
    """The scenario with the agent in the folder, life by life; each is added to those begun."""
    effects = folder / "work" / "effects"
    with Provider(scenario.answers, str(effects), agent.shell, agent.finish) as provider:
        home = Home(folder=folder, url=provider.url)
        furnish(home, agent)
        lives: list[LifeSeen] = []
        for number, life in enumerate(scenario.lives):
            provider.life = number
            command = agent.resume if number else agent.start
            living = Living(home, agent, command, prompt_of(number), folder / f"output-{number}")
            begun.append(living)
            try:
                lives.append(_lived(living, life, agent, scenario, provider, effects))
            finally:
                living.kill()
        return Record(
            scenario=scenario,
            exchanges=tuple(provider.exchanges),
            effects=tuple(_effects_in(effects)),
            lives=tuple(lives),
            asides=provider.asides,
            summaries=tuple(provider.summaries),
            offered=provider.offered,
        )


def _lived(
    living: Living, life: Life, agent: AgentFile, scenario: Scenario, provider: Provider, effects: Path
) -> LifeSeen:
    """Wait for the end of the life, or bring it about."""
    patience = max(scenario.patience_s, agent.patience_s or 0)
    if life.within is None:
        living.wait(patience)
        return LifeSeen(status=living.status, patience_s=patience, last_words=living.last_words)
    begun = Effect("begin", life.within)
    wait_for(lambda: living.is_over or begun in _effects_in(effects), patience)
    _settle(effects)
    exchanges, written = len(provider.exchanges), list(_effects_in(effects))
    signalled = begun in written and not living.is_over
    if life.end is End.KILLED:
        living.kill()
    elif signalled:
        living.cancel()
        living.wait(_CANCEL_PATIENCE_S)
        ended = Effect("end", life.within)
        wait_for(lambda: ended in _effects_in(effects), _AFTERMATH_S)
    return LifeSeen(
        status=living.status,
        signalled=signalled,
        exchanges=exchanges,
        effects=len(written),
        last_words=living.last_words,
    )


def _settle(effects: Path) -> None:
    """Wait until no other command begins, so that one which began beside it is not taken for a later one."""
    written: list[Effect] = []
    while written != (now := list(_effects_in(effects))):
        written = now
        time.sleep(_SETTLE_S)


def _effects_in(path: Path) -> Iterator[Effect]:
    if not path.exists():
        return
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        word, _, label = line.partition(" ")
        yield Effect(word, label)


def _end_with(line: int, begun: list[Living]) -> None:
    """End what was begun, this process, and so the box, once nobody holds the other end of the line."""

    def wait() -> None:
        os.read(line, 1)
        for living in begun:
            living.kill()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def main() -> None:
    """Play what standard input says, in the folder that is given, and tell what was found."""
    begun: list[Living] = []
    _end_with(int(sys.argv[2]), begun)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)  # a job in the background ignores some, and so would the agent
    given = json.load(sys.stdin)
    if given["box"]:
        box.raise_loopback()
    agent, scenario = agent_of(given["agent"]), scenario_named(given["scenario"])
    folder = Path(sys.argv[1])
    record = played(agent, scenario, folder, begun)
    found: dict[str, JsonValue] = {
        "checks": [check.law for check in judged(record)],
        "breaches": [
            {"law": each.law, "weight": each.weight, "detail": each.detail}
            for each in judged(record)
            if each.weight is not None
        ],
        "trace": [_hidden(line, folder) for line in lines_of(record)],
        "choices": dict(choices_seen(record)),
        "trouble": _trouble(record),
        "words": _hidden(record.lives[-1].last_words, folder),
    }
    print(json.dumps(found))


def _trouble(record: Record) -> str:
    """Why nothing of the scenario could be seen, if so."""
    if record.exchanges:
        return ""
    if record.offered:
        return f"no tool that runs commands was found among {', '.join(record.offered)}; name it in [shell]"
    status = record.lives[0].status
    ended = "it went on without asking" if status is None else f"it ended with status {status}"
    return f"the agent never asked the model with its tools ({record.asides} other requests); {ended}"


def _hidden(text: str, folder: Path) -> str:
    return text.replace(KEY, "[key]").replace(str(folder), "[box]")


if __name__ == "__main__":
    main()
