"""How the command line tells its usage: the help, in lines without boxes, and what is wrong with what was typed."""

import shutil
from typing import TYPE_CHECKING

from cyclopts import (
    Argument,
    CoercionError,
    CycloptsError,
    MissingArgumentError,
    Token,
    UnknownOptionError,
    UnusedCliTokensError,
)

if TYPE_CHECKING:
    from cyclopts.help import HelpEntry, HelpPanel, InlineText
    from rich.console import Console, ConsoleOptions

INDENT = 2
WIDEST_NAMES = 0.35  # of a line,
LONGEST_NAME = 20  # yet an option is not broken


def console() -> "Console":
    """Where help is shown: as wide as the terminal, also a dumb one; what is written is shown as it is."""
    from rich.console import Console  # the help alone needs it

    columns, lines = shutil.get_terminal_size()
    return Console(width=columns, height=lines, markup=False, emoji=False, highlight=False)


class Lines:
    """Shows help in lines: what to type, and beside it what that is for."""

    def render_usage(self, console: "Console", options: "ConsoleOptions", usage: object) -> None:
        """How the command is called."""
        console.print("usage:", usage)

    def render_description(self, console: "Console", options: "ConsoleOptions", description: "InlineText") -> None:
        """What the command is for."""
        console.print(description.primary_renderable)  # as it is, without a line that would be blank

    def __call__(self, console: "Console", options: "ConsoleOptions", panel: "HelpPanel") -> None:
        """The entries of a panel below its title."""
        from rich.padding import Padding
        from rich.table import Table

        if not panel.entries:
            return
        console.print(f"\n{panel.title}:".lower(), style="bold")
        names = [" ".join([*entry.display_labels, _value(entry)]).rstrip() for entry in panel.entries]
        table = Table.grid(padding=(0, INDENT))
        widest = max(LONGEST_NAME, int(console.width * WIDEST_NAMES))
        table.add_column(width=min(widest, max(map(len, names))), overflow="fold", style="cyan")
        table.add_column(overflow="fold")
        for name, entry in zip(names, panel.entries, strict=True):
            table.add_row(name, entry.description)
        console.print(Padding(table, (0, 0, 0, INDENT)))


def _value(entry: "HelpEntry") -> str:
    """What stands for the value of an option, or for the words that an argument may be."""
    return "|".join(entry.choices or ()) or ("" if entry.positional_label else entry.metavar or "")


def told(error: CycloptsError) -> str:
    """What is wrong with what was typed, and what tells more."""
    return f"{_problem(error)} (`{' '.join(['loopkernel', *(error.command_chain or ())])} --help` tells more)"


def _problem(error: CycloptsError) -> str:
    match error:
        case CoercionError(msg=str() as words, argument=Argument(name=name, tokens=[token, *_])):
            if token.source != "cli":  # a setting
                return f"{token.source} cannot be used: {words}"
            return f"Invalid value for {token.keyword or name}: {words}."
        case MissingArgumentError(argument=Argument(), keyword=str() as keyword):
            return f"{keyword} needs a value; one that begins with a dash is given as {keyword}=VALUE."
        case MissingArgumentError(argument=Argument(name=name)):
            return f"{name} is missing."
        case UnusedCliTokensError(unused_tokens=[word, *_]):
            return f"{word!r} is one word too many."
        case UnknownOptionError(token=Token(keyword=None, value=text)) if " " in text:
            return f"{text!r} begins as an option does; put -- before it."
        case CycloptsError():
            return str(error)
