"""Law ASKED on approvals that were taken back, and are remembered all the same."""

import pytest
from attrs import evolve
from loopkernel.data.policy import FieldPattern
from loopkernel.data.records import LogRecord
from loopkernel.data.remembered import RememberedPattern, RememberedTool
from loopkernel.data.thread_deltas import Acquired
from loopkernel.data.user_deltas import Forget, Remember
from loopkernel.judging import check_trace
from loopkernel.replaying import START, fold

from tests.kernel.building import ALL_TOOLS, ASKING_NOBODY, created

PATH = RememberedPattern("asks", (FieldPattern("path", "a*"),))
TOOL = RememberedTool("asks")


@pytest.mark.rule("ASK-3")
def test_what_is_forgotten_but_for_the_word_is_a_breach() -> None:
    """The kernel says that all is taken back, and remembers it."""
    deltas = (created(ASKING_NOBODY, ALL_TOOLS), Acquired(), Remember(TOOL), Remember(PATH), Forget(PATH))
    *before, last = fold([LogRecord(delta, 0) for delta in deltas], START)
    assert check_trace([*before, last]).breaches == ()
    for kept in ((TOOL, PATH), ()):
        session = last.after.session
        assert session is not None
        wrong = evolve(last.after, session=evolve(session, settings=evolve(session.settings, remembered=kept)))
        breaches = check_trace([*before, evolve(last, after=wrong)]).breaches
        assert {breach.law for breach in breaches} == {"ASKED"}
