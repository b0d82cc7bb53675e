"""How the help of the command line is written, and what is said where something cannot be understood."""

import argparse
from typing import NoReturn

from loopkernel.later_typing import override

from loopkernel_adapters.cli.screen import terminal


class Paragraphs(argparse.HelpFormatter):
    """Keeps the paragraphs of a text apart."""

    @override
    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n\n".join(super(Paragraphs, self)._fill_text(part, width, indent) for part in text.split("\n\n"))


class Parser(argparse.ArgumentParser):
    """A parser whose help says when it cannot be written, and whose complaints name the help."""

    @override
    def error(self, message: str) -> NoReturn:
        super().error(f"{message}; `{self.prog} --help` tells more")

    @override
    def print_help(self, file: object = None) -> None:
        screen = terminal(plain=True)
        screen.line(self.format_help().rstrip())
        if screen.failure is not None:
            raise screen.failure
