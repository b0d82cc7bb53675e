"""The judges: each looks at what was seen of an agent, and says what held and what did not.

They trust nothing that the agent says of itself: requests are judged by what the model was sent, runs by the effects.
"""

from collections.abc import Iterator

from loopkernel_adapters.conform.judges.endings import ENDING_JUDGES
from loopkernel_adapters.conform.judges.failures import FAILURE_JUDGES
from loopkernel_adapters.conform.judges.history import HISTORY_JUDGES
from loopkernel_adapters.conform.judges.judgement import Judgement
from loopkernel_adapters.conform.judges.runs import RUN_JUDGES
from loopkernel_adapters.conform.record import Record

JUDGES = (*HISTORY_JUDGES, *RUN_JUDGES, *FAILURE_JUDGES, *ENDING_JUDGES)


def judged(record: Record) -> Iterator[Judgement]:
    """All that the judges say of it."""
    for judge in JUDGES:
        yield from judge(record)
