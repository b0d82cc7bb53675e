"""The scripted runs, played once on the real kernel; and any log that their deltas can make, however ill-timed."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from hypothesis import strategies as st
from loopkernel.data.deltas import Delta
from loopkernel.loop.transition import transition
from loopkernel.replaying import LogRecord, StepRecord
from loopkernel.testing.played.player import (
    play,
)

from tests.kernel.planted.runs import SCRIPTS

PLAYED: Mapping[str, tuple[StepRecord, ...]] = MappingProxyType(
    {name: play(script, transition) for name, script in SCRIPTS.items()}
)

_DELTAS: tuple[Delta, ...] = tuple(step.context.delta for steps in PLAYED.values() for step in steps)
_BEGIN: tuple[Delta, ...] = tuple(step.context.delta for step in PLAYED["reads"][:2])


def _timed(deltas: Sequence[Delta]) -> st.SearchStrategy[list[LogRecord]]:
    times = st.lists(st.integers(0, 100), min_size=len(deltas), max_size=len(deltas))
    return times.map(lambda chosen: [LogRecord(*pair) for pair in zip(deltas, chosen, strict=True)])


# Deltas of any run, in any order: most of them come at the wrong time. Half of the logs begin well.
logs: st.SearchStrategy[list[LogRecord]] = (
    st.tuples(st.sampled_from([(), _BEGIN]), st.lists(st.sampled_from(_DELTAS), max_size=25))
    .map(lambda parts: (*parts[0], *parts[1]))
    .flatmap(_timed)
)
