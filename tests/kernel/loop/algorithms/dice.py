"""What jitter is drawn from: one of each, and any."""

from hypothesis import strategies as st
from loopkernel.loop.algorithms.retry import Dice

DICE = Dice(seed=0, session_id="s1", lineage=0)
dices = st.builds(
    Dice,
    seed=st.integers(),
    session_id=st.sampled_from(("", "s1", "\ud800", "Å¿")) | st.text(max_size=9),
    lineage=st.integers(),
)
