"""What a command was given, as data: the options that commands share, with their help. Imports nothing of the loop."""

import enum
from pathlib import Path
from typing import Annotated, TypeAlias

from attrs import frozen
from cyclopts import Group, Parameter
from cyclopts.validators import mutually_exclusive
from loopkernel.presets import PRESETS, VARIANTS

from loopkernel_adapters.cli import argument_values as values
from loopkernel_adapters.cli.argument_values import each, one

LOCAL = "local"
FOLDER = Path(".loopkernel")  # hidden, so that no tool reads what lies in it
NO_SERVER = "none"  # in the place of a server: without those that a run was begun with
DEFAULT_MAX_TURNS = 10
DEFAULT_RETRIES = 5
RUNS_SHOWN = 30
NAMED_POLICIES = ", ".join([*PRESETS, *VARIANTS])
SHOWN = Group("Options")


def one_at_most() -> tuple[Group, Group]:
    """The groups of options of which one at most is given."""
    return SHOWN, Group(validator=mutually_exclusive)


_PLACE = one_at_most()
_ISOLATION = one_at_most()
_STORE = Parameter(
    metavar="sqlite:FILE|jsonl:DIR|postgres:DSN|memory",
    converter=one(values.name),
    help=f"where the runs are kept (sqlite:{FOLDER / 'runs.sqlite'})",
)
_WORKSPACE = Parameter(metavar="DIR", converter=one(values.path))

NameOrFile: TypeAlias = str | Path  # as it was typed, a str; since it can be a path, shells complete paths
Store: TypeAlias = Annotated[str | None, _STORE]
Json: TypeAlias = Annotated[bool, Parameter(help="one JSON object")]


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

    model: Annotated[
        str | None,
        Parameter(
            name=("--model", "--provider"),
            metavar="NAME",
            converter=one(values.name),
            help=f"the model: `{LOCAL}` (the embedded one, the default), `anthropic:MODEL`, `openai:MODEL`, "
            "`openai-chat:MODEL` (the key is taken from ANTHROPIC_API_KEY or OPENAI_API_KEY), "
            "`pydantic-ai:VENDOR:MODEL`, `scripted:FILE` (a script of replies, for trying things out; the shortest is "
            '[{"text": "Hello"}]) or `recorded:LOG` (the replies of another run; LOG is a JSONL log, or '
            f"{FOLDER / 'runs.sqlite'}#RUN)",
        ),
    ] = None
    base_url: Annotated[
        str | None,
        Parameter(
            metavar="URL",
            converter=one(values.url),
            help="where the models of a vendor are asked, as of a server of your own",
        ),
    ] = None
    fallback_models: Annotated[
        tuple[str, ...],
        Parameter(
            name="--fallback-model",
            metavar="NAME",
            converter=each(values.name),
            help="the model to ask when the first one fails for good; may be given several times",
        ),
    ] = ()
    workspace: Annotated[
        Path | None, _WORKSPACE, Parameter(help="the folder whose files may be used (the current one)")
    ] = None
    approvals: Annotated[
        Approvals | None,
        Parameter(
            name="--approve",
            converter=one(values.choice(Approvals)),
            help="before a tool that asks, as write_file does: ask you (the default), allow it always, or never (deny "
            "it); you answer yes, no [WHY], always, edit [JSON] or show, each alone in a line that was begun after the "
            "question (from a pipe: that came after it; what was written before is not an answer)",
        ),
    ] = None
    tools: Annotated[
        ToolSet | None,
        Parameter(
            converter=one(values.choice(ToolSet)),
            help=f"files: read and write files; all: the tools of a coding agent, a shell among them ({LOCAL}: files, "
            "every other model: all)",
        ),
    ] = None
    sandbox: Annotated[
        bool,
        Parameter(
            group=_ISOLATION,
            help="the commands of the shell can write in the workspace alone, read little else, and have no network; "
            "needs bubblewrap, and nothing begins without it",
        ),
    ] = False
    sandbox_network: Annotated[bool, Parameter(group=_ISOLATION, help="the same, with the network")] = False
    servers: Annotated[
        tuple[tuple[str, str | None], ...],
        Parameter(
            name="--mcp",
            metavar="[NAME=]COMMAND|URL",
            n_tokens=1,
            converter=each(lambda text: (values.name(text), None)),
            help="a server of the Model Context Protocol whose tools are offered too, each of which asks; may be given "
            f"several times ({NO_SERVER}: without those that the run was begun with)",
        ),
    ] = ()
    server_variables: Annotated[
        tuple[str, ...],
        Parameter(
            name="--mcp-variable",
            metavar="[NAME=]VARIABLE",
            converter=each(values.server_variable),
            help="an environment variable that the server NAME gets too, or every server that is a command; else they "
            "get next to none of them",
        ),
    ] = ()
    server_headers: Annotated[
        tuple[str, ...],
        Parameter(
            name="--mcp-header",
            metavar="NAME=HEADER: VALUE",
            converter=each(values.server_header),
            help="what the server NAME, which is an address, is sent with each request; each {VARIABLE} in it stands "
            "for the value of that environment variable, as in 'NAME=Authorization: Bearer {TOKEN}'",
        ),
    ] = ()
    sub_agents: Annotated[
        bool,
        Parameter(help="offer the model a tool, `delegate`, that hands a task to another agent, with a log of its own"),
    ] = False
    secrets: Annotated[
        tuple[tuple[str, str], ...],
        Parameter(
            name="--secret",
            metavar="NAME=VARIABLE",
            n_tokens=1,
            converter=each(values.secret),
            help="a value that no log and no model may see, from an environment variable; tools get it where the model "
            "writes {{secret:NAME}}; may be given several times",
        ),
    ] = ()
    json: Annotated[bool, Parameter(parse=False)] = False
    policy: Annotated[
        NameOrFile | None,
        Parameter(
            metavar="NAME|FILE",
            converter=one(values.name),
            help=f"what the loop goes by: {NAMED_POLICIES}, or a JSON document of your own",
        ),
    ] = None
    max_turns: Annotated[
        int | None,
        Parameter(
            metavar="N",
            converter=one(values.count),
            help=f"how many replies at most ({DEFAULT_MAX_TURNS}, or the policy's)",
        ),
    ] = None
    max_total_tokens: Annotated[
        int | None,
        Parameter(
            metavar="N", converter=one(values.count), help="how many tokens at most, input, output and cache (no limit)"
        ),
    ] = None
    retries: Annotated[
        int | None,
        Parameter(
            metavar="N",
            converter=one(values.number),
            help="how often a failed request is made again, at growing intervals "
            f"({DEFAULT_RETRIES}, or the policy's; 0 for never)",
        ),
    ] = None
    instructions: Annotated[
        str | None,
        Parameter(metavar="TEXT|@FILE", converter=one(values.name), help="what the model is told before anything else"),
    ] = None
    store: Store = None
    log: Annotated[Path | None, Parameter(parse=False)] = None

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
    def isolation(self) -> Isolation | None:
        """What the commands of the shell run in; None: they run as you do."""
        if self.sandbox_network:
            return Isolation.SANDBOX_NETWORK
        return Isolation.SANDBOX if self.sandbox else None

    @property
    def folder(self) -> Path:
        """The folder whose files may be used."""
        return Path() if self.workspace is None else self.workspace


@frozen(kw_only=True)
class TurnOptions(Options):
    """The options of what is shown here, as events too."""

    json: Annotated[
        bool,
        Parameter(
            help="each event as a JSON object on a line of its own, and the result as the last one; calls that ask are "
            'answered by lines of the standard input that come after the question and name the call, as {"call": '
            '"1.1", "answer": "yes"}, and denied when it ends'
        ),
    ] = False


@frozen(kw_only=True)
class NewRunOptions(TurnOptions):
    """The options of what begins a run here, which may have a file of its own."""

    store: Annotated[str | None, _STORE, Parameter(group=_PLACE)] = None
    log: Annotated[
        Path | None,
        Parameter(
            group=_PLACE, metavar="FILE", converter=one(values.path), help="write this run to a file of its own instead"
        ),
    ] = None


@frozen(kw_only=True)
class ServerOptions(Options):
    """The options of what serves many runs, all in one folder."""

    workspace: Annotated[
        Path | None, _WORKSPACE, Parameter(help="the folder that all of its runs work in (the current one)")
    ] = None


@frozen(kw_only=True)
class EditorOptions(Options):
    """The options of what serves an editor, which says for each session where it works."""

    workspace: Annotated[
        Path | None,
        _WORKSPACE,
        Parameter(help="the folder that sessions may work in, or in a folder of it (any that the editor gives)"),
    ] = None
