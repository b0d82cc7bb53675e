"""What the command line shows at a real terminal, where a person approves a change: its last screen, as a picture."""

import json
import os
import time
from html import escape
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pyte

from scripts.drawing.svg import MONOSPACE, framed
from tests.adapters.cli.pseudo_terminal import at_a_terminal

COLUMNS, ROWS = 96, 60
CELL, LINE, MARGIN = 7.8, 19, 18
PAPER, INK = "#14181f", "#d7dce5"
COLOURS = {
    "black": "#6b7484",
    "red": "#f07178",
    "green": "#7fd18b",
    "brown": "#e6b450",  # pyte's name of the terminal's yellow
    "blue": "#6ea8fe",
    "magenta": "#c792ea",
    "cyan": "#62c8d3",
    "white": "#ffffff",
}
PROMPT = "yes"  # what stands in the question, which may wrap
READING = 4.0  # seconds of a person, who cannot answer before it can have been read
TASK = "Greet Anna in greeting.txt instead"
REPLIES = [
    {"text": "I read the file first.", "calls": [{"tool": "read_file", "input": {"path": "greeting.txt"}}]},
    {
        "text": "Now I change the name.",
        "calls": [{"tool": "edit_file", "input": {"path": "greeting.txt", "old_text": "Bob", "new_text": "Anna"}}],
    },
    {"text": "greeting.txt greets **Anna** now."},
]


class Look(NamedTuple):
    """How a character looks."""

    colour: str
    bold: bool
    faint: bool


def shown_screen() -> pyte.Screen:
    """The screen after the run."""
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.Stream(screen)
    stream.feed(f'$ loopkernel run "{TASK}"\r\n')
    with TemporaryDirectory() as folder:
        Path(folder, "replies.json").write_text(json.dumps(REPLIES), encoding="utf-8")
        workspace = Path(folder, "work")
        workspace.mkdir()
        (workspace / "greeting.txt").write_text("Dear Bob,\nhow are you?\n", encoding="utf-8")
        os.environ.update(XDG_CONFIG_HOME=folder, TERM="xterm-256color", LOOPKERNEL_TOOLS="")
        given = ("run", TASK, "--model", f"scripted:{folder}/replies.json", "--workspace", str(workspace))
        with at_a_terminal(*given, "--store", "memory", size=(ROWS, COLUMNS)) as person:
            person.wait_for("edit_file")
            person.wait_for(PROMPT)
            time.sleep(READING)
            person.type(b"yes\r")
            assert person.wait_for_end() == 0, person.shown
            stream.feed(person.raw.decode().replace(str(workspace), "~/work"))
    return screen


def drawn_terminal() -> str:
    """The picture."""
    screen = shown_screen()
    last = max(row for row in range(ROWS) if screen.display[row].strip())
    parts = []
    for row in range(last + 1):
        line = [screen.buffer[row][column] for column in range(COLUMNS)]
        column = 0
        for look, cells in groupby(line, key=lambda cell: Look(cell.fg, cell.bold, cell.fg == "black")):
            words = "".join(cell.data for cell in cells)
            if words.strip():
                parts.append(_words(column, row, words, look))
            column += len(words)
    width, height = round(COLUMNS * CELL + 2 * MARGIN), LINE * (last + 1) + 2 * MARGIN
    return framed(width, height, "loopkernel run, at a terminal", parts, paper=PAPER, font=MONOSPACE)


def _words(column: int, row: int, words: str, look: Look) -> str:
    colour = COLOURS.get(look.colour, INK if look.colour == "default" else f"#{look.colour}")
    weight = ' font-weight="bold"' if look.bold else ""
    begin = column + len(words) - len(words.lstrip())
    kept = words.strip()
    return (
        f'<text x="{MARGIN + begin * CELL:.1f}" y="{MARGIN + LINE * row + 13}" fill="{colour}"{weight} '
        f'textLength="{len(kept) * CELL:.1f}" xml:space="preserve">{escape(kept)}</text>'
    )
