"""Every listed survivor is still a mutant of the sources and has a reason; and each fault of the list is found."""

from pathlib import Path

import pytest
from attrs import evolve

from mutation.mutants import Mutant
from mutation.subject import KERNEL
from mutation.survivors import Kind, Survivor, entry_for, faults, key_of, read_survivors

MUTANT = Mutant(
    path="kernel/example.py", function="f", line=9, operator="constant", before="x = 'a'", after='x = ""', occurrence=2
)
ENTRY = Survivor(
    file="kernel/example.py",
    function="f",
    before="x = 'a'",
    after='x = ""',
    occurrence=2,
    kind="text",
    reason="only what is shown to people differs",
)


def test_the_list_holds_against_the_sources() -> None:
    assert list(faults(read_survivors(), KERNEL.mutants)) == []


def test_an_entry_that_is_right_has_no_fault() -> None:
    assert key_of(MUTANT) == ENTRY.key
    assert list(faults([ENTRY], [MUTANT])) == []


@pytest.mark.parametrize(
    ("entries", "fault"),
    [
        ([evolve(ENTRY, before="x = 'b'")], "there is no such mutant any more"),
        ([evolve(ENTRY, function="g")], "there is no such mutant any more"),
        ([evolve(ENTRY, occurrence=1)], "there is no such mutant any more"),
        ([evolve(ENTRY, reason="  so  ")], "has no reason"),
    ],
)
def test_a_fault_of_an_entry_is_told(entries: list[Survivor], fault: str) -> None:
    assert [told.rpartition(": ")[2] for told in faults(entries, [MUTANT])] == [fault]


def test_an_entry_given_twice_is_told() -> None:
    assert len(list(faults([ENTRY, ENTRY], [MUTANT]))) == 2


def test_the_entry_that_is_proposed_is_read_back(tmp_path: Path) -> None:
    listed = tmp_path / "survivors.toml"
    text = entry_for(MUTANT).replace('kind = ""', 'kind = "text"').replace('reason = ""', f'reason = "{ENTRY.reason}"')
    listed.write_text(text, encoding="utf-8")
    assert read_survivors(listed) == (ENTRY,)


def test_a_kind_that_is_none_is_refused(tmp_path: Path) -> None:
    listed = tmp_path / "survivors.toml"
    listed.write_text(entry_for(MUTANT), encoding="utf-8")
    with pytest.raises(ValueError, match="is not a valid Kind"):
        read_survivors(listed)


def test_the_kinds_are_explained() -> None:
    page = (KERNEL.root / "specs" / "mutation.md").read_text(encoding="utf-8")
    assert [kind.value for kind in Kind if f"`{kind.value}`" not in page] == []
