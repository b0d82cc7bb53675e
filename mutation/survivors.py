"""The mutants that are known to survive, each with its reason: read from survivors.toml, held against the sources."""

import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path

from attrs import field, frozen

from mutation.mutants import Mutant

LISTED = Path(__file__).with_name("survivors.toml")
SHORTEST_REASON = 20  # characters


class Kind(Enum):
    """Why a mutant survives. Only the equivalent are left out of the score: no test could kill them."""

    EQUIVALENT = "equivalent"  # nothing that is promised differs, for any input
    SPEED = "speed"  # only how long it takes, or how much is kept in memory, differs
    TEXT = "text"  # only the wording for people differs
    UNTESTED = "untested"  # a test is missing


@frozen(kw_only=True)
class Survivor:
    """One entry: the mutant by its function and its texts, so that no shift of lines breaks it."""

    file: str
    function: str
    before: str
    after: str
    kind: Kind = field(converter=Kind)
    reason: str
    occurrence: int = 1

    @property
    def key(self) -> tuple[str, str, str, str, int]:
        """What says which mutant it is."""
        return (self.file, self.function, self.before, self.after, self.occurrence)


def key_of(mutant: Mutant) -> tuple[str, str, str, str, int]:
    """The key of the entry that would list the mutant."""
    return (mutant.path, mutant.function, mutant.before, mutant.after, mutant.occurrence)


def read_survivors(path: Path = LISTED) -> tuple[Survivor, ...]:
    """The entries of the file. Raises TypeError or ValueError when one has other fields or another kind."""
    with path.open("rb") as file:
        return tuple(Survivor(**entry) for entry in tomllib.load(file).get("survivor", []))


def faults(survivors: Iterable[Survivor], mutants: Iterable[Mutant]) -> Iterator[str]:
    """What is wrong with the entries: a mutant that no longer exists, an entry given twice, or no reason."""
    existing = {key_of(mutant) for mutant in mutants}
    counts = Counter(survivor.key for survivor in survivors)
    for survivor in survivors:
        told = f"{survivor.file}: {survivor.function}: {survivor.before} -> {survivor.after}"
        if survivor.key not in existing:
            yield f"{told}: there is no such mutant any more"
        if counts[survivor.key] > 1:
            yield f"{told}: is listed twice"
        if len(survivor.reason.strip()) < SHORTEST_REASON:
            yield f"{told}: has no reason"


def entry_for(mutant: Mutant) -> str:
    """What to add to the file for the mutant, but for its kind and reason."""
    values = {"file": mutant.path, "function": mutant.function, "before": mutant.before, "after": mutant.after}
    lines = [f"{name} = {_quoted(value)}" for name, value in values.items()]
    twin = [f"occurrence = {mutant.occurrence}"] if mutant.occurrence > 1 else []
    return "\n".join(["[[survivor]]", *lines, *twin, 'kind = ""', 'reason = ""'])


def _quoted(text: str) -> str:
    return f"'{text}'" if "'" not in text else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
