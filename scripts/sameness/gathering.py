"""Makes a share of a part of the corpus, by the kit of its own tree.

python -m scripts.sameness.gathering PART SHARE OF OUTPUT, where SHARE counts from 0. The same tree makes the same
corpus each time.
"""

import gc
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import TypeAlias

from scripts.sameness.corpus import CorpusCase, write_cases

MADE_BY = {  # the module of each part, in which a function bears its name
    "recordings": "recorded",
    "logs": "playing",
    "states": "wandering",
    "scenarios": "playing",
    "worlds": "recorded",
    "walks": "wandering",
    "explorer": "wandering",
}
Gatherer: TypeAlias = Callable[[Path, int, int], Iterator[CorpusCase]]
ROOT = Path(__file__).resolve().parents[2]


def cases(part: str, share: int, of: int) -> Iterator[CorpusCase]:
    """The cases of the share. Only what makes this part is imported."""
    gather: Gatherer = getattr(import_module(f"scripts.sameness.{MADE_BY[part]}"), part)
    return gather(ROOT, share, of)


if __name__ == "__main__":
    gc.set_threshold(100_000, 50, 100)
    write_cases(Path(sys.argv[4]), cases(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
