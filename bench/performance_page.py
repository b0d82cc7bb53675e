"""The table of `docs/performance.md`, out of the figures of the last release (`released.json`).

`python -m bench.agent_table --record` writes it; by itself, `python -m bench.performance_page` writes it anew.
"""

import re
from pathlib import Path

from bench.agent_table import BYTES, BYTES_TARGET, CALL_TARGETS, ROWS, read_released

PAGE = Path(__file__).parent.parent / "docs" / "performance.md"
_HEAD = "| x the loop by hand | interpreted | target | compiled | target |\n|---|---|---|---|---|\n"
_TABLE = re.compile(re.escape(_HEAD) + r"(\|.*\|\n)+")


def table(released: dict[str, dict[str, float]]) -> str:
    """The rows, each with its targets; what was not measured has a dash."""
    targets = {row.name: (row.target, row.compiled_target) for row in ROWS}
    targets[BYTES] = (BYTES_TARGET, BYTES_TARGET)
    targets |= {name: (target, target) for name, target in CALL_TARGETS.items()}
    told = ""
    for name, aims in targets.items():
        figures = [released.get(form, {}).get(name) for form in ("interpreted", "compiled")]
        cells = [
            f"{'-' if figure is None else f'{figure:g}'} | {aim:g}" for figure, aim in zip(figures, aims, strict=True)
        ]
        told += f"| {name} | {' | '.join(cells)} |\n"
    return _HEAD + told


def write() -> None:
    """Put the figures of the last release into the page."""
    page = PAGE.read_text(encoding="utf-8")
    found = _TABLE.search(page)
    if found is None:
        raise ValueError(f"{PAGE.name} has lost the head of its table; put it back: {_HEAD.splitlines()[0]}")
    PAGE.write_text(page[: found.start()] + table(read_released()) + page[found.end() :], encoding="utf-8")


if __name__ == "__main__":
    write()
