"""What passes between a run and its activities comes back as it was; increments of a reply are as few as can be."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.deltas import Delta
from loopkernel.data.ids import ModelOperation, OperationKind
from loopkernel.data.model_deltas import ModelCompleted, ModelInput, ModelReasoning, ModelText
from loopkernel.data.words import StopReason
from loopkernel.testing.strategies.deltas import deltas
from loopkernel_adapters.driver.pacing import joined
from loopkernel_adapters.temporal.documents import Batch, batches

ONE = ModelOperation(1)
KINDS = (ModelText, ModelReasoning, ModelInput)
PIECES = st.one_of(*(st.builds(kind, st.just(ONE), st.text(max_size=3)) for kind in KINDS))


@given(st.lists(deltas, max_size=4))
def test_a_batch_comes_back_as_it_was(said: list[Delta]) -> None:
    batch = Batch(number=1, kind=OperationKind.MODEL, operation=1, deltas=tuple(said))
    assert batches().decode_text(batches().encode_text((batch,))) == (batch,)


@given(st.lists(PIECES))
def test_pieces_that_follow_each_other_are_one(said: list[ModelText | ModelReasoning | ModelInput]) -> None:
    end = ModelCompleted(ONE, StopReason.END_TURN)
    found = joined([*said, end])
    assert found[-1] == end
    pieces = [one for one in found if isinstance(one, ModelText | ModelReasoning | ModelInput)]
    assert all(type(one) is not type(other) for one, other in pairwise(pieces))
    for kind in KINDS:
        texts = ["".join(one.text for one in group if isinstance(one, kind)) for group in (said, pieces)]
        assert texts[0] == texts[1]
