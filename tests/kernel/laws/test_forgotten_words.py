"""Law ASKED on approvals that were taken back: it knows by itself what each is about, and what has let a call start."""

import pytest
from attrs import evolve
from loopkernel.data.choices import ApprovalMode
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import StartTool
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.policy import FieldPattern
from loopkernel.data.records import LogRecord
from loopkernel.data.remembered import Remembered, RememberedCall, RememberedPattern, RememberedTool
from loopkernel.data.thread_deltas import Acquired
from loopkernel.data.user_deltas import ChangeMode, ChangeTools, Forget, Remember
from loopkernel.judging import check_trace
from loopkernel.laws.forgotten_words import ForgottenApprovals
from loopkernel.replaying import START, fold

from tests.kernel.building import ALL_TOOLS, ASKING_NOBODY, call_id, created, run

PATH = RememberedPattern("asks", (FieldPattern("path", "a*"),))
NUMBER = RememberedPattern("asks", (FieldPattern("count", "1*"),))
EXACT = RememberedCall("asks", Json.of({"path": "a", "count": 1}))
TOOL = RememberedTool("asks")


def could_start(given: JsonValue, *said: Delta, tool: str = "asks", approved: bool = False) -> bool:
    """Whether the law would blame a start of that call after these words."""
    deltas = (created(ASKING_NOBODY, ALL_TOOLS), Acquired(), *said)
    steps = fold([LogRecord(delta, 0) for delta in deltas], START)
    law = ForgottenApprovals(START)
    for step in steps:
        law.take(step)
    start = StartTool(operation=run(1), call=call_id(1), run=1, tool=tool, input=Json.of(given), key="k")
    return law.lets_start(start, steps[-1].after, (), approved=approved)


@pytest.mark.rule("ASK-3")
@pytest.mark.parametrize(
    ("approval", "given", "about"),
    [
        (PATH, {"path": "ab"}, True),
        (PATH, {"path": "b"}, False),
        (PATH, {"other": "a"}, False),
        (PATH, ["a"], False),
        (NUMBER, {"count": 12}, True),
        (NUMBER, {"count": 21}, False),
        (EXACT, {"count": 1, "path": "a"}, True),
        (EXACT, {"path": "a"}, False),
        (TOOL, None, True),
    ],
)
def test_what_an_approval_that_was_taken_back_is_about_starts_no_more(
    approval: Remembered, given: JsonValue, about: bool
) -> None:
    gone = (Remember(approval), Forget(approval))
    assert could_start(given, *gone) is about
    assert could_start(given, Remember(approval), Forget()) is about
    assert not could_start(given, Remember(approval))
    assert not could_start(given, *gone, Remember(approval))
    assert not could_start(given, *gone, Remember(TOOL))
    assert not could_start(given, *gone, ChangeMode(ApprovalMode.BYPASS))
    assert not could_start(given, *gone, approved=True)
    assert not could_start(given, *gone, tool="write")
    assert could_start(given, *gone, Forget(RememberedTool("read"))) is about  # which is refused, and says nothing


@pytest.mark.rule("ASK-3")
def test_a_tool_that_is_gone_has_no_profile_that_lets_it_start() -> None:
    assert could_start(None, Remember(TOOL), Forget(TOOL), ChangeTools(())) is False  # no profile: the policy allows it


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
