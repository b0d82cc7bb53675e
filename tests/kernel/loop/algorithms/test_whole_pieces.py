"""What of a reply is whole where its stream broke: all but what belongs to the block that had not ended."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelCall, ModelInput, ModelReasoning, ModelText, Piece
from loopkernel.loop.algorithms.replies import whole_pieces

ONE = ModelOperation(1)
CALL = ModelCall(ONE, provider_id="c", tool="read", input=Json.of({}))
said = st.builds(ModelText, st.just(ONE), st.text("ab", max_size=3))
thought = st.builds(ModelReasoning, st.just(ONE), st.text("ab", max_size=3))
written = st.builds(ModelInput, st.just(ONE), st.text("ab", max_size=3))
pieces = st.lists(said | thought | written | st.just(CALL))
TAIL = ModelText | ModelReasoning | ModelInput


def length(parts: tuple[Piece, ...] | list[Piece]) -> int:
    return sum(len(piece.text) for piece in parts if isinstance(piece, ModelText | ModelReasoning))


@pytest.mark.rule("INFER-11")
@given(pieces, st.integers(0, 9))
def test_as_many_characters_are_left_out_as_were_not_whole_and_no_call_is(parts: list[Piece], unfinished: int) -> None:
    whole = whole_pieces(parts, unfinished)
    last = max((place for place, piece in enumerate(parts) if not isinstance(piece, TAIL)), default=-1)
    assert whole[: last + 1] == tuple(parts[: last + 1])
    assert length(whole) == length(parts) - min(unfinished, length(parts[last + 1 :]))


@pytest.mark.rule("INFER-11")
@given(pieces)
def test_where_nobody_knows_all_behind_the_last_whole_item_is_left_out(parts: list[Piece]) -> None:
    whole = whole_pieces(parts, None)
    assert not whole or not isinstance(whole[-1], TAIL)
    assert whole == tuple(parts[: len(whole)])
    assert all(isinstance(piece, TAIL) for piece in parts[len(whole) :])


@pytest.mark.rule("INFER-11")
def test_the_text_that_is_left_is_cut_within_its_piece() -> None:
    assert whole_pieces([CALL, ModelText(ONE, "It is four. Or")], 3) == (CALL, ModelText(ONE, "It is four."))


@pytest.mark.rule("INFER-11")
def test_a_piece_of_which_nothing_is_whole_leaves_no_empty_one() -> None:
    assert whole_pieces([CALL, ModelText(ONE, "It is"), ModelText(ONE, " four")], 5) == (CALL, ModelText(ONE, "It is"))
