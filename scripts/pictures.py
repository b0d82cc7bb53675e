"""Makes the pictures of README.md and docs/, from the types and from real runs: `make pictures`.

    python -m scripts.pictures docs/pictures

`states.svg` is the table of states, `timeline.svg` a run of an agent in virtual time, and `terminal.svg` what the
command line shows at a real terminal. The first two are the same each time, which a test holds; the third is made with
what `constraints/docs.txt` adds to the environment.
"""

import sys
from pathlib import Path

from scripts.drawing.states import drawn_states
from scripts.drawing.terminal import drawn_terminal
from scripts.drawing.timeline import drawn_timeline, timed_run


def drawn() -> dict[str, str]:
    """The pictures that are the same each time, by the names of their files."""
    run = timed_run()
    return {"states.svg": drawn_states(run), "timeline.svg": drawn_timeline(run)}


def main(folder: Path) -> None:
    """Write all three."""
    folder.mkdir(exist_ok=True)
    for name, picture in {**drawn(), "terminal.svg": drawn_terminal()}.items():
        (folder / name).write_text(picture, encoding="utf-8")
        print(f"{folder / name}: {len(picture):,} characters")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
