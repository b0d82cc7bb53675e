"""Which tests a mutant meets: those that reach its line, first those of its module, then of its room."""

import ast
from array import array
from collections import defaultdict
from collections.abc import Sequence
from pathlib import PurePosixPath

from attrs import define, frozen

from mutation.mutants import Mutant
from mutation.probes import Place
from mutation.recording import Record
from mutation.subject import Subject

FIRST_BATCH = 0.5  # seconds of tests; each further batch is longer
GROWTH = 3
SECONDS_A_MUTANT = 60.0  # as recorded: the slowest tests of a mutant that survives so much are not run
MATRIX_SECONDS = 100.0  # the same where every test that kills is asked for


@frozen(kw_only=True)
class Batch:
    """Tests that are run in one go, with what each took on the kernel as it is."""

    tests: dict[str, float]

    @property
    def files(self) -> tuple[str, ...]:
        """The files that they stand in, in the order of their first tests."""
        return tuple(dict.fromkeys(test.partition("::")[0] for test in self.tests))


@define(kw_only=True)
class Planner:
    """Answers which tests reach a place."""

    tests: list[tuple[str, str, float]]  # the name of each, its file, and its seconds
    collected: dict[str, float]
    reaching: dict[Place, Sequence[int]]
    imported: set[Place]  # reached while a file was collected: only by the first file of a process that imports them
    probed: set[Place]
    users: dict[str, set[Place]]  # of each constant of a module, the statements that name it
    most: float = SECONDS_A_MUTANT  # seconds of tests a mutant

    @staticmethod
    def of(subject: Subject, record: Record, most: float = SECONDS_A_MUTANT) -> "Planner":
        """Turn the record round: from tests that reach places to places that are reached by tests."""
        reaching: dict[int, array[int]] = defaultdict(lambda: array("I"))
        for position, recorded in enumerate(record.tests):
            for number in recorded.reached:
                reaching[number].append(position)
        return Planner(
            tests=[(recorded.test, recorded.file, recorded.seconds) for recorded in record.tests],
            collected={name: recorded.seconds for name, recorded in record.collected.items()},
            reaching={record.places[number]: positions for number, positions in reaching.items()},
            imported={record.places[number] for collected in record.collected.values() for number in collected.reached},
            probed=set(record.places),
            users=_users(subject),
            most=most,
        )

    def batches(self, mutant: Mutant) -> list[Batch]:
        """The tests that reach the mutant, in the order in which it meets them; none where no test does.

        Those of a constant reach a statement that names it. What is reached by the import, all tests reach.
        """
        reached, by_import = {(mutant.path, mutant.line)}, False
        if mutant.function in self.users:
            reached = self.users[mutant.function]
            by_import = not reached or not reached <= self.probed
        direct = {position for each in reached for position in self.reaching.get(each, ())}
        met = range(len(self.tests)) if by_import or reached & self.imported else direct
        place = PurePosixPath(mutant.path)
        own, room = f"test_{place.stem.strip('_')}", f"/{place.parent.name}/"

        def rank(position: int) -> tuple[bool, bool, bool, float]:
            _, file, seconds = self.tests[position]
            return not PurePosixPath(file).name.startswith(own), room not in file, position not in direct, seconds

        return self._batched(sorted(met, key=rank))

    def _batched(self, positions: list[int]) -> list[Batch]:
        batches: list[Batch] = []
        tests: dict[str, float] = {}
        files: set[str] = set()
        size, filled, spent = FIRST_BATCH, 0.0, 0.0
        for position in positions:
            name, file, seconds = self.tests[position]
            cost = seconds
            if file not in files:
                files.add(file)
                cost += self.collected.get(file, 0.0)
            if tests and spent + cost > self.most:
                continue
            if tests and filled + cost > size:
                batches.append(Batch(tests=tests))
                tests, filled, size = {}, 0.0, size * GROWTH
            tests[name] = seconds
            filled += cost
            spent += cost
        return [*batches, Batch(tests=tests)] if tests else batches


def _users(subject: Subject) -> dict[str, set[Place]]:
    found: dict[str, set[Place]] = {mutant.function: set() for mutant in subject.mutants if mutant.function.isupper()}
    for path, tree in subject.trees.items():
        for statement in ast.walk(tree):
            if isinstance(statement, ast.stmt) and not isinstance(statement, ast.ClassDef | ast.FunctionDef):
                for node in ast.walk(statement):
                    if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
                        name = node.id if isinstance(node, ast.Name) else node.attr
                        if name in found:
                            found[name].add((path, statement.lineno))
    return found
