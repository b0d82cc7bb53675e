"""What a caller may give by mistake, to functions that anybody may call, is refused in words that say what is due."""

from collections.abc import Callable
from typing import Any

import pytest
from loopkernel import (
    CodecError,
    Context,
    DataError,
    Json,
    LogRecord,
    Machine,
    OtherRules,
    Tool,
    ToolProfile,
    Usage,
    accepted_inputs,
    check_pairs,
    check_trace,
    codec,
    event_to_text,
    explain,
    fold,
    fork,
    replay,
    states,
    waiting,
)
from loopkernel.data import json_text
from loopkernel.deltas import Acquired, ChangeTools, Created, Resumed, Say
from loopkernel.effects import AbortModel
from loopkernel.events import Refused
from loopkernel.judging import check_step
from loopkernel.tools import Decision

# Any, here and below: a wrong value is given on purpose.
LOG = [LogRecord(Created(session_id="s"), 0), LogRecord(Acquired(), 0)]
BYTES: Any = b"{}"
# A compiled kernel refuses arguments of another type by itself, before our code: "str object expected; got bytes".
IN_OUR_WORDS = pytest.mark.skipif(
    not str(json_text.__file__).endswith(".py"), reason="refused in words of the compiler"
)
A_STATE = "a state is due, as `machine.state` is one; what was given is "


@pytest.mark.parametrize("ask", [waiting, accepted_inputs, Machine, lambda given: explain(given, Context(Say("a"), 0))])
@pytest.mark.parametrize(
    ("given", "told"),
    [(Machine(), "of type Machine"), (LOG, "of type list"), (states.Initial, "the class Initial itself")],
)
def test_what_is_not_a_state_is_named(ask: Callable[[Any], object], given: object, told: str) -> None:
    with pytest.raises(TypeError) as refused:
        ask(given)
    assert str(refused.value) == A_STATE + told


@pytest.mark.parametrize(
    ("ask", "told"),
    [
        (lambda wrong: explain(states.Initial(), wrong), "a step takes a Context: Context(delta, now_ms)"),
        (event_to_text, "an event is due"),
        pytest.param(
            lambda wrong: fold([*LOG, wrong]),
            "record 3 must be a LogRecord: read texts with codec.record_from_text",
            marks=IN_OUR_WORDS,
        ),
        pytest.param(lambda wrong: replay([wrong]), "record 1 must be a LogRecord", marks=IN_OUR_WORDS),
        (check_step, "a step is judged as a StepRecord: give one of `fold(records)`"),
        (lambda wrong: check_trace([wrong]), "a run is judged by its steps: give `fold(records)`"),
        (lambda wrong: check_pairs([wrong]), "a run is judged by its steps"),
    ],
)
@pytest.mark.parametrize("wrong", ["{}", Say("a"), AbortModel])
def test_what_is_of_another_kind_is_refused_by_what_is_due(
    ask: Callable[[Any], object], told: str, wrong: object
) -> None:
    with pytest.raises(TypeError) as refused:
        ask(wrong)
    assert str(refused.value).startswith(told)
    assert "what was given is " in str(refused.value)


@IN_OUR_WORDS
@pytest.mark.parametrize("read", [Json.parse, Json, codec.record_from_text, codec.policy_from_text])
def test_what_is_not_a_text_is_not_read_as_one(read: Callable[[Any], object]) -> None:
    with pytest.raises(CodecError, match="is bytes and not a text: decode it first"):
        read(BYTES)
    with pytest.raises(CodecError, match=r"is of type dict and not a text: Json\.of takes values"):
        read({})


@pytest.mark.rule("RESUME-1")
@pytest.mark.parametrize("take", [fold, replay])
@pytest.mark.parametrize("start", [states.Initial(), None])
def test_a_log_of_other_rules_is_told_wherever_it_is_taken_from_its_beginning(
    take: Callable[..., object], start: states.Initial | None
) -> None:
    log = [LogRecord(Created(session_id="s", rules_version=3), 0), *LOG[1:]]
    with pytest.raises(OtherRules):
        take(log) if start is None else take(log, start)


@pytest.mark.rule("RESUME-1")
@pytest.mark.parametrize("take", [fold, replay])
def test_a_log_is_of_the_rules_that_it_was_begun_under(take: Callable[..., object]) -> None:
    """A second `Created` begins nothing, whatever it says: it is refused as any other."""
    assert take([*LOG, LogRecord(Created(session_id="s", rules_version=3), 0)])


@pytest.mark.rule("RESUME-6")
@pytest.mark.parametrize("session_id", ["", "s", "t"])
def test_a_fork_has_an_id_of_its_own(session_id: str) -> None:
    """Also one of a fork, which may not go by the id of the log that was left before either."""
    forked = fork(LOG, 2, "t", 0)
    with pytest.raises(ValueError, match=f'cannot fork as session "{session_id}": give the fork an id that no other'):
        fork(forked, 3, session_id, 0)
    assert fork(forked, 3, "u", 0)[:3] == forked


@pytest.mark.rule("ASK-1")
def test_two_tools_of_one_name_are_refused_since_the_first_would_decide_who_is_asked() -> None:
    careful, careless = Tool(name="pay", profile=ToolProfile(approval=Decision.ASK)), Tool(name="pay")
    for build in (lambda tools: Created(session_id="s", tools=tools), ChangeTools, lambda tools: Resumed(tools=tools)):
        assert build((careful, Tool(name="read"))).tools == (careful, Tool(name="read"))
        with pytest.raises(DataError, match=r'\.tools: holds two tools that are called "pay": rename one of them'):
            build((careful, Tool(name="read"), careless))
    written = codec.record_to_text(LogRecord(Created(session_id="s", tools=(careful, Tool(name="read"))), 0))
    with pytest.raises(CodecError, match=r'tools: holds two tools that are called "pay"'):
        codec.record_from_text(written.replace('"read"', '"pay"'))


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (lambda: Usage(output=-1), "Usage.output: must be at least 0, not -1"),
        (lambda: ToolProfile(timeout_ms=-5), "ToolProfile.timeout_ms: must be at least 0, not -5"),
    ],
)
def test_a_number_below_its_least_is_refused_by_its_name(build: Callable[[], object], told: str) -> None:
    with pytest.raises(DataError) as refused:
        build()
    assert told in str(refused.value)
    assert ToolProfile(timeout_ms=0).timeout_ms == 0
    assert ToolProfile().timeout_ms is None


@pytest.mark.rule("DELTA-2")
def test_an_input_that_was_refused_is_told_with_what_the_reason_means() -> None:
    (refused,) = Machine().deliver(Say("a"), 0)
    assert isinstance(refused, Refused)
    assert event_to_text(refused) == "say was refused: not-now (this state does not take it)"
