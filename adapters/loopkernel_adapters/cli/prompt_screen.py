"""The screen of a chat with a prompt below: what is over goes above it, what is under way stands between the two."""

from typing import TextIO

from loopkernel.later_typing import override
from prompt_toolkit.formatted_text import StyleAndTextTuples

from loopkernel_adapters.cli.prompt_input import PromptInput
from loopkernel_adapters.cli.rich_screen import RichScreen
from loopkernel_adapters.cli.screen import LABEL_WIDTH, printable

PERSON = "you"
BUSY = "later"  # while the agent is busy: what is typed waits in the queue
LINES_LEFT = 6  # for the prompt, and what stands above


class PromptScreen(RichScreen):
    """Shows it above the prompt of `answers`."""

    def __init__(self, stream: TextIO, answers: PromptInput) -> None:
        super().__init__(stream)
        self._answers = answers
        self._question: tuple[str, str] | None = None  # the label and the text before what is typed
        answers.above = self._above
        self._label_usual()

    def _above(self) -> StyleAndTextTuples:
        """What is under way, in lines."""
        if self._under_way is None:
            return []
        columns, lines = self.size()
        shown = self._under_way.lines(columns - 1, max(lines - LINES_LEFT, 3))
        parts = [("fg:ansicyan" if line.style == "cyan" else "", line.plain) for line in shown]
        return [(style, text + "\n" * (number < len(parts))) for number, (style, text) in enumerate(parts, start=1)]

    def _label_usual(self) -> None:
        self._question = None
        self._answers.label(f"{BUSY:<{LABEL_WIDTH}} ", answers=False)

    @override
    def _open(self, label: str, text: str) -> None:
        self.end_stream()
        self._question = (label, text)
        self._answers.label(f"{label:<{LABEL_WIDTH}} {printable(text)}", answers=label != PERSON)

    @override
    def listen(self) -> None:
        if self._question is not None:
            label, text = self._question
            self._open(label, f"{text}? ")

    @override
    def answered(self, answer: str | None, *, echoed: bool) -> None:
        label, text = self._question or (PERSON, "")
        self._label_usual()
        if answer:
            self.labelled(label, f"{text}{answer}")

    @override
    def end_stream(self) -> None:
        self._end_reply()
        if self._question is not None and self._question[0] != PERSON:  # the person is asked for a message all the time
            self._label_usual()

    @override
    def _start(self) -> None:
        """The prompt shows what is under way."""

    @override
    def _write(self, text: str) -> None:
        try:
            self._answers.write(text)
        except OSError as error:
            self._fail(error)
