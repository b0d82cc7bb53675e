"""Conversations from elsewhere, whole and broken."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from loopkernel.data.blocks import ReasoningBlock, TextBlock
from loopkernel.data.foreign import (
    ForeignCall,
    ForeignMessage,
    ForeignReply,
    ForeignResult,
    ForeignResults,
    ForeignUser,
)
from loopkernel.data.words import CallStatus

from tests.kernel.building import NOTHING, text


def foreign_call(name: str) -> ForeignCall:
    """A recorded call under that id of its provider."""
    return ForeignCall(provider_id=name, tool="read", input=NOTHING)


def foreign_result(name: str, words: str = "out", status: CallStatus = CallStatus.DONE) -> ForeignResult:
    """A recorded result for a call of that id."""
    return ForeignResult(provider_id=name, status=status, content=text(words))


_names = st.sampled_from(("c1", "c2", "c3"))
_words = st.sampled_from(("a", "b", " "))
_blocks = st.one_of(
    _words.map(TextBlock), _words.map(ReasoningBlock), _names.map(foreign_call), _names.map(foreign_call)
)
_messages: SearchStrategy[ForeignMessage] = st.one_of(
    st.builds(ForeignUser, st.lists(_words.map(TextBlock), max_size=2).map(tuple)),
    st.builds(ForeignReply, content=st.lists(_blocks, max_size=3).map(tuple)),
    st.builds(ForeignResults, st.lists(st.builds(foreign_result, _names, _words), max_size=3).map(tuple)),
)
broken_conversations: SearchStrategy[list[ForeignMessage]] = st.lists(_messages, max_size=7)
