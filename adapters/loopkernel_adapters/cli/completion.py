"""`loopkernel completion SHELL`: a script by which a shell completes commands, options, their choices, and paths."""

import argparse
from collections.abc import Iterator

from loopkernel_adapters.cli import argument_values as values
from loopkernel_adapters.cli.outcomes import ExitStatus, Unusable
from loopkernel_adapters.cli.screen import Screen

SHELLS = ("bash", "zsh", "fish")
PRINTS = "print what lets a shell complete commands, options and paths"
ABOUT_COMPLETION = (
    "Print a script for your shell. bash: add it to ~/.bashrc; zsh: write it to a file _loopkernel in a folder of "
    "$fpath; fish: write it to ~/.config/fish/completions/loopkernel.fish. Print it anew after an update."
)


def add_shells(command: argparse.ArgumentParser) -> None:
    """What the command is given."""
    command.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))


def tell_completion(whole: argparse.ArgumentParser, shell: str, screen: Screen) -> ExitStatus:
    """Print the script, made from the parser itself. Raises Unusable where what makes it is not installed."""
    try:
        import shtab
    except ImportError as error:
        raise Unusable("shtab is needed to make a completion: pip install 'loopkernel[cli]'") from error
    for action in _actions(whole):
        if action.metavar == "DIR":
            setattr(action, "complete", shtab.DIRECTORY)  # noqa: B010 - as shtab wants it, and argparse does not know it
        elif action.type is values.path or "FILE" in str(action.metavar) or "PATH" in str(action.metavar):
            setattr(action, "complete", shtab.FILE)  # noqa: B010 - the same
    screen.line(shtab.complete(whole, shell=shell).rstrip())
    return ExitStatus.NATURAL_END


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Each argument of the parser, and of those of its commands."""
    for action in parser._actions:  # argparse has no other way to them
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _actions(command)
