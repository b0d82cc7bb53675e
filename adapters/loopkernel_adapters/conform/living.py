"""A life of an agent: its process, begun in a home and a folder of its own, and ended with all that it has started."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from attrs import frozen

from loopkernel_adapters.conform.agent_file import AgentFile
from loopkernel_adapters.conform.patience import wait_for

KEY = "sk-conform-0123456789abcdef"  # for the loopback provider alone
SESSION = "6f1c2f0e-52a4-4c7b-9d5e-0c0f0a2b3c4d"
_KEPT = ("PATH", "LANG", "LC_ALL", "TZ")
_LAST_WORDS = 2_000


@frozen(kw_only=True)
class Home:
    """Where an agent lives: its home, the folder that it works in, and where its provider is."""

    folder: Path
    url: str

    @property
    def home(self) -> Path:
        """The home folder."""
        return self.folder / "home"

    @property
    def work(self) -> Path:
        """The folder that it works in."""
        return self.folder / "work"

    @property
    def effects(self) -> Path:
        """The file that scripted commands, and nobody else, write to."""
        return self.work / "effects"

    def words(self, prompt: str = "") -> dict[str, str]:
        """What stands for the placeholders of an agent file."""
        return {
            "{url}": self.url,
            "{key}": KEY,
            "{prompt}": prompt,
            "{work}": str(self.work),
            "{home}": str(self.home),
            "{session}": SESSION,
        }


def filled(text: str, words: Mapping[str, str]) -> str:
    """The text with its placeholders replaced; any other braces stay."""
    for placeholder, value in words.items():
        text = text.replace(placeholder, value)
    return text


def furnish(home: Home, agent: AgentFile) -> None:
    """Make its folders, and the files that it is to find."""
    home.home.mkdir(parents=True)
    home.work.mkdir()
    for name, text in agent.files.items():
        path = home.folder / filled(name, {"{home}": "home", "{work}": "work"})
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(filled(text, home.words()), encoding="utf-8")


def environment_of(home: Home, agent: AgentFile) -> dict[str, str]:
    """All that it gets of an environment.

    The folder of tmux is its own: a server of tmux is one for all that share the folder, beyond the walls of boxes, so
    the commands of an agent that uses it would run in the box of another one, and end with that.
    """
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    own = {name: filled(value, home.words()) for name, value in agent.environment.items()}
    return {**kept, "HOME": str(home.home), "TERM": "dumb", "TMUX_TMPDIR": str(home.home), **own}


class Living:
    """A process of the agent."""

    def __init__(self, home: Home, agent: AgentFile, command: tuple[str, ...], prompt: str, output: Path) -> None:
        words = home.words(prompt)
        self._agent = agent
        self._output = output
        with output.open("wb") as written:
            self._process = subprocess.Popen(
                [filled(word, words) for word in command],
                cwd=home.work,
                env=environment_of(home, agent),
                stdin=subprocess.PIPE,
                stdout=written,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        stdin = self._process.stdin
        if stdin is None:  # it was asked for above
            raise LookupError("the process has no standard input")
        with contextlib.suppress(BrokenPipeError):  # it is over already, which its status tells
            stdin.write(filled(agent.stdin, words).encode())
            stdin.close()

    @property
    def is_over(self) -> bool:
        """Whether its first process has ended."""
        return self._process.poll() is not None

    def wait(self, patience_s: float) -> bool:
        """Wait for its end; whether it has come before so many seconds of rest."""
        return wait_for(lambda: self.is_over, patience_s)

    def cancel(self) -> None:
        """As a person does at a terminal: the signal reaches the group in the foreground."""
        for _ in range(self._agent.signals):
            self._signal(self._agent.signal)
            if self.wait(1.0):
                return

    def kill(self) -> None:
        """End it and its group at once."""
        self._signal(signal.SIGKILL)
        self._process.wait()

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)

    @property
    def status(self) -> int | None:
        """Its exit status; None while it goes on."""
        return self._process.poll()

    @property
    def last_words(self) -> str:
        """The end of what it wrote."""
        return self._output.read_bytes()[-_LAST_WORDS:].decode(errors="replace")
