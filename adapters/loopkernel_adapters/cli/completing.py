"""What Tab offers in a chat: slash commands at the beginning of a line, elsewhere paths of the workspace.

A path with characters that cannot be seen is not offered: a model may have made it.
"""

from collections.abc import Iterable
from pathlib import Path

from loopkernel.later_typing import override
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document

from loopkernel_adapters.cli.chat_commands import COMMANDS, MODES
from loopkernel_adapters.cli.screen import printable


class ChatCompleter(Completer):
    """Completes a line of a chat about this folder."""

    def __init__(self, folder: Path) -> None:
        self._paths = PathCompleter(get_paths=lambda: [str(folder)], expanduser=True)

    @override
    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        before = document.text_before_cursor
        word = before.rpartition(" ")[2].rpartition("\n")[2]
        if before.startswith("/") and word == before:
            return _those_of(COMMANDS, word)
        if before.startswith("/mode "):
            return _those_of(MODES, word)
        offered = self._paths.get_completions(Document(word), complete_event)
        return (each for each in offered if printable(each.text) == each.text and len(each.text.splitlines()) < 2)


def _those_of(known: Iterable[str], begun: str) -> list[Completion]:
    return [Completion(each, start_position=-len(begun)) for each in sorted(known) if each.startswith(begun)]
