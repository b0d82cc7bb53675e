"""A scenario played with an agent, within the box: run as a module there, it tells on standard output what it found.

It is given the text of the agent file and the scenario on standard input, and the folder to live in.
"""

import json
import os
import pickle
import signal
import sys
import threading
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path

from loopkernel.data.json_text import JsonValue

from loopkernel_adapters.conform import box
from loopkernel_adapters.conform.agent_file import AgentFile, agent_of
from loopkernel_adapters.conform.choices import choices_seen
from loopkernel_adapters.conform.judges import judged
from loopkernel_adapters.conform.living import KEY, Home, Living, furnish
from loopkernel_adapters.conform.patience import family, wait_for
from loopkernel_adapters.conform.provider import Provider
from loopkernel_adapters.conform.record import Effect, LifeSeen, Record
from loopkernel_adapters.conform.scenario import End, Life, Scenario, prompt_of
from loopkernel_adapters.conform.script import HELD
from loopkernel_adapters.conform.trace import lines_of

# In seconds of rest.
_STOPPING_S = 8.0  # for a cancelled agent to end, or at least to stop its commands
_CANCEL_PATIENCE_S = 40.0  # for it to end once they have
_SETTLE_S = 1.0  # a command that runs beside another begins within this
_AFTERMATH_S = 2.0  # for a command that was not stopped to show it


def played(agent: AgentFile, scenario: Scenario, folder: Path, begun: list[Living]) -> Record:
    """The scenario with the agent in the folder, life by life; each is added to those begun."""
    effects = folder / "work" / "effects"
    with Provider(scenario.answers, str(effects), agent.shell, agent.finish) as provider:
        home = Home(folder=folder, url=provider.url)
        furnish(home, agent)
        _held(effects).touch()
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
    patience = max(scenario.patience_s, agent.patience_s)
    if life.within is None:
        _wait_for_end(living, provider, patience)
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
        living.wait(_STOPPING_S)
    _held(effects).unlink(missing_ok=True)  # what was not stopped comes to its end, and shows it
    if signalled and life.end is End.CANCELLED:
        living.wait(_CANCEL_PATIENCE_S)
        ended = Effect("end", life.within)
        wait_for(lambda: ended in _effects_in(effects) or _is_alone(), _AFTERMATH_S)
    return LifeSeen(
        status=living.status,
        signalled=signalled,
        exchanges=exchanges,
        effects=len(written),
        last_words=living.last_words,
    )


def _wait_for_end(living: Living, provider: Provider, patience_s: float) -> None:
    """Wait until it ends by itself, or has asked for nothing for so long."""
    known = -1
    while known != len(provider.exchanges):
        known = len(provider.exchanges)
        if living.wait(patience_s):
            return


def _settle(effects: Path) -> None:
    """Wait until all is at rest and no command begins, so that one which began beside it is not taken for a later one.

    It may be over by then: a command of an agent that has no more to do is not waited for.
    """
    written: list[Effect] = []
    while written != (now := list(_effects_in(effects))):
        written = now
        # mypy gives no type to a function whose parameter has what was written before as its default.
        wait_for(lambda known=written: known != list(_effects_in(effects)), _SETTLE_S)  # type: ignore[misc]


def _held(effects: Path) -> Path:
    """The file that holds commands."""
    return effects.with_name(effects.name + HELD)


def _is_alone() -> bool:
    """Whether nobody else is left in the box. Without one that cannot be told: a process may have left the family."""
    return os.getpid() == 1 and len(list(family())) == 1


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
    agent, scenario = agent_of(given["agent"]), pickle.loads(b64decode(given["scenario"]))
    folder = Path(sys.argv[1])
    print(json.dumps(found_in(played(agent, scenario, folder, begun), folder)))


def found_in(record: Record, folder: Path) -> dict[str, JsonValue]:
    """What is told of a play in that folder: nothing of it shows the folder, or the key."""
    judgements = [*judged(record)]
    return {
        "checks": [each.law for each in judgements],
        "breaches": [
            {"law": each.law, "weight": each.weight, "detail": _hidden(each.detail, folder)}
            for each in judgements
            if each.weight is not None
        ],
        "trace": [_hidden(line, folder) for line in lines_of(record)],
        "choices": dict(choices_seen(record)),
        "trouble": _trouble(record),
        "words": _hidden(record.lives[0].last_words, folder),
    }


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
