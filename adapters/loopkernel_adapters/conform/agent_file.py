"""An agent as a data file: its commands, its environment, its wire, how it is cancelled and gone on with."""

import json
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from signal import Signals

from attrs import field, frozen
from loopkernel.data.json_text import JsonValue

from loopkernel_adapters.conform.asked import listed, mapping
from loopkernel_adapters.conform.shell import Finish, ShellHint

WIRES = ("messages", "chat", "responses")
PATIENCE_S = 120  # of an agent whose file says no other
_KEYS = {
    *("name", "about", "tried", "wire", "version", "start", "resume", "stdin", "signal", "signals", "environment"),
    *("files", "shell", "finish", "patience_s", "without"),
}


class AgentFileUnusable(Exception):
    """The file cannot be used; the text says what is wrong with it and where."""


@frozen(kw_only=True)
class AgentFile:
    """An agent. In commands, environment and files, `{url}`, `{key}`, `{prompt}`, `{work}`, `{home}` and `{session}`
    are replaced, and before that `{here}`. An agent without `resume` is not given the scenarios that need it.

    `tried` says with which version and when the file was last seen to work; `signals` is how often a person has to
    interrupt, `patience_s` how long the agent may be at rest without asking for anything; `without` names scenarios
    that are not played, each with the reason.
    """

    name: str
    about: str = ""
    tried: str | None = None
    wire: str
    version: tuple[str, ...]
    start: tuple[str, ...]
    resume: tuple[str, ...] = ()
    stdin: str = ""
    signal: Signals = Signals.SIGINT
    signals: int = 1
    environment: Mapping[str, str] = field(factory=dict)
    files: Mapping[str, str] = field(factory=dict)
    shell: ShellHint = field(factory=ShellHint)
    finish: Finish | None = None
    patience_s: int = PATIENCE_S
    without: Mapping[str, str] = field(factory=dict)


def shipped() -> tuple[str, ...]:
    """The names of the agent files that come with the package."""
    folder = files("loopkernel_adapters.conform").joinpath("agents")
    return tuple(sorted(each.name.removesuffix(".toml") for each in folder.iterdir() if each.name.endswith(".toml")))


def agent_text(given: str) -> str:
    """The text of a file, where its folder stands for `{here}`, or of the shipped one. Raises AgentFileUnusable."""
    if given in shipped():
        return files("loopkernel_adapters.conform").joinpath("agents", f"{given}.toml").read_text(encoding="utf-8")
    try:
        here = json.dumps(str(Path(given).resolve().parent), ensure_ascii=False)[1:-1]  # as TOML has it between quotes
        return Path(given).read_text(encoding="utf-8").replace("{here}", here)
    except FileNotFoundError as error:
        raise AgentFileUnusable(
            f"{given} is neither a file nor one of the agents that are known here: {', '.join(shipped())}"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise AgentFileUnusable(f"{given} cannot be read: {error}") from error


def agent_of(text: str) -> AgentFile:
    """The agent that the text says. Raises AgentFileUnusable."""
    try:
        document: dict[str, JsonValue] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise AgentFileUnusable(f"the agent file is not TOML: {error}") from error
    unknown = sorted(set(document) - _KEYS)
    if unknown:
        raise AgentFileUnusable(f"the agent file has {unknown[0]!r}, which means nothing here; known: {sorted(_KEYS)}")
    wire = _word(document, "wire")
    if wire not in WIRES:
        raise AgentFileUnusable(f"the wire of the agent file is {wire!r}; it must be one of {', '.join(WIRES)}")
    shell = mapping(document.get("shell"))
    return AgentFile(
        name=_word(document, "name"),
        about=_word(document, "about", ""),
        tried=_word(document, "tried", "") or None,
        wire=wire,
        version=_words(document, "version"),
        start=_words(document, "start"),
        resume=_words(document, "resume") if "resume" in document else (),
        stdin=_word(document, "stdin", ""),
        signal=_signal(_word(document, "signal", "SIGINT")),
        signals=_number(document, "signals") or 1,
        environment=_texts(document, "environment"),
        files=_texts(document, "files"),
        shell=ShellHint(
            tool=_word(shell, "tool", "") or None,
            argument=_word(shell, "argument", "") or None,
            rest=mapping(shell.get("rest")),
        ),
        finish=_finish(document),
        patience_s=_number(document, "patience_s") or PATIENCE_S,
        without=_texts(document, "without"),
    )


def _word(document: Mapping[str, JsonValue], key: str, default: str | None = None) -> str:
    value = document.get(key, default)
    if not isinstance(value, str):
        raise AgentFileUnusable(f"the agent file must have {key!r} as a text" + (", and has none" * (value is None)))
    return value


def _words(document: Mapping[str, JsonValue], key: str) -> tuple[str, ...]:
    words = [each for each in listed(document.get(key)) if isinstance(each, str)]
    if not words or len(words) != len(listed(document.get(key))):
        raise AgentFileUnusable(f"the agent file must have {key!r} as a list of words, the program first")
    return tuple(words)


def _number(document: Mapping[str, JsonValue], key: str) -> int | None:
    value = document.get(key)
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value > 0):
        return value
    raise AgentFileUnusable(f"the agent file has {key!r} as {value!r}; it must be a whole number above 0")


def _texts(document: Mapping[str, JsonValue], key: str) -> dict[str, str]:
    table = document.get(key, {})
    if not isinstance(table, dict) or not all(isinstance(value, str) for value in table.values()):
        raise AgentFileUnusable(f"the agent file must have {key!r} as a table of texts")
    return {name: str(value) for name, value in table.items()}


def _finish(document: Mapping[str, JsonValue]) -> Finish | None:
    finish = mapping(document.get("finish"))
    if not finish:
        return None
    tool, command = _word(finish, "tool", "") or None, _word(finish, "command", "") or None
    if (tool is None) == (command is None):
        raise AgentFileUnusable("the agent file must have a tool or a command in [finish], and not both")
    return Finish(tool=tool, arguments=mapping(finish.get("arguments")), command=command)


def _signal(name: str) -> Signals:
    try:
        return Signals[name]
    except KeyError as error:
        raise AgentFileUnusable(f"the agent file has the signal {name!r}, which this system does not know") from error
