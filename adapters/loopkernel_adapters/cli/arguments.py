"""What can be typed behind `loopkernel`: the commands, their options, and the help. Imports nothing of the loop."""

import argparse
from collections.abc import Callable
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import TypeAlias

from loopkernel.presets import PRESETS, VARIANTS

from loopkernel_adapters.cli import argument_values as values
from loopkernel_adapters.cli.argument_parser import Paragraphs, Parser
from loopkernel_adapters.cli.argument_values import add_isolation, add_page
from loopkernel_adapters.cli.completion import ABOUT_COMPLETION, PRINTS, add_shells
from loopkernel_adapters.cli.options import (
    DEFAULT_MAX_TURNS,
    DEFAULT_RETRIES,
    FOLDER,
    LOCAL,
    NO_SERVER,
    Approvals,
    Isolation,
    Options,
    ToolSet,
)

USAGE = "2 wrong usage, or something is missing, damaged or in use elsewhere"
RUN_STATUSES = f"exit status: 0 the model ended the turn by itself, 1 the turn ended otherwise, {USAGE}"
CHAT_STATUSES = (
    "exit status: 0 you have left (behind a pipe: and the last turn ended by itself), 1 it was ended otherwise, "
    f"as by Ctrl-C, {USAGE}"
)
WORKER_STATUSES = f"exit status: 0 it is done, {USAGE}"
ACP_STATUSES = f"exit status: 0 the editor has left, {USAGE}"
SERVE_STATUSES = f"exit status: 0 it was told to end, {USAGE}"
LIST_STATUSES = f"exit status: 0 shown, {USAGE}"
REPLAY_STATUSES = (
    "exit status: 0 the log is whole and every law held, 1 the log ends in a torn tail or a law is broken, "
    "2 wrong usage, or there is no log, no complete record, or a damaged one; of recordings: 1 a law is broken or the "
    "replay differs, 2 a file could not be read"
)
WHAT_IF_STATUSES = "exit status: 0 told, 2 wrong usage, or a file could not be read or written"
VIEW_STATUSES = "exit status: 0 written, or shown until you end it, 2 wrong usage, unreadable, or it cannot be written"
DIAGNOSE_STATUSES = "exit status: 0 nothing keeps it from going on, 1 something does, 2 wrong usage, or unreadable"
REPAIR_STATUSES = "exit status: 0 written, 2 wrong usage, unreadable, or it cannot be written"
CONFORM_STATUSES = (
    "exit status: 0 no law is broken, 1 one is, as badly as --fail-on says, 2 wrong usage, or nothing could be played"
)
DOCTOR_STATUSES = "exit status: 0 all that is installed works, 1 something that is installed does not"
POLICY_STATUSES = "exit status: 0 usable, or the same, 1 the two differ, 2 it cannot be used"
MODELS = "NAME"
ABOUT_MODELS = (
    f"the model: `{LOCAL}` (the embedded one, the default), `anthropic:MODEL`, `openai:MODEL`, `openai-chat:MODEL` "
    "(the key is taken from ANTHROPIC_API_KEY or OPENAI_API_KEY), `pydantic-ai:VENDOR:MODEL`, "
    "`scripted:FILE` (a script of replies, for trying "
    'things out; the shortest is [{"text": "Hello"}]) or `recorded:LOG` (the replies of another run; LOG is a JSONL '
    f"log, or {FOLDER / 'runs.sqlite'}#RUN)"
)
ABOUT_RUN = "the id of a run, as `loopkernel runs` lists it, the beginning of one, `last`, or the path of a log"

ABOUT_VIEWED = f"{ABOUT_RUN}; or a recording of another agent; or two of them"
ABOUT_RECORDING = "a recorded session of Claude Code, Codex and others, in whatever format"
ABOUT_RECORDINGS = f"{ABOUT_RUN}; or recordings of other agents: files, folders, patterns"


Commands: TypeAlias = "argparse._SubParsersAction[Parser]"


@cache
def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    whole = Parser(
        prog="loopkernel",
        description="Run an agent, with everything in a log.",
        epilog=f"for example: loopkernel run 'Read notes.txt and say what it says'\n\n{RUN_STATUSES}",
        formatter_class=Paragraphs,
    )
    whole.add_argument("--version", action="version", version=f"loopkernel {_version()}")
    commands = whole.add_subparsers(dest="command", required=True)
    _add_run(commands)
    _add_chat(commands)
    _add_resume(commands)
    _add_acp(commands)
    _add_serve(commands)
    _add_mcp(commands)
    _add_worker(commands)
    _add_send(commands)
    _add_runs(commands)
    _add_approvals(commands)
    _add_log(commands)
    _add_why(commands)
    _add_view(commands)
    _add_replay(commands)
    _add_whatif(commands)
    _add_policies(commands)
    _add_diagnose(commands)
    _add_repair(commands)
    _add_continue(commands)
    _add_fork(commands)
    _add_conform(commands)
    purpose = "say what is installed, which models can be asked, and what holds a shell"
    _add(commands, "doctor", purpose, DOCTOR_STATUSES, "doctor")
    add_shells(_add(commands, "completion", PRINTS, LIST_STATUSES, "completion bash >> ~/.bashrc", ABOUT_COMPLETION))
    _add(commands, "demo", "let the embedded model read a file in a workspace made for it", RUN_STATUSES, "demo")
    commands.metavar = "|".join(commands.choices)
    return whole


def _add(
    commands: Commands, name: str, purpose: str, statuses: str, example: str, description: str | None = None
) -> Parser:
    """A command, whose help ends with an example and the exit statuses."""
    return commands.add_parser(
        name,
        help=purpose,
        description=description or f"{purpose[0].upper()}{purpose[1:]}.",
        epilog=f"for example: loopkernel {example}\n\n{statuses}",
        formatter_class=Paragraphs,
    )


def options_of(given: argparse.Namespace) -> Options:
    """What `run`, `chat` or `resume` was given."""
    return Options(
        model=given.model,
        base_url=given.base_url,
        fallback_models=tuple(given.fallback_model),
        policy=given.policy,
        workspace=given.workspace,
        store=given.store,
        log=getattr(given, "log", None),
        approvals=None if given.approve is None else Approvals(given.approve),
        json=getattr(given, "json", False),
        max_turns=given.max_turns,
        max_total_tokens=given.max_total_tokens,
        retries=given.retries,
        instructions=given.instructions,
        sub_agents=given.sub_agents,
        tools=None if given.tools is None else ToolSet(given.tools),
        isolation=None if given.isolation is None else Isolation(given.isolation),
        secrets=tuple(given.secret),
        servers=tuple((text, None) for text in given.mcp),
        server_variables=tuple(given.mcp_variable),
        server_headers=tuple(given.mcp_header),
    )


def _add_run(commands: Commands) -> None:
    example = "run 'Mend the typing errors in notes.txt' --model anthropic:MODEL"
    running = _add(commands, "run", "run a task in a folder, and show what happens", RUN_STATUSES, example)
    running.add_argument("task", metavar="TASK", help="what to do, in your words")
    _add_session(running)
    _add_policy(running)
    _add_places(running)


def _add_chat(commands: Commands) -> None:
    purpose = "talk with an agent; what you type while it is busy waits in a queue, and /help tells the rest"
    example = "chat --model anthropic:MODEL --mcp 'files=python server.py'"
    chatting = _add(commands, "chat", purpose, CHAT_STATUSES, example)
    _add_session(chatting)
    _add_policy(chatting)
    _add_places(chatting)


def _add_resume(commands: Commands) -> None:
    resuming = _add(
        commands,
        "resume",
        "go on with a run where its log ends: after a crash, or after you have left",
        RUN_STATUSES,
        "resume last --policy policy.json --approve ask",
        "Go on with a run as it was begun: what is not said here is as it was then.",
    )
    resuming.add_argument("run", metavar="RUN", type=values.name, help=ABOUT_RUN)
    _add_session(resuming)
    _add_policy(resuming)
    _add_store(resuming)


def _add_acp(commands: Commands) -> None:
    serving = _add(
        commands,
        "acp",
        "be the agent of an editor, which starts this command and speaks the Agent Client Protocol with it",
        ACP_STATUSES,
        "acp --model anthropic:MODEL",
        "Serve an editor that speaks the Agent Client Protocol: name this command in its settings (docs/acp.md). Each "
        "session works in the folder that the editor gives, and asks in the editor.",
    )
    _add_asked(serving, folder="the folder that sessions may work in, or in a folder of it (any that the editor gives)")
    _add_policy(serving)
    _add_store(serving)


def _add_serve(commands: Commands) -> None:
    serving = _add(
        commands,
        "serve",
        "serve runs over HTTP to programs of this machine: start, say, answer, and follow events",
        SERVE_STATUSES,
        "serve --model anthropic:MODEL --port 8765",
        "Serve runs over HTTP, and to clients of AG-UI (docs/http.md). Whoever has the token can have all done that "
        "the tools can do; it is shown at the start, or taken from the environment variable LOOPKERNEL_TOKEN.",
    )
    serving.add_argument(
        "--port", metavar="N", type=values.port, default=0, help="on which port of 127.0.0.1 (one that is free)"
    )
    _add_repeatable(
        serving,
        "--origin",
        "URL",
        values.url,
        "pages of this origin may use the server from a browser, as http://localhost:3000; may be given several times",
    )
    _add_asked(serving, folder="the folder that all runs work in (the current one)")
    _add_policy(serving)
    _add_store(serving)


def _add_mcp(commands: Commands) -> None:
    serving = _add(
        commands,
        "mcp",
        "be a server of the Model Context Protocol: a client gives the agent tasks, by a tool",
        ACP_STATUSES.replace("the editor", "the client"),
        "mcp --model anthropic:MODEL --workspace DIR",
        "Serve a client of the Model Context Protocol, which starts this command (docs/mcp-server.md). What asks is "
        "put to the person behind the client, where it can ask one.",
    )
    _add_asked(serving, folder="the folder that all tasks work in (the current one)")
    _add_policy(serving)
    _add_store(serving)


def _add_worker(commands: Commands) -> None:
    serving = _add(
        commands,
        "worker",
        "serve the runs of a PostgreSQL database, beside as many other workers as there are",
        WORKER_STATUSES,
        "worker --store postgres:DSN --model anthropic:MODEL",
        "Take the runs that have work (what `send` has sent, and what a worker that died has left), hold each under a "
        "lease, and let go of it at rest. A call that asks waits until a program sends its answer (docs/homes.md).",
    )
    _add_asked(serving, folder="the folder that all of its runs work in (the current one)")
    _add_policy(serving)
    _add_store(serving)


def _add_send(commands: Commands) -> None:
    purpose = "say something to a run that workers serve; a new one is begun"
    sending = _add(commands, "send", purpose, WORKER_STATUSES, "send RUN 'And now?' --store postgres:DSN")
    sending.add_argument("run", metavar="RUN", type=values.name, help="the id of the run, new or not")
    sending.add_argument("words", metavar="WORDS", nargs="?", help="what to say, or to answer with --call")
    instead = sending.add_mutually_exclusive_group()
    instead.add_argument("--cancel", action="store_true", help="stop what is under way first")
    instead.add_argument(
        "--waiting", action="store_true", help="list the calls that wait for a person, and say nothing"
    )
    instead.add_argument(
        "--call", metavar="CALL", type=values.name, help="answer this call, as --waiting names it: yes, no WHY, ..."
    )
    _add_store(sending)


def _add_runs(commands: Commands) -> None:
    listing = _add(commands, "runs", "list the runs that were recorded", LIST_STATUSES, "runs --store jsonl:DIR")
    listing.add_argument("--json", action="store_true", help="one JSON object a line, for each run")
    add_page(listing)
    _add_store(listing)


def _add_approvals(commands: Commands) -> None:
    purpose = "list what runs unasked in a run, since you have said `always`; --drop takes it back"
    listing = _add(commands, "approvals", purpose, LIST_STATUSES, "approvals last --drop 2")
    listing.add_argument("run", metavar="RUN", type=values.name, help=ABOUT_RUN)
    listing.add_argument("--drop", metavar="N|all", type=values.count_or_all, help="take back this one, or every one")
    listing.add_argument("--json", action="store_true", help="one JSON object")
    _add_store(listing)


def _add_log(commands: Commands) -> None:
    showing = _add(commands, "log", "show the events of a run", LIST_STATUSES, "log last")
    showing.add_argument("run", metavar="RUN", type=values.name, help=ABOUT_RUN)
    kind = showing.add_mutually_exclusive_group()
    kind.add_argument("--json", action="store_true", help="one JSON object a line, for each record")
    kind.add_argument("--steps", action="store_true", help="list its records by the numbers that `fork --at` takes")
    _add_store(showing)


def _add_why(commands: Commands) -> None:
    purpose = "say why each thing in a run happened: by which rule, and what it waited for"
    asking = _add(commands, "why", purpose, LIST_STATUSES, "why last 12")
    asking.add_argument("run", metavar="RUN", type=values.name, help=ABOUT_RUN)
    asking.add_argument(
        "step", metavar="STEP", nargs="?", type=values.count, help="a record of it, as `log --steps` counts them (all)"
    )
    _add_store(asking)


def _add_policies(commands: Commands) -> None:
    purpose = "print a policy as data, check a file, or tell what differs between two"
    asking = _add(commands, "policy", purpose, POLICY_STATUSES, "policy diff default claude")
    does = asking.add_subparsers(dest="does", required=True, metavar="show|check|diff")
    named = f"{', '.join([*PRESETS, *VARIANTS])}, or the file of a policy"
    for name, about, wanted in (
        ("show", "print it as a document that --policy takes", ("policy",)),
        ("check", "say whether it can be used, and each fault of it", ("policy",)),
        ("diff", "tell each option that differs, with both values", ("policy", "other")),
    ):
        command = does.add_parser(name, help=about, description=f"{about[0].upper()}{about[1:]}.")
        for argument in wanted:
            command.add_argument(argument, metavar="NAME|FILE", type=values.name, help=named)


def _add_view(commands: Commands) -> None:
    purpose = "make a page of a run or a recording, which shows each step of it and why; two side by side"
    viewing = _add(commands, "view", purpose, VIEW_STATUSES, "view session.jsonl --html session.html")
    viewing.add_argument("run", metavar="RUN|RECORDING", nargs="+", type=values.name, help=ABOUT_VIEWED)
    place = viewing.add_mutually_exclusive_group()
    place.add_argument(
        "--html", metavar="FILE", type=values.path, help="where to write the page, which must not be there (RUN.html)"
    )
    place.add_argument(
        "--serve",
        action="store_true",
        help="show it to a browser of this machine while it goes on; Ctrl-C ends it",
    )
    viewing.add_argument(
        "--policy",
        metavar="NAME|FILE",
        action="append",
        default=[],
        type=values.name,
        help="show it as recorded beside what it would have been under this policy, or given twice, under both",
    )
    _add_store(viewing)


def _add_replay(commands: Commands) -> None:
    purpose = "fold a log again: its events, its last state, the laws; or feed recordings of other agents through it"
    replaying = _add(commands, "replay", purpose, REPLAY_STATUSES, "replay session.jsonl --policy claude")
    replaying.add_argument("log", metavar="RUN|PATH", nargs="+", type=values.name, help=ABOUT_RECORDINGS)
    replaying.add_argument("--findings", action="store_true", help="of recordings: show all that was found odd")
    replaying.add_argument(
        "--policy",
        metavar="NAME|FILE",
        type=values.name,
        help="where the loop would have gone another way under this one, and what it would have done",
    )
    replaying.add_argument("--json", action="store_true", help="one JSON object a line, for each file or run")
    _add_store(replaying)


def _add_whatif(commands: Commands) -> None:
    purpose = "tell in figures what policies would have made of runs and recordings: time, questions, limits"
    asking = _add(commands, "whatif", purpose, WHAT_IF_STATUSES, "whatif sessions --policy claude --policy default")
    asking.add_argument("log", metavar="RUN|PATH", nargs="+", type=values.name, help=ABOUT_RECORDINGS)
    asking.add_argument(
        "--policy",
        metavar="NAME|FILE",
        action="append",
        default=[],
        type=values.name,
        help="what the loop would have gone by; may be given several times",
    )
    asking.add_argument("--html", metavar="FILE", type=values.path, help="also write a page with the figures")
    asking.add_argument("--json", action="store_true", help="one JSON object a line, for each recording and policy")
    _add_store(asking)


def _add_diagnose(commands: Commands) -> None:
    purpose = "say what keeps a recorded session of another agent from going on, and what to do"
    diagnosing = _add(commands, "diagnose", purpose, DIAGNOSE_STATUSES, "diagnose session.jsonl")
    diagnosing.add_argument("recording", metavar="FILE", type=values.path, help=ABOUT_RECORDING)
    diagnosing.add_argument("--all", action="store_true", help="tell every fault in full")
    diagnosing.add_argument("--json", action="store_true", help="one JSON object")


def _add_repair(commands: Commands) -> None:
    repairing = _add(
        commands,
        "repair",
        "write a recorded session anew, without its faults",
        REPAIR_STATUSES,
        "repair session.jsonl --out repaired.jsonl",
        "Write Claude Code, Codex and OpenAI chat in their own format, every other one as a log.",
    )
    repairing.add_argument("recording", metavar="FILE", type=values.path, help=ABOUT_RECORDING)
    repairing.add_argument(
        "--out", metavar="NEW", type=values.path, required=True, help="the file to write, which must not be there"
    )
    repairing.add_argument("--as-log", action="store_true", help="write a log of loopkernel, for `loopkernel resume`")
    _add_conversation(repairing)


def _add_continue(commands: Commands) -> None:
    purpose = "chat on from the end of a recorded session, repaired, as a new run"
    continuing = _add(commands, "continue", purpose, CHAT_STATUSES, "continue session.jsonl --model anthropic:MODEL")
    continuing.add_argument("recording", metavar="FILE", type=values.path, help=ABOUT_RECORDING)
    _add_conversation(continuing)
    _add_session(continuing)
    _add_policy(continuing)
    _add_places(continuing)


def _add_fork(commands: Commands) -> None:
    purpose = "begin a new run at any step of a log or a recording"
    forking = _add(commands, "fork", purpose, REPAIR_STATUSES, "fork last --at 12")
    forking.add_argument("log", metavar="RUN|FILE", type=values.name, help=f"{ABOUT_RUN}, or of a recording")
    forking.add_argument(
        "--at", metavar="N", type=values.count, required=True, help="after which record of it the new run leaves it"
    )
    forking.add_argument(
        "--out", metavar="NEW", type=values.path, help="write the new run to this file instead of the store"
    )
    _add_store(forking)


def _add_conform(commands: Commands) -> None:
    from loopkernel_adapters.cli.conform_options import add_options

    purpose = "play any agent, in any language, through scenarios over its wire, and judge it by the laws"
    add_options(_add(commands, "conform", purpose, CONFORM_STATUSES, "conform --agent codex --html codex.html"))


def _add_conversation(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--conversation", metavar="NAME", help="which conversation of it, as diagnose names it (the main one)"
    )


def _add_session(command: argparse.ArgumentParser) -> None:
    """Whom to ask, with which tools, who approves, and how it is shown."""
    _add_asked(command, folder="the folder whose files may be used (the current one)")
    command.add_argument(
        "--json",
        action="store_true",
        help="each event as a JSON object on a line of its own, and the result as the last one; calls that ask are "
        'answered by lines of the standard input that come after the question and name the call, as {"call": "1.1", '
        '"answer": "yes"}, and denied when it ends',
    )


def _add_asked(command: argparse.ArgumentParser, *, folder: str) -> None:
    """Whom to ask, with which tools, and who approves; `folder` says which one the workspace is."""
    command.add_argument("--model", "--provider", metavar=MODELS, type=values.name, help=ABOUT_MODELS)
    command.add_argument(
        "--base-url",
        metavar="URL",
        type=values.url,
        help="where the models of a vendor are asked, as of a server of your own",
    )
    _add_repeatable(
        command,
        "--fallback-model",
        MODELS,
        values.name,
        "the model to ask when the first one fails for good; may be given several times",
    )
    command.add_argument("--workspace", metavar="DIR", type=values.path, help=folder)
    command.add_argument(
        "--approve",
        choices=[choice.value for choice in Approvals],
        help="before a tool that asks, as write_file does: ask you (the default), allow it always, or never (deny it); "
        "you answer yes, no [WHY], always, edit [JSON] or show, each alone in a line that was begun after the question "
        "(from a pipe: that came after it; what was written before is not an answer)",
    )
    _add_tools(command)
    _add_repeatable(
        command,
        "--secret",
        "NAME=VARIABLE",
        values.secret,
        "a value that no log and no model may see, from an environment variable; tools get it where the model "
        "writes {{secret:NAME}}; may be given several times",
    )


def _add_repeatable(
    command: argparse.ArgumentParser, name: str, metavar: str, kind: Callable[[str], object], about: str
) -> None:
    """An option that may be given several times; without it there is none of what it names."""
    command.add_argument(name, metavar=metavar, default=[], action="append", type=kind, help=about)


def _add_tools(command: argparse.ArgumentParser) -> None:
    """What the model may use."""
    command.add_argument(
        "--tools",
        choices=[choice.value for choice in ToolSet],
        help=f"files: read and write files; all: the tools of a coding agent, a shell among them ({LOCAL}: files, "
        "every other model: all)",
    )
    add_isolation(command)
    _add_repeatable(
        command,
        "--mcp",
        "[NAME=]COMMAND|URL",
        values.name,
        "a server of the Model Context Protocol whose tools are offered too, each of which asks; may be given "
        f"several times ({NO_SERVER}: without those that the run was begun with)",
    )
    _add_repeatable(
        command,
        "--mcp-variable",
        "[NAME=]VARIABLE",
        values.server_variable,
        "an environment variable that the server NAME gets too, or every server that is a command; else they get "
        "next to none of them",
    )
    _add_repeatable(
        command,
        "--mcp-header",
        "NAME=HEADER: VALUE",
        values.server_header,
        "what the server NAME, which is an address, is sent with each request; each {VARIABLE} in it stands for "
        "the value of that environment variable, as in 'NAME=Authorization: Bearer {TOKEN}'",
    )
    command.add_argument(
        "--sub-agents",
        action="store_true",
        help="offer the model a tool, `delegate`, that hands a task to another agent, with a log of its own",
    )


def _add_policy(command: argparse.ArgumentParser) -> None:
    """What the session goes by."""
    command.add_argument(
        "--policy",
        metavar="NAME|FILE",
        type=values.name,
        help=f"what the loop goes by: {', '.join([*PRESETS, *VARIANTS])}, or a JSON document of your own",
    )
    command.add_argument(
        "--max-turns",
        metavar="N",
        type=values.count,
        help=f"how many replies at most ({DEFAULT_MAX_TURNS}, or the policy's)",
    )
    command.add_argument(
        "--max-total-tokens", metavar="N", type=values.count, help="how many tokens at most, in and out (no limit)"
    )
    command.add_argument(
        "--retries",
        metavar="N",
        type=values.number,
        help="how often a failed request is made again, at growing intervals "
        f"({DEFAULT_RETRIES}, or the policy's; 0 for never)",
    )
    command.add_argument(
        "--instructions", metavar="TEXT|@FILE", type=values.name, help="what the model is told before anything else"
    )


def _add_places(command: argparse.ArgumentParser) -> None:
    place = command.add_mutually_exclusive_group()
    _add_store(place)
    place.add_argument("--log", metavar="FILE", type=values.path, help="write this run to a file of its own instead")


def _add_store(command: "argparse.ArgumentParser | argparse._MutuallyExclusiveGroup") -> None:
    command.add_argument(
        "--store",
        metavar="sqlite:FILE|jsonl:DIR|postgres:DSN|memory",
        type=values.name,
        help=f"where the runs are kept (sqlite:{FOLDER / 'runs.sqlite'})",
    )


def _version() -> str:
    try:
        return version("loopkernel")
    except PackageNotFoundError:  # run from the sources alone
        return "of an unknown version, since it is not installed"
