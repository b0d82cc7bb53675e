"""The kill matrix: what is counted by file and by function, and of what nothing is said."""

from mutation.matrix import Matrix
from mutation.mutants import Mutant
from mutation.plans import Batch
from mutation.trial import Outcome, Verdict

ONE, OTHER = "tests/test_a.py::test_one", "tests/test_b.py::test_other"


def mutant(line: int) -> Mutant:
    return Mutant(path="a.py", function="f", line=line, operator="constant", before="1", after=str(line))


def test_who_kills_and_who_kills_alone_is_told_of_what_was_met() -> None:
    matrix = Matrix()
    for line in (1, 2, 3):
        matrix.noted(mutant(line), [Batch(tests={f"{ONE}[a]": 0.1, f"{ONE}[b]": 0.1}), Batch(tests={OTHER: 0.1})])
    outcomes = [
        Outcome(mutant=mutant(1), verdict=Verdict.KILLED, tests=(f"{ONE}[a]", f"{ONE}[b]")),
        Outcome(mutant=mutant(2), verdict=Verdict.KILLED, tests=(f"{ONE}[a]", OTHER)),
        Outcome(mutant=mutant(3), verdict=Verdict.TIMED_OUT, tests=("SIGPROF",)),  # it tells of no single test
    ]
    told = list(matrix.told(outcomes, [ONE, OTHER, "tests/test_b.py::test_never_met"]))
    assert "    2     2     1  tests/test_a.py" in told
    assert "    2     2     1  tests/test_a.py::test_one" in told
    assert "    2     1     0  tests/test_b.py::test_other" in told
    assert told[-1] == "1 of 3 functions met no mutant of this sample"
