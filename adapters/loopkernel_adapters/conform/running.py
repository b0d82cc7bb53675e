"""An agent played through the scenarios, each in a box of its own, and what that gives: a scorecard."""

import json
import os
import pickle
import subprocess
import sys
import tempfile
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

from attrs import frozen
from loopkernel.data.json_text import JsonValue

from loopkernel_adapters.conform import box
from loopkernel_adapters.conform.agent_file import AgentFile, AgentFileUnusable, agent_of
from loopkernel_adapters.conform.asked import listed, mapping, word
from loopkernel_adapters.conform.choices import QUESTIONS
from loopkernel_adapters.conform.living import Home, environment_of
from loopkernel_adapters.conform.scenario import Scenario
from loopkernel_adapters.conform.scorecard import Breach, Choice, Played, Scorecard, Subject, Weight, verdicts_of

_OVER_ALL_S = 5400  # for a scenario, also on a very busy machine; its lives end long before
_LINES_OF_COMPLAINT = 12  # a stack, with what it is about above it
_WIRES = {"messages": "Anthropic Messages", "chat": "OpenAI chat completions", "responses": "OpenAI responses"}


@frozen(kw_only=True)
class Found:
    """What a scenario gave. `trouble` says why nothing of it could be seen."""

    scenario: Scenario
    checks: tuple[str, ...] = ()
    breaches: tuple[Breach, ...] = ()
    choices: Mapping[str, str]
    trouble: str = ""
    trace: tuple[str, ...] = ()


def version_of(agent: AgentFile) -> str:
    """What the agent says that its version is. Raises AgentFileUnusable where it cannot be started."""
    with tempfile.TemporaryDirectory(prefix="conform-") as folder:
        home = Home(folder=Path(folder), url="http://127.0.0.1:9")
        try:
            done = subprocess.run(
                agent.version,
                env=environment_of(home, agent),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=180,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise AgentFileUnusable(
                f"{agent.version[0]} cannot be started: {error}; install it, or put its folder into PATH"
            ) from error
    said = (done.stdout.strip() or done.stderr.strip()).splitlines()
    if done.returncode or not said:
        words = "\n  ".join(["; it said:", *said[-_LINES_OF_COMPLAINT:]] if said else ["; it said nothing"])
        raise AgentFileUnusable(f"`{' '.join(agent.version)}` ended with status {done.returncode}{words}")
    return said[0].strip()


@contextmanager
def lifeline() -> Iterator[int]:
    """What boxes hold on to: each ends with all that is in it once this is left, or this process is gone."""
    held, let_go = os.pipe()
    try:
        yield held
    finally:
        os.close(let_go)
        os.close(held)


def played(text: str, scenario: Scenario, again: str, line: int | None = None) -> Found:
    """The scenario with the agent of that file, in a box; `again` is the command to do so again.

    The box holds on to the lifeline, where there is one.
    """
    if line is None:
        with lifeline() as own:
            return played(text, scenario, again, own)
    with tempfile.TemporaryDirectory(prefix="conform-", ignore_cleanup_errors=True) as folder:
        entrance = box.entrance()
        world = b64encode(pickle.dumps(scenario)).decode()  # for a process of this same installation
        asked = {"agent": text, "scenario": world, "box": "--net" in entrance}
        process = subprocess.Popen(
            [*entrance, sys.executable, "-m", "loopkernel_adapters.conform.world", f"{folder}/box", str(line)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            pass_fds=(line,),
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        )
        try:
            told, complaint = process.communicate(json.dumps(asked), timeout=_OVER_ALL_S)
        except subprocess.TimeoutExpired:
            told, complaint = "", f"it was not over after {_OVER_ALL_S} s"
        finally:
            process.kill()  # and with it everything in its namespace
            process.wait()
    if not told:
        last = (complaint.strip().splitlines() or ["it said nothing"])[-1]
        return Found(scenario=scenario, choices={}, trouble=f"the scenario could not be played: {last}")
    return _found(scenario, mapping(json.loads(told)), again)


def _found(scenario: Scenario, told: dict[str, JsonValue], again: str) -> Found:
    trace = tuple(word(line) for line in listed(told["trace"]))
    breaches = tuple(
        Breach(
            law=word(each.get("law")),
            weight=Weight(word(each.get("weight"))),
            scenario=scenario.name,
            detail=word(each.get("detail")),
            trace=trace,
            again=again,
        )
        for each in map(mapping, listed(told["breaches"]))
    )
    trouble = word(told["trouble"])
    if trouble:
        trouble += _last_line(word(told["words"]))
    return Found(
        scenario=scenario,
        checks=tuple(word(law) for law in listed(told["checks"])),
        breaches=() if trouble else _once_each(breaches),
        choices={name: word(seen) for name, seen in mapping(told["choices"]).items()},
        trouble=trouble,
        trace=trace,
    )


def _last_line(words: str) -> str:
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    return f"; it said last: {lines[-1][:200]}" if lines else ""


def _once_each(breaches: Iterable[Breach]) -> tuple[Breach, ...]:
    """Of each law and weight the first: what is wrong in one request is so in those behind it."""
    found: dict[tuple[str, Weight], Breach] = {}
    for breach in breaches:
        found.setdefault((breach.law, breach.weight), breach)
    return tuple(found.values())


def why_not(agent: AgentFile, scenario: Scenario) -> str:
    """Why the scenario is not played with the agent; empty where it is."""
    if scenario.name in agent.without:
        return agent.without[scenario.name]
    if len(scenario.lives) > 1 and not agent.resume:
        return "the agent file does not say how a session is gone on with"
    return ""


def run_all(
    text: str,
    scenarios: Sequence[Scenario],
    *,
    again: Callable[[Scenario], str],
    jobs: int,
    tell: Callable[[Found], None],
) -> tuple[Found, ...]:
    """All of them, so many at a time, told as they end."""
    agent = agent_of(text)

    def one(scenario: Scenario) -> Found:
        reason = why_not(agent, scenario)
        if reason:
            found = Found(scenario=scenario, choices={}, trouble=reason)
        else:
            found = played(text, scenario, again(scenario), line)
        tell(found)
        return found

    with ThreadPoolExecutor(jobs) as threads, lifeline() as line:  # which ends first, as when a person interrupts
        try:
            return tuple(threads.map(one, scenarios))
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            raise


def presets() -> dict[str, dict[str, str]]:
    """What each preset does at each choice, as it was measured in the same way."""
    text = files("loopkernel_adapters.conform").joinpath("presets.json").read_text(encoding="utf-8")
    return {
        name: {preset: word(does) for preset, does in mapping(seen).items()}
        for name, seen in mapping(json.loads(text)).items()
    }


def card_of(agent: AgentFile, version: str, when: str, found: Sequence[Found]) -> Scorecard:
    """The scorecard of what was found."""
    checks: dict[str, int] = {}
    for each in found:
        for law in each.checks if not each.trouble else ():
            checks[law] = checks.get(law, 0) + 1
    known = presets()
    seen = {name: does for each in found for name, does in each.choices.items()}
    return Scorecard(
        subject=Subject(name=agent.name, version=version, reached=f"over {_WIRES[agent.wire]}"),
        when=when,
        circumstances=(box.told(),),
        scenarios=tuple(
            Played(name=each.scenario.name, about=each.scenario.about, note=each.trouble) for each in found
        ),
        verdicts=verdicts_of(checks, (breach for each in found for breach in each.breaches)),
        choices=tuple(
            Choice(name=name, question=question, seen=seen[name], presets=known.get(name, {}))
            for name, question in QUESTIONS.items()
            if name in seen
        ),
    )
