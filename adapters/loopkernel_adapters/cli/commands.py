"""The commands of the command line: what can be asked for, and how every failure is told without a traceback."""

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from loopkernel.data.errors import LawBroken

from loopkernel_adapters.cli.demo import demo
from loopkernel_adapters.cli.outcomes import ExitStatus, Unusable
from loopkernel_adapters.cli.replay import replay
from loopkernel_adapters.cli.run import (
    DEFAULT_MAX_TURNS,
    DEFAULT_RETRIES,
    LOCAL,
    LOG_FOLDER,
    SCRIPTED,
    Approvals,
    Task,
    run,
)
from loopkernel_adapters.cli.screen import Screen, printable, terminal

USAGE = "2 wrong usage or something is missing"
RUN_STATUSES = f"exit status: 0 the model ended the turn by itself, 1 the turn ended otherwise, {USAGE}"
REPLAY_STATUSES = (
    "exit status: 0 the log is whole and every law held, 1 the log ends in a torn tail or a law is broken, "
    "2 wrong usage, or there is no log, no complete record, or a damaged one"
)
LARGEST_NUMBER = 999_999_999
COMMANDS = "run|demo|replay"


def run_command_line(arguments: Sequence[str] | None = None) -> int:
    """As `main`; it raises KeyboardInterrupt and nothing else."""
    parser = _parser()
    try:
        given = parser.parse_args(arguments)
    except SystemExit as error:  # argparse has said what is wrong, or has shown its help
        return error.code if isinstance(error.code, int) else ExitStatus.UNUSABLE
    screen = terminal()
    try:
        status = _carry_out(given, screen)
    except Unusable as error:
        return _complain(str(error))
    except LawBroken as error:
        return _complain(str(error))
    except OSError as error:
        return _complain(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}")
    if screen.failure is not None:
        return _complain(f"the output cannot be written: {screen.failure.strerror}; send it elsewhere")
    return status


def _carry_out(given: argparse.Namespace, screen: Screen) -> ExitStatus:
    match given.command:
        case "run":
            task = Task(
                text=given.task,
                workspace=given.workspace,
                log=given.log,
                provider=given.provider,
                fallback_providers=tuple(given.fallback_model),
                max_turns=given.max_turns,
                max_total_tokens=given.max_total_tokens,
                retries=given.retries,
                approvals=Approvals(given.approve),
                sub_agents=given.sub_agents,
            )
            return run(task, screen)
        case "replay":
            return replay(given.log, screen)
        case _:
            return demo(screen)


def _complain(message: str) -> int:
    print(f"loopkernel: {printable(message)}", file=sys.stderr)
    return ExitStatus.UNUSABLE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="loopkernel", description="Run an agent, with everything in a log.", epilog=RUN_STATUSES
    )
    parser.add_argument("--version", action="version", version=f"loopkernel {_version()}")
    commands = parser.add_subparsers(dest="command", required=True, metavar=COMMANDS)
    _add_run(commands)
    commands.add_parser(
        "demo", help="let the embedded model read a file in a workspace made for it", epilog=RUN_STATUSES
    )
    replaying = commands.add_parser(
        "replay", help="fold a log again: its events, its last state, the laws", epilog=REPLAY_STATUSES
    )
    replaying.add_argument("log", metavar="LOG", type=Path, help="the log of a run")
    return parser


def _add_run(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """What `run` can be given."""
    running = commands.add_parser("run", help="run a task in a folder, and show what happens", epilog=RUN_STATUSES)
    running.add_argument("task", metavar="TASK", help="what to do, in your words")
    running.add_argument(
        "--workspace", metavar="DIR", type=Path, default=Path(), help="the folder whose files may be used (here)"
    )
    running.add_argument(
        "--log", metavar="FILE", type=Path, help=f"where the log shall lie (a new file in {LOG_FOLDER})"
    )
    running.add_argument(
        "--provider",
        default=LOCAL,
        metavar=f"{LOCAL}|{SCRIPTED}FILE",
        help=f"the model: the embedded one ({LOCAL}, the default), or a script of replies, for trying things out",
    )
    running.add_argument(
        "--fallback-model",
        default=[],
        action="append",
        metavar=f"{LOCAL}|{SCRIPTED}FILE",
        help="the model to ask when the first one fails for good; may be given several times",
    )
    running.add_argument(
        "--max-turns",
        metavar="N",
        type=_count,
        default=DEFAULT_MAX_TURNS,
        help=f"how many replies at most ({DEFAULT_MAX_TURNS})",
    )
    running.add_argument(
        "--max-total-tokens", metavar="N", type=_count, help="how many tokens at most, in and out (no limit)"
    )
    running.add_argument(
        "--retries",
        metavar="N",
        type=_number,
        default=DEFAULT_RETRIES,
        help=f"how often a failed request is made again, at growing intervals ({DEFAULT_RETRIES}; 0 for never)",
    )
    running.add_argument(
        "--approve",
        choices=[choice.value for choice in Approvals],
        default=Approvals.ASK.value,
        help="before a tool that asks, as write_file does: ask you (the default), allow it always, or never (deny it)",
    )
    running.add_argument(
        "--sub-agents",
        action="store_true",
        help="offer the model a tool, `delegate`, that hands a task to another agent; its log lies beside this one",
    )


def _version() -> str:
    try:
        return version("loopkernel")
    except PackageNotFoundError:  # run from the sources alone
        return "of an unknown version, since it is not installed"


def _count(text: str) -> int:
    if _number(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 to {LARGEST_NUMBER}")
    return int(text)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(LARGEST_NUMBER))):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 0 to {LARGEST_NUMBER}")
    return int(text)
