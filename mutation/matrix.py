"""The kill matrix: which test functions notice which mutants of a sample, and which none that others do not."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

from attrs import define, field

from mutation.mutants import Mutant
from mutation.plans import Batch
from mutation.trial import Outcome, Verdict


@define
class Matrix:
    """What each mutant met, and what came of it."""

    met: dict[str, tuple[str, ...]] = field(factory=dict)  # of each mutant, by its digest, the tests that were run

    def noted(self, mutant: Mutant, batches: list[Batch]) -> list[Batch]:
        """The batches, of which each test is noted as one that the mutant meets."""
        self.met[mutant.digest] = tuple(test for batch in batches for test in batch.tests)
        return batches

    def told(self, outcomes: Iterable[Outcome], functions: Iterable[str]) -> Iterator[str]:
        """The lines of the report: by file, then by function, then how much of the suite the sample says nothing of.

        A mutant that ended its process tells of no single test, so it is left out. Of a test that kills nothing here,
        only this is known: the mutants of the sample that it met are noticed by others, or by none.
        """
        judged = [outcome for outcome in outcomes if outcome.verdict in (Verdict.KILLED, Verdict.SURVIVED)]
        for title, name_of in (("file", file_of), ("function", function_of)):
            met, kills, alone = self._counted(judged, name_of)
            yield f"\nmet, killed, of which alone, by which test {title}"
            for name in sorted(met, key=lambda name: (-kills[name], -alone[name], name)):
                yield f"{met[name]:>5} {kills[name]:>5} {alone[name]:>5}  {name}"
        known = set(functions)
        silent = known.difference(function for tests in self.met.values() for function in map(function_of, tests))
        yield f"{len(silent)} of {len(known)} functions met no mutant of this sample"

    def _counted(
        self, outcomes: Iterable[Outcome], name_of: Callable[[str], str]
    ) -> tuple[Mapping[str, int], Mapping[str, int], Mapping[str, int]]:
        met: Counter[str] = Counter()
        kills: Counter[str] = Counter()
        alone: dict[str, int] = defaultdict(int)
        for outcome in outcomes:
            names = set(map(name_of, self.met.get(outcome.mutant.digest, ())))
            killers = set(map(name_of, outcome.tests)) & names
            met.update(names)
            kills.update(killers)
            if len(killers) == 1:
                alone[killers.pop()] += 1
        return met, kills, alone


def function_of(test: str) -> str:
    """The name of a test without its parameters."""
    return test.partition("[")[0]


def file_of(test: str) -> str:
    """The file that a test stands in."""
    return test.partition("::")[0]
