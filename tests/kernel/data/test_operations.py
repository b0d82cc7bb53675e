"""Operation ids: minted from 1 without gaps, and what was cut short, against plain counters and dicts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.ids import ModelOperation, OperationKind
from loopkernel.data.operations import Operations
from loopkernel.data.usage import Usage
from loopkernel.testing.strategies.values import usages

kinds = st.sampled_from(OperationKind)
others = kinds.filter(lambda kind: kind is not OperationKind.MODEL)


@pytest.mark.rule("DELTA-3")
@given(st.lists(kinds))
def test_ids_of_a_kind_count_from_one_whatever_the_other_kinds_do(minted: list[OperationKind]) -> None:
    operations = Operations()
    newest = dict.fromkeys(OperationKind, 0)
    for kind in minted:
        newest[kind] += 1
        operations, number = operations.mint(kind)
        assert number == newest[kind]
    assert operations.minted == tuple(newest.values())


@given(st.lists(st.tuples(others, st.integers(1, 9))))
def test_what_is_abandoned_is_kept_by_kind(cut: list[tuple[OperationKind, int]]) -> None:
    operations = Operations()
    for kind, number in cut:
        operations = operations.abandon(kind, number)
    for kind in OperationKind:
        assert list(operations.abandoned[kind]) == sorted({number for other, number in cut if other is kind})
    assert operations.minted == Operations().minted


@given(st.dictionaries(st.integers(1, 60), usages))
def test_an_abandoned_model_call_is_found_with_what_was_counted(cut: dict[int, Usage]) -> None:
    operations = Operations()
    for number in sorted(cut):  # model calls are cut short in the order in which they were made
        operations = operations.abandon_model(ModelOperation(number), cut[number])
    for number in range(62):
        index = operations.abandoned_model_index(ModelOperation(number))
        if index is None:
            assert number not in cut
        else:
            assert operations.abandoned_models[index].operation == number
            assert operations.abandoned_models[index].counted == cut[number]


@given(st.lists(kinds))
def test_minting_leaves_the_counters_before_it_as_they_were(minted: list[OperationKind]) -> None:
    operations = Operations()
    for kind in minted:
        operations.mint(kind)
        operations.abandon(kind, 1)
        operations.abandon_model(ModelOperation(1), Usage())
    assert operations == Operations()
