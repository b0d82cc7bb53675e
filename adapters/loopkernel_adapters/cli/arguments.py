"""What can be typed behind `loopkernel`: the commands, each with its help, and where the function for it stands."""

from collections.abc import Callable
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from cyclopts import App, ArgumentCollection, Parameter

from loopkernel_adapters.cli.options import SHOWN
from loopkernel_adapters.cli.usage import Lines
from loopkernel_adapters.cli.user_settings import add_settings

USAGE = "2 wrong usage, or something is missing, damaged or in use elsewhere"
RUN_STATUSES = f"0 the model ended the turn by itself, 1 the turn ended otherwise, {USAGE}"
CHAT_STATUSES = (
    "0 you have left (behind a pipe: and the last turn ended by itself), 1 it was ended otherwise, "
    f"as by Ctrl-C, {USAGE}"
)
WORKER_STATUSES = f"0 it is done, {USAGE}"
ACP_STATUSES = f"0 the editor has left, {USAGE}"
MCP_STATUSES = f"0 the client has left, {USAGE}"
SERVE_STATUSES = f"0 it was told to end, {USAGE}"
LIST_STATUSES = f"0 shown, {USAGE}"
REPLAY_STATUSES = (
    "0 the log is whole and every law held, 1 the log ends in a torn tail or a law is broken, "
    "2 wrong usage, or there is no log, no complete record, or a damaged one; of recordings: 1 a law is broken or the "
    "replay differs, 2 a file could not be read"
)
WHAT_IF_STATUSES = "0 told, 2 wrong usage, or a file could not be read or written"
VIEW_STATUSES = "0 written, or shown until you end it, 2 wrong usage, unreadable, or it cannot be written"
DIAGNOSE_STATUSES = "0 nothing keeps it from going on, 1 something does, 2 wrong usage, or unreadable"
REPAIR_STATUSES = "0 written, 2 wrong usage, unreadable, or it cannot be written"
CONFORM_STATUSES = "0 no law is broken, 1 one is, as badly as --fail-on says, 2 wrong usage, or nothing could be played"
DOCTOR_STATUSES = "0 all that is installed works, 1 something that is installed does not"
POLICY_STATUSES = "0 usable, or the same, 1 the two differ, 2 it cannot be used"

ROOM = "loopkernel_adapters.cli"


@cache
def command_line() -> App:
    """The whole command line. The module of a command is imported when the command is."""
    whole = App(
        name="loopkernel",
        help="Run an agent, with everything in a log.",
        version=_version,
        help_format="plaintext",
        help_formatter=Lines(),
        help_epilogue=_epilogue("run 'Read notes.txt and say what it says'", RUN_STATUSES),
        group_parameters=SHOWN,
        # A flag is given or it is not; the last word counts, so that what an alias of the shell gives can be changed.
        default_parameter=Parameter(
            negative=(), show_default=False, allow_repeating=True, json_dict=False, json_list=False
        ),
    )
    for flag in ("--help", "--version"):
        whole[flag].group = SHOWN
    _add_sessions(whole)
    _add_servers(whole)
    _add_runs(whole)
    _add_recordings(whole)
    _add_others(whole)
    return whole


def _add_sessions(app: App) -> None:
    _add(
        app,
        "session_commands:run",
        "run a task in a folder, and show what happens",
        RUN_STATUSES,
        "run 'Mend the typing errors in notes.txt' --model anthropic:MODEL",
        config=add_settings,
    )
    _add(
        app,
        "session_commands:chat",
        "talk with an agent; what you type while it is busy waits in a queue, and /help tells the rest",
        CHAT_STATUSES,
        "chat --model anthropic:MODEL --mcp 'files=python server.py'",
        config=add_settings,
    )
    _add(
        app,
        "session_commands:resume",
        "go on with a run where its log ends: after a crash, or after you have left",
        RUN_STATUSES,
        "resume last --policy policy.json --approve ask",
        "What is not said here is as it was when the run was begun.",
    )


def _add_servers(app: App) -> None:
    _add(
        app,
        "server_commands:acp",
        "be the agent of an editor, which starts this command and speaks the Agent Client Protocol with it",
        ACP_STATUSES,
        "acp --model anthropic:MODEL",
        "Name this command in the settings of the editor (docs/acp.md). Each session works in the folder that the "
        "editor gives, and asks in the editor.",
        config=add_settings,
    )
    _add(
        app,
        "server_commands:serve",
        "serve runs over HTTP to programs of this machine: start, say, answer, and follow events",
        SERVE_STATUSES,
        "serve --model anthropic:MODEL --port 8765",
        "Clients of AG-UI are served too (docs/http.md). Whoever has the token can have all done that the tools can "
        "do; it is shown at the start, or taken from the environment variable LOOPKERNEL_TOKEN.",
    )
    _add(
        app,
        "server_commands:mcp",
        "be a server of the Model Context Protocol: a client gives the agent tasks, by a tool",
        MCP_STATUSES,
        "mcp --model anthropic:MODEL --workspace DIR",
        "The client starts this command (docs/mcp-server.md). What asks is put to the person behind the client, where "
        "it can ask one.",
    )
    _add(
        app,
        "server_commands:worker",
        "serve the runs of a PostgreSQL database, beside as many other workers as there are",
        WORKER_STATUSES,
        "worker --store postgres:DSN --model anthropic:MODEL",
        "Take the runs that have work (what `send` has sent, and what a worker that died has left), hold each under a "
        "lease, and let go of it at rest. A call that asks waits until a program sends its answer (docs/homes.md).",
        config=add_settings,
    )
    _add(
        app,
        "server_commands:send",
        "say something to a run that workers serve; a new one is begun",
        WORKER_STATUSES,
        "send RUN 'And now?' --store postgres:DSN",
    )


def _add_runs(app: App) -> None:
    _add(app, "run_commands:runs", "list the runs that were recorded", LIST_STATUSES, "runs --store jsonl:DIR")
    _add(
        app,
        "run_commands:approvals",
        "list what runs unasked in a run, since you have said `always`; --drop takes it back",
        LIST_STATUSES,
        "approvals last --drop 2",
    )
    _add(app, "run_commands:log", "show the events of a run", LIST_STATUSES, "log last")
    _add(
        app,
        "run_commands:why",
        "say why each thing in a run happened: by which rule, and what it waited for",
        LIST_STATUSES,
        "why last 12",
    )
    _add(
        app,
        "run_commands:view",
        "make a page of a run or a recording, which shows each step of it and why; two side by side",
        VIEW_STATUSES,
        "view session.jsonl --html session.html",
    )


def _add_recordings(app: App) -> None:
    _add(
        app,
        "recording_commands:replay",
        "fold a log again: its events, its last state, the laws; or feed recordings of other agents through it",
        REPLAY_STATUSES,
        "replay session.jsonl --policy claude",
    )
    _add(
        app,
        "recording_commands:whatif",
        "tell in figures what policies would have made of runs and recordings: time, questions, limits",
        WHAT_IF_STATUSES,
        "whatif sessions --policy claude --policy default",
    )
    policy = App(
        name="policy",
        help="Print a policy as data, check a file, or tell what differs between two.",
        help_epilogue=_epilogue("policy diff default claude", POLICY_STATUSES),
        sort_key=len([*app]),
    )
    for function, about in (
        ("show", "Print it as a document that --policy takes."),
        ("check", "Say whether it can be used, and each fault of it."),
        ("diff", "Tell each option that differs, with both values."),
    ):
        policy.command(f"{ROOM}.run_commands:{function}_policy", name=function, help=about)
    app.command(policy)
    _add(
        app,
        "recording_commands:diagnose",
        "say what keeps a recorded session of another agent from going on, and what to do",
        DIAGNOSE_STATUSES,
        "diagnose session.jsonl",
    )
    _add(
        app,
        "recording_commands:repair",
        "write a recorded session anew, without its faults",
        REPAIR_STATUSES,
        "repair session.jsonl --out repaired.jsonl",
        "Claude Code, Codex and OpenAI chat are written in their own format, every other one as a log.",
    )
    _add(
        app,
        "session_commands:continue_",
        "chat on from the end of a recorded session, repaired, as a new run",
        CHAT_STATUSES,
        "continue session.jsonl --model anthropic:MODEL",
        config=add_settings,
    )
    _add(
        app,
        "run_commands:fork",
        "begin a new run at any step of a log or a recording",
        REPAIR_STATUSES,
        "fork last --at 12",
    )


def _add_others(app: App) -> None:
    _add(
        app,
        "recording_commands:conform",
        "play any agent, in any language, through scenarios over its wire, and judge it by the laws",
        CONFORM_STATUSES,
        "conform --agent codex --html codex.html",
    )
    _add(
        app,
        "run_commands:doctor",
        "say what is installed, which models can be asked, and what holds a shell",
        DOCTOR_STATUSES,
        "doctor",
    )
    _add(
        app,
        "run_commands:completion",
        "print what lets a shell complete commands, options and paths",
        LIST_STATUSES,
        "completion bash >> ~/.bashrc",
        "bash: add it to ~/.bashrc; zsh: write it to a file _loopkernel in a folder of $fpath; fish: write it to "
        "~/.config/fish/completions/loopkernel.fish. Print it anew after an update.",
    )
    _add(
        app,
        "session_commands:demo",
        "let the embedded model read a file in a workspace made for it",
        RUN_STATUSES,
        "demo",
    )


def _add(
    app: App,
    function: str,
    purpose: str,
    statuses: str,
    example: str,
    more: str = "",
    config: Callable[[App, tuple[str, ...], ArgumentCollection], None] | None = None,
) -> None:
    """The command of that function, whose help ends with an example and the exit statuses."""
    app.command(
        f"{ROOM}.{function}",
        name=example.split()[0],
        help=f"{purpose[0].upper()}{purpose[1:]}.\n\n{more}".rstrip(),
        help_epilogue=_epilogue(example, statuses),
        sort_key=len([*app]),
        config=config,
    )


def _epilogue(example: str, statuses: str) -> str:
    return f"for example: loopkernel {example}\n\nexit status: {statuses}"


def _version() -> str:
    try:
        return f"loopkernel {version('loopkernel')}"
    except PackageNotFoundError:  # run from the sources alone
        return "loopkernel of an unknown version, since it is not installed"
