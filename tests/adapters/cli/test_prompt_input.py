"""The prompt of a chat: what is kept for the next session, and what happens where something cannot be shown."""

import asyncio
import io
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some
from loopkernel_adapters.cli import prompt_input
from loopkernel_adapters.cli.prompt_input import PromptInput, kept_history
from loopkernel_adapters.cli.prompt_screen import PERSON, PromptScreen
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from typing_extensions import override

LONGEST = 1_000
messages = some.lists(some.text(some.characters(codec="utf-8", exclude_characters="\r"), min_size=1, max_size=90))


def loaded(folder: Path) -> list[str]:
    """The messages that the next session has, the oldest first."""
    history = kept_history(folder)
    assert isinstance(history, FileHistory)
    return [*history.load_history_strings()][::-1]


@given(messages=messages.map(lambda few: few * 4))
def test_a_long_history_forgets_whole_messages_and_the_oldest_alone(messages: list[str]) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        folder, path = Path(name), Path(name, "history")
        history = FileHistory(path)
        for message in messages:
            history.append_string(message)
        whole = loaded(folder)
        size = path.stat().st_size
        patch.setattr(prompt_input, "LONGEST_HISTORY", LONGEST)
        kept = loaded(folder)
        assert kept == whole[len(whole) - len(kept) :]
        assert (kept == whole) == (size <= LONGEST)
        if kept != whole:
            assert path.stat().st_size <= size / 2
            assert path.stat().st_mode & 0o777 == 0o600
            assert [each.name for each in folder.iterdir()] == ["history"]


def test_what_cannot_be_shown_is_raised_when_the_prompt_is_left() -> None:
    def broken() -> StyleAndTextTuples:
        raise ZeroDivisionError

    async def play() -> None:
        with create_pipe_input() as keys:
            prompt = PromptInput(keys=keys, output=DummyOutput())
            prompt.above = broken
            with pytest.raises(ZeroDivisionError):
                async with prompt.open():
                    assert await prompt.line() is None  # the input is over

    asyncio.run(play())


@pytest.mark.parametrize(("label", "after"), [(PERSON, PERSON), ("allow", "later")])
def test_what_is_shown_while_a_message_is_awaited_leaves_the_prompt_as_it_is(label: str, after: str) -> None:
    """A question is put again below what has been shown; the prompt for a message stands below all the time."""
    labels: list[str] = []

    class Labelled(PromptInput):
        @override
        def label(self, text: str, *, answers: bool) -> None:
            labels.append(text)
            super().label(text, answers=answers)

    with create_pipe_input() as keys:
        answers = Labelled(keys=keys, output=DummyOutput())
        screen = PromptScreen(io.StringIO(), answers)
        screen.ask(label, "")
        assert labels[-1].startswith(label)
        screen.labelled("interrupt", "nothing is under way")
        assert labels[-1].startswith(after)
