"""Which mutants are tried: a sample by a seed, spread over the modules by their size and over the operators evenly."""

import random
from collections import defaultdict
from collections.abc import Iterable

from mutation.mutants import Mutant
from mutation.operators import REMOVED_CONDITIONS


def sample(mutants: Iterable[Mutant], size: int, seed: int) -> list[Mutant]:
    """So many of the mutants, or all when there are fewer. The same for the same mutants, size and seed."""
    by_file: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in mutants:
        by_file[mutant.path].append(mutant)
    shares = _shares({path: len(found) for path, found in by_file.items()}, size)
    chosen = [mutant for path, found in by_file.items() for mutant in _spread(found, shares[path], f"{seed}:{path}")]
    random.Random(seed).shuffle(chosen)  # so that a run that is broken off has seen something of everything
    return chosen


def _shares(sizes: dict[str, int], size: int) -> dict[str, int]:
    """How many of each file: by their sizes, the largest remainders first."""
    total = sum(sizes.values())
    size = min(size, total)
    exact = {path: count * size / total for path, count in sizes.items()}
    shares = {path: int(share) for path, share in exact.items()}
    by_remainder = sorted(sizes, key=lambda path: (shares[path] - exact[path], path))
    for path in by_remainder[: size - sum(shares.values())]:
        shares[path] += 1
    return shares


def _spread(mutants: list[Mutant], count: int, seed: str) -> list[Mutant]:
    """So many of the mutants of one file, in turn from each operator."""
    dice = random.Random(seed)
    by_operator: dict[str, list[Mutant]] = defaultdict(list)
    for mutant in mutants:
        by_operator["condition" if mutant.operator in REMOVED_CONDITIONS else mutant.operator].append(mutant)
    turns = [by_operator[operator] for operator in sorted(by_operator)]
    dice.shuffle(turns)
    for turn in turns:
        dice.shuffle(turn)
    chosen: list[Mutant] = []
    while len(chosen) < count:
        for turn in turns:
            if turn and len(chosen) < count:
                chosen.append(turn.pop())
    return chosen
