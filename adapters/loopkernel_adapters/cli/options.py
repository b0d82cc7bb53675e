"""What a command was given, as data: the options that `run`, `chat` and `resume` share. Imports nothing of the loop."""

import enum
from pathlib import Path

from attrs import frozen

LOCAL = "local"
FOLDER = Path(".loopkernel")  # hidden, so that no tool reads what lies in it
NO_SERVER = "none"  # in the place of a server: without those that a run was begun with
DEFAULT_MAX_TURNS = 10
DEFAULT_RETRIES = 5
RUNS_SHOWN = 30


class Approvals(enum.Enum):
    """Who lets a call run whose tool asks."""

    ASK = "ask"
    ALWAYS = "always"
    NEVER = "never"


class ToolSet(enum.Enum):
    """Which tools the model is offered."""

    FILES = "files"
    ALL = "all"


class Isolation(enum.Enum):
    """What the commands of the shell run in, where they do not run as you do."""

    SANDBOX = "sandbox"
    SANDBOX_NETWORK = "sandbox-network"


@frozen(kw_only=True)
class Options:
    """What a session is begun or gone on with. None: not said, so that the default holds, or what it began with.

    `store` is as on the command line; `log` is the one file that takes its place. `secrets` are names, each with the
    environment variable that holds its value. `servers` are as `--mcp` takes them, each with the digest of what it
    offered when the run began; `server_variables` and `server_headers` are what they get, as typed.
    """

    model: str | None = None
    base_url: str | None = None
    fallback_models: tuple[str, ...] = ()
    policy: str | None = None
    workspace: Path | None = None
    store: str | None = None
    log: Path | None = None
    approvals: Approvals | None = None
    json: bool = False
    max_turns: int | None = None
    max_total_tokens: int | None = None
    retries: int | None = None
    instructions: str | None = None
    sub_agents: bool = False
    tools: ToolSet | None = None
    isolation: Isolation | None = None
    secrets: tuple[tuple[str, str], ...] = ()
    servers: tuple[tuple[str, str | None], ...] = ()
    server_variables: tuple[str, ...] = ()
    server_headers: tuple[str, ...] = ()

    @property
    def first_model(self) -> str:
        """The model that is asked first."""
        return LOCAL if self.model is None else self.model

    @property
    def tool_set(self) -> ToolSet:
        """The tools: few for the embedded model, which cannot choose among many."""
        if self.tools is not None:
            return self.tools
        return ToolSet.FILES if self.first_model == LOCAL else ToolSet.ALL

    @property
    def folder(self) -> Path:
        """The folder whose files may be used."""
        return Path() if self.workspace is None else self.workspace
