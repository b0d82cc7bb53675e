"""Cases that come from the shell: the driver in simulated worlds, and recordings of other agents."""

from collections.abc import Iterator
from pathlib import Path

from loopkernel.codec import record_to_text
from loopkernel_adapters.transcripts.replaying import replayed
from loopkernel_adapters.transcripts.source import Source

from scripts.sameness.corpus import CorpusCase, of_log
from tests.adapters.simulation.batch import is_lively, run_seed

WORLDS = 600


def worlds(_: Path, share: int, of: int) -> Iterator[CorpusCase]:
    """What the real driver logs in simulated worlds."""
    for seed in range(WORLDS)[share::of]:
        log = run_seed(seed, is_lively(seed), laws=False).log
        yield of_log(f"simulated world {seed}", log.decode("ascii").splitlines())


def recordings(root: Path, share: int, of: int) -> Iterator[CorpusCase]:
    """The recordings that lie in the project, played through the kernel."""
    for file in sorted((root / "tests" / "adapters" / "transcripts" / "examples").glob("*/*"))[share::of]:
        for conversation in replayed(Source(file)).conversations:
            name = f"{file.parent.name}/{file.name}, {conversation.name or 'its run'}"
            yield of_log(name, map(record_to_text, conversation.records))
