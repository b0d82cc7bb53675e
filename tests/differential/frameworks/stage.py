"""The port behind which an agent in this process is judged: a scripted model, an observed tool, prompts and cancels.

It is run by the interpreter that has the agent's framework, so it imports nothing but the standard library. A line of
JSON is a scenario, as `port.py` writes it; a line goes out with what was seen.
"""

import asyncio
import json
import logging
import re
import sys
import warnings
from collections.abc import Callable
from typing import NotRequired, Protocol, TypedDict

LABEL = re.compile(r"echo part (\w+) >>")
SLEEP = re.compile(r"sleep (\d+)")
STATUS = re.compile(r"exit (\d+)")
NOISE = re.compile(r"head -c (\d+)")
RAISES = 100  # a status from here on is an exception that no tool should raise
MOST_REQUESTS = 40
PATIENCE_S = 20
TURNS_PER_SECOND = 100  # of the event loop: how long a command takes that sleeps


class ScriptedCall(TypedDict):
    """A call of the script: its arguments are as the model wrote them, whole or not."""

    id: str
    tool: str
    arguments: str
    half: bool


class Answer(TypedDict):
    """What a request meets: a reply, or a `problem` with its HTTP status."""

    text: NotRequired[str]
    calls: NotRequired[list[ScriptedCall]]
    stop: NotRequired[str]  # as `Stop` of conform names it
    cut: NotRequired[str]  # as `Cut` does
    problem: NotRequired[int]
    message: NotRequired[str]
    retry_after_s: NotRequired[int | None]


class Life(TypedDict):
    """A prompt. It is cancelled when the command of the call `within` has begun."""

    prompt: str
    within: str | None


class Script(TypedDict):
    """The lives of a scenario, which are prompts to one agent, and the answers to its requests."""

    lives: list[Life]
    answers: list[Answer]


# ["text", role, text], ["call", id, name, arguments] or ["given", id, text, "failed" or ""]
Item = list[str]


class Exchange(TypedDict):
    """A request, and which answer it met: None is the plain one behind the last."""

    life: int
    at_s: float
    answered_s: float
    items: list[Item]
    answer: int | None


class LifeSeen(TypedDict):
    """What became of a prompt: its status is None where it had to be ended, 1 where it raised."""

    status: int | None
    signalled: bool
    exchanges: int
    effects: int
    last_words: str


class Seen(TypedDict):
    """What was seen of a scenario."""

    exchanges: list[Exchange]
    effects: list[list[str]]
    lives: list[LifeSeen]


PLAIN: Answer = {"text": "done", "stop": "natural"}


class CommandFailed(Exception):
    """The command has failed, as commands do; a framework is told so in its own way."""


class Agent(Protocol):
    """An agent of a framework. `cancel` is the framework's own way; without one its task is cancelled."""

    @property
    def cancel(self) -> Callable[[], object] | None:
        """The way; None: there is none."""
        ...

    async def prompt(self, text: str) -> None:
        """Say this to the agent, and wait for the end of its turn. Raises what the framework raises."""
        ...


class Stage:
    """One scenario: what is left of its answers, and what was seen so far. `now_s` is the time that has been waited."""

    def __init__(self, script: Script, patience_s: float = PATIENCE_S) -> None:
        self.script = script
        self._patience_s = patience_s
        self.seen: Seen = {"exchanges": [], "effects": [], "lives": []}
        self.now_s = 0.0
        self._life = 0
        self._signal: Callable[[], object] | None = None
        self._signalled: list[int] = []  # how many requests and effects there were

    def asked(self, items: list[Item]) -> Answer:
        """The model is asked: what it answers."""
        number = len(self.seen["exchanges"])
        if number >= MOST_REQUESTS:
            raise RuntimeError(f"{number} requests were made, and there is no end")
        place = number if number < len(self.script["answers"]) else None
        self.seen["exchanges"].append(
            {"life": self._life, "at_s": self.now_s, "answered_s": self.now_s, "items": items, "answer": place}
        )
        return PLAIN if place is None else self.script["answers"][place]

    async def run(self, command: str) -> str:
        """A tool is run: its command is read, not executed. Raises CommandFailed, or what no tool should raise."""
        found = LABEL.search(command)
        if found is None:
            raise CommandFailed(f"there is no such command: {command}")
        label = found[1]
        self._note("part", label)
        self._note("begin", label)
        if label == self.script["lives"][self._life]["within"] and self._signal is not None:
            for _ in range(10):  # what starts together has started
                await asyncio.sleep(0)
            signal, self._signal = self._signal, None
            self._signalled += [len(self.seen["exchanges"]), len(self.seen["effects"])]
            signal()
        for _ in range(TURNS_PER_SECOND * _number(SLEEP, command)):
            await asyncio.sleep(0)
        if (status := _number(STATUS, command)) >= RAISES:
            raise ValueError(f"the tool of {label} is broken")
        self._note("end", label)
        told = f"out-{label}-42{'x' * _number(NOISE, command)}"
        if status:
            raise CommandFailed(f"{told}\nexit status {status}")
        return told

    def _note(self, word: str, label: str) -> None:
        self.seen["effects"].append([word, label])

    async def play(self, agent: Agent) -> Seen:
        """All prompts of the scenario, one after the other."""
        for number, life in enumerate(self.script["lives"]):
            self._life, self._signalled = number, []
            task = asyncio.ensure_future(agent.prompt(life["prompt"]))
            self._signal = agent.cancel or task.cancel
            status, words = await _ended(task, self._patience_s)
            self.seen["lives"].append(
                {
                    "status": status,
                    "signalled": bool(self._signalled),
                    "exchanges": self._signalled[0] if self._signalled else 0,
                    "effects": self._signalled[1] if self._signalled else 0,
                    "last_words": words,
                }
            )
        return self.seen


def _number(pattern: re.Pattern[str], command: str) -> int:
    found = pattern.search(command)
    return int(found[1]) if found else 0


async def _ended(task: "asyncio.Future[None]", patience_s: float) -> tuple[int | None, str]:
    done, _ = await asyncio.wait({task}, timeout=patience_s)
    if not done:
        task.cancel()
        await asyncio.wait({task}, timeout=1)
        return None, ""
    if task.cancelled():
        return 0, "cancelled"
    error = task.exception()
    return (0, "") if error is None else (1, " ".join(f"{type(error).__name__}: {error}".split())[:160])


def main(opened: Callable[[Stage], Agent]) -> None:
    """Play each line of the input, and print what was seen of it."""

    async def play(script: Script) -> Seen:
        stage = Stage(script)
        return await stage.play(opened(stage))

    print_each(lambda script: asyncio.run(play(script)))


def print_each(play: Callable[[Script], Seen]) -> None:
    """As `main`, however a script is played."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")

    for line in sys.stdin:
        print(json.dumps(play(json.loads(line))), flush=True)
