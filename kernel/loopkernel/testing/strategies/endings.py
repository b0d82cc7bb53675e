"""Strategies for how a turn ends, and for what follows when the calls of a reply are answered."""

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from loopkernel.data.endings import Ending, Failure, GoOn, NextInput, NextQueued, Settled
from loopkernel.data.ids import ModelOperation
from loopkernel.data.words import CancelReason, ErrorClass, RequestReason
from loopkernel.loop.turn.limits import OUT_OF_BUDGET
from loopkernel.testing.strategies.conversation import cancel_reasons, contents
from loopkernel.testing.strategies.deltas import WAITS_MS
from loopkernel.testing.strategies.sessions import end_reasons
from loopkernel.testing.strategies.values import message_ids, receipt_ids, safe_keys, texts

next_inputs: SearchStrategy[NextInput] = st.builds(
    NextInput, receipt=receipt_ids, content=contents, key=safe_keys, replaces=st.none() | message_ids
)
errors: SearchStrategy[ErrorClass] = st.sampled_from(ErrorClass)
endings: SearchStrategy[Ending] = st.builds(
    Ending,
    reason=end_reasons,
    natural=st.booleans(),
    gated=st.booleans(),
    cancel=st.none() | cancel_reasons.filter(lambda reason: reason is not CancelReason.DISPOSED),
    then=st.none() | next_inputs | st.just(NextQueued()),
    error=st.none() | errors,
    message=texts,
    final=st.booleans(),
    forked=st.booleans(),
)


def failures(request: ModelOperation) -> SearchStrategy[Failure]:
    """What a stream that failed leaves to be recovered."""
    return st.builds(
        Failure,
        request=st.just(request),
        error=errors,
        message=texts,
        retry_after_ms=st.none() | st.sampled_from(WAITS_MS),
    )


def settled_by(reply: ModelOperation) -> SearchStrategy[Settled]:
    """What may be known to follow while the calls of a reply are not all answered."""
    after_truncation = st.builds(
        Ending, reason=end_reasons, natural=st.booleans(), gated=st.booleans(), error=st.none() | errors
    )
    again = st.builds(GoOn, st.sampled_from(RequestReason))
    return st.one_of(failures(reply), again, st.just(OUT_OF_BUDGET), after_truncation)
