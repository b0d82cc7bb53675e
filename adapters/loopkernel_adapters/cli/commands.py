"""The commands of the command line, carried out; and how every failure is told without a traceback."""

import os
import sys
from collections.abc import Sequence

from cyclopts import CycloptsError
from loopkernel.data.errors import LawBroken

from loopkernel_adapters.cli.arguments import command_line
from loopkernel_adapters.cli.outcomes import ExitStatus, Unusable, complain, described, told_in_words
from loopkernel_adapters.cli.screen import Screen, close_for_good, terminal
from loopkernel_adapters.cli.usage import console, told

HELPS = {"--help", "-h", "--version"}
TELL_PROGRAMS = {"run", "chat", "resume", "continue"}  # with --json, in lines of which the last is the result


def run_command_line(arguments: Sequence[str] | None = None) -> int:
    """As `main`; it raises KeyboardInterrupt and nothing else."""
    words = sys.argv[1:] if arguments is None else [*arguments]
    screen = terminal()
    try:
        with told_in_words():
            status = _carry_out(words, screen)
    except CycloptsError as error:
        return _failed(told(error), words, screen)
    except Unusable as error:
        return _failed(str(error), words, screen)
    except OSError as error:
        return _failed(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}", words, screen)
    except LawBroken as error:
        return _failed(str(error), words, screen)
    except Exception as error:
        return _failed(f"something that nobody foresaw: {described(error)}; please report this", words, screen)
    if screen.failure is not None:
        return _failed(f"the output cannot be written: {screen.failure.strerror}; send it elsewhere", words, screen)
    return status


def _carry_out(words: Sequence[str], screen: Screen) -> ExitStatus:
    """Do what the words say. Raises CycloptsError where they cannot be understood, and what the command raises."""
    command, bound, left = command_line().parse_args(words, print_error=False, exit_on_error=False)
    if "screen" in left:
        _demand_folder()
        status: ExitStatus = command(*bound.args, **bound.kwargs, screen=screen)
        return status
    if not HELPS & {*words}:  # then cyclopts would show the help, as if that had been asked for
        called = " ".join(["loopkernel", *words])
        raise Unusable(f"say which command is meant; `{called} --help` lists them")
    bound.arguments["console"] = console()
    try:
        command(*bound.args, **bound.kwargs)
    except SystemExit:  # of rich, where nobody reads any more
        return ExitStatus.NATURAL_END
    except OSError as error:
        close_for_good(sys.stdout)
        raise Unusable(f"the help cannot be written: {error.strerror}; send it elsewhere") from error
    return ExitStatus.NATURAL_END


def _demand_folder() -> None:
    """Raises Unusable where the current folder is gone, by which each path is meant."""
    try:
        os.getcwd()
    except OSError as error:
        raise Unusable(
            f"the folder that you are in cannot be found ({error.strerror}); go to one that is there, and try again"
        ) from error


def _failed(message: str, words: Sequence[str], screen: Screen) -> int:
    """Tell it, also as the last line to a program that reads the output."""
    if "--json" in words and TELL_PROGRAMS & {*words[:1]}:
        from loopkernel_adapters.cli.json_lines import tell_failure

        tell_failure(message, screen)
    screen.end_stream()  # so that the message has a line of its own
    complain(message)
    return ExitStatus.UNUSABLE
