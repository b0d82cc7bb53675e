"""The shell as a tool: one command in the workspace, with a limit on time and on output, and no process left behind."""

import os
import signal
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from attrs import field, frozen
from loopkernel.data.json_text import Json
from loopkernel.data.policy import ResultLimit
from loopkernel.data.tools import Decision, EffectClass, Tool, ToolProfile

from loopkernel_adapters.ports import RunContext, ToolError
from loopkernel_adapters.tools.files import Workspace
from loopkernel_adapters.tools.input_schema import JsonObject
from loopkernel_adapters.tools.output_bounds import Capture
from loopkernel_adapters.tools.processes import Command, Confined, Confinement, run_command, strongest_confinement
from loopkernel_adapters.tools.registry import FunctionTool
from loopkernel_adapters.tools.spilling import OutputFile, SpillingCapture
from loopkernel_adapters.tools.threads import run_in_thread

DEFAULT_TIMEOUT_MS = 120_000
LONGEST_TIMEOUT_MS = 600_000
GRACE_MS = 10_000  # in which a command that has run out is ended here, before the kernel's own timer is
HEAD_BYTES = 6_000  # of the output that are kept; together less than what a policy cuts by default (TOOL-11)
TAIL_BYTES = 12_000
LONGEST_COMMAND = 100_000  # bytes

# What a command sees of the environment of this process: nothing that may hold a key or a password.
PASSED_ON = frozenset(
    {"HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER"}
    | {"LC_ALL", "LC_COLLATE", "LC_CTYPE", "LC_MESSAGES", "LC_MONETARY", "LC_NUMERIC", "LC_TIME"}
)
# Nobody sits at a terminal: nothing asks, pages or paints.
ALWAYS_SET = {
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "DEBIAN_FRONTEND": "noninteractive",
}
DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"


def clean_environment(given: Mapping[str, str], more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables that a command gets of an environment, and `more`."""
    passed = {name: value for name, value in given.items() if name in PASSED_ON}
    return {"PATH": DEFAULT_PATH, **passed, **ALWAYS_SET, **(more or {})}


def shell_program() -> str:
    """The shell that commands are written for."""
    return next((path for path in ("/bin/bash", "/usr/bin/bash") if Path(path).exists()), "/bin/sh")


@frozen
class Shell:
    """`shell` for a workspace: dangerous, conflicts with everything, and asks a person before each run.

    `environment` is what commands get besides `clean_environment` of this process. `confined` says how their processes
    are held together; given none, in the strongest way that the system allows.
    """

    workspace: Workspace
    environment: Mapping[str, str] = field(factory=dict)
    confined: Confined = field(factory=strongest_confinement)
    program: str = field(factory=shell_program)
    approval: Decision = Decision.ASK

    @property
    def confinement(self) -> Confinement:
        """How the processes of a command are held together."""
        return self.confined.confinement

    def tool(self) -> FunctionTool:
        """The tool."""
        profile = ToolProfile(
            effect=EffectClass.DANGEROUS,
            serial=True,
            approval=self.approval,
            commands=("command",),
            timeout_ms=LONGEST_TIMEOUT_MS + GRACE_MS,
        )
        tool = Tool(name="shell", description=self.description(), input_schema=Json.of(_schema()), profile=profile)
        return FunctionTool(tool=tool, function=self._run)

    def description(self) -> str:
        """What the model is told of the tool."""
        return (
            f"Run a command with {Path(self.program).name} in the workspace, and see its output and its exit status. "
            "It has no input and no terminal. Of a long output the beginning and the end are kept. Each command begins "
            "anew: a change of folder or of a variable does not last. Processes that it leaves in the background are "
            f"ended when it ends (held together by {self.confinement.value}).{self.confined.told and ' '}"
            f"{self.confined.told}"
        )

    async def _run(self, given: JsonObject, context: RunContext) -> str:
        text, timeout_ms = str(given["command"]), given["timeout_ms"]
        assert isinstance(timeout_ms, int | float)  # the schema says so
        if "\0" in text or len(text.encode()) > LONGEST_COMMAND:
            raise ToolError(
                f"a command has no NUL character and at most {LONGEST_COMMAND} bytes; write a file and run it"
            )
        file = OutputFile(self.workspace, context.key)
        with closing(file):
            output = _capture(context.spill, file)
            with self.workspace.opened_folder(".") as folder:
                command = Command(
                    program=(self.program, "-c", text),
                    folder=folder,
                    environment=clean_environment(os.environ, self.environment),
                    timeout_ms=int(timeout_ms),
                    confined=self.confined,
                )
                ended = await run_command(command, output, context.report_progress)
            output.end(cut=ended.timed_out)
            if file.written:
                await run_in_thread(lambda _: file.keep(), "the tool shell")  # waits for the disk
            words = output.text()
        if ended.timed_out:
            raise ToolError(
                _beneath(words, f"The command was stopped after {int(timeout_ms)} ms; what it had done is done.")
            )
        if ended.status == 0:
            return words or "(no output)"
        return _beneath(words, f"({exit_words(ended.status)})")


def _capture(spill: ResultLimit | None, file: OutputFile) -> Capture:
    """What takes in the output, which by policy goes to the file where it is long."""
    return Capture(HEAD_BYTES, TAIL_BYTES) if spill is None else SpillingCapture(spill, file, HEAD_BYTES, TAIL_BYTES)


def exit_words(status: int | None) -> str:
    """An exit status in words."""
    if status is None:
        return "its end was not seen"
    if status > 128:
        try:
            return f"exit status {status}: ended by {signal.Signals(status - 128).name}"
        except ValueError:
            return f"exit status {status}"
    return f"exit status {status}"


def _beneath(words: str, note: str) -> str:
    return f"{words.removesuffix(chr(10))}\n{note}" if words else note


def _schema() -> JsonObject:
    return {
        "type": "object",
        "properties": {
            "command": {"type": "string", "minLength": 1},
            "timeout_ms": {
                "type": "integer",
                "description": "when to stop it, in milliseconds",
                "minimum": 1,
                "maximum": LONGEST_TIMEOUT_MS,
                "default": DEFAULT_TIMEOUT_MS,
            },
        },
        "required": ["command"],
        "additionalProperties": False,
    }
