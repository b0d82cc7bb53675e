"""The worlds that can be played from outside, each the smallest that shows what it is for."""

from loopkernel_adapters.conform.scenario import End, Life, Scenario
from loopkernel_adapters.conform.script import (
    BUSY,
    TOO_LONG,
    Called,
    Cut,
    Problem,
    Reply,
    Said,
    Stop,
    calling,
    limited,
    said,
)

_DONE = said("done")
_CANCELLED_THEN_GOES_ON = (Life(end=End.CANCELLED, within="a"), Life())
_KILLED_THEN_GOES_ON = (Life(end=End.KILLED, within="a"), Life())

SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        name="one-call",
        about="a call, and its answer",
        laws=("PAIR", "SHOWN", "RESULT", "TASK", "PROGRESS"),
        answers=(calling(Called(label="a")), _DONE),
    ),
    Scenario(
        name="rounds",
        about="three calls, one after the other",
        laws=("PREFIX", "PAIR", "ONE-END"),
        answers=(calling(Called(label="a")), calling(Called(label="b")), calling(Called(label="c")), _DONE),
    ),
    Scenario(
        name="parallel",
        about="three calls in one reply",
        laws=("PAIR", "ORDER", "ADDRESS"),
        answers=(calling(Called(label="a", sleeps_s=2), Called(label="b", sleeps_s=1), Called(label="c")), _DONE),
    ),
    Scenario(
        name="sibling",
        about="three calls in one reply, the first of which fails",
        laws=("SIBLING", "PAIR"),
        answers=(calling(Called(label="a", status=3), Called(label="b"), Called(label="c")), _DONE),
    ),
    Scenario(
        name="id-reused",
        about="a later call has the id of an earlier one",
        laws=("RESULT", "PAIR", "AT-MOST-ONCE"),
        answers=(calling(Called(label="a", id="call_same")), calling(Called(label="b", id="call_same")), _DONE),
    ),
    Scenario(
        name="id-twice",
        about="two calls of one reply have the same id",
        laws=("PAIR", "RESULT"),
        answers=(calling(Called(label="a", id="call_same"), Called(label="b", id="call_same")), _DONE),
    ),
    Scenario(
        name="unknown-tool",
        about="a call of a tool that is not offered, beside one that is",
        laws=("TOTAL", "PAIR", "SIBLING"),
        answers=(calling(Called(label="u", tool="nowhere_to_be_found", raw="{}"), Called(label="b")), _DONE),
    ),
    Scenario(
        name="bad-arguments",
        about="a call without the arguments that its tool needs",
        laws=("TOTAL", "PAIR"),
        answers=(calling(Called(label="u", raw='{"nothing":1}')), calling(Called(label="b")), _DONE),
    ),
    Scenario(
        name="unreadable-arguments",
        about="a whole call whose arguments are not JSON",
        laws=("TOTAL", "PAIR", "FINAL-ARGS"),
        answers=(calling(Called(label="u", raw='{"command": "echo')), calling(Called(label="b")), _DONE),
    ),
    Scenario(
        name="long-output",
        about="a command prints 300,000 characters",
        laws=("RESULT", "PAIR"),
        answers=(calling(Called(label="a", prints=300_000)), _DONE),
    ),
    Scenario(
        name="calls-with-natural-stop",
        about="a reply has a call and says that the turn is over",
        laws=("PAIR", "PROGRESS"),
        answers=(calling(Called(label="a"), stop=Stop.NATURAL), _DONE),
    ),
    Scenario(
        name="half-call-clean-end",
        about="the stream ends within the arguments of a call, as if all had been said",
        laws=("FINAL-ARGS", "PAIR", "PROGRESS"),
        answers=(calling(Called(label="a", half=True), cut=Cut.CLEAN), calling(Called(label="b")), _DONE),
    ),
    Scenario(
        name="whole-call-clean-end",
        about="the stream ends behind a whole call, before the end of the reply",
        laws=("FINAL-ARGS", "AT-MOST-ONCE", "PAIR"),
        answers=(calling(Called(label="a"), cut=Cut.CLEAN), calling(Called(label="b")), _DONE),
    ),
    Scenario(
        name="half-call-reset",
        about="the connection is reset within the arguments of a call",
        laws=("FINAL-ARGS", "PAIR", "PROGRESS"),
        answers=(calling(Called(label="a", half=True), cut=Cut.RESET), calling(Called(label="b")), _DONE),
    ),
    Scenario(
        name="half-call-silence",
        about="the stream falls silent within the arguments of a call",
        laws=("FINAL-ARGS", "PROGRESS"),
        answers=(calling(Called(label="a", half=True), cut=Cut.SILENCE), calling(Called(label="b")), _DONE),
        patience_s=360,  # many clients give up a silent stream after 300 s
        quick=False,
    ),
    Scenario(
        name="half-call-output-limit",
        about="the output limit is reached within the arguments of a call",
        laws=("FINAL-ARGS", "PAIR", "PROGRESS"),
        answers=(calling(Called(label="a", half=True), stop=Stop.OUTPUT_LIMIT), calling(Called(label="b")), _DONE),
    ),
    Scenario(
        name="text-output-limit",
        about="the output limit is reached within words",
        laws=("PROGRESS", "PREFIX"),
        answers=(said("to be contin", Stop.OUTPUT_LIMIT), _DONE),
    ),
    Scenario(
        name="text-clean-end",
        about="the stream ends within words, as if all had been said",
        laws=("PROGRESS", "TASK"),
        answers=(Reply(parts=(Said("to be contin"),), cut=Cut.CLEAN), _DONE),
    ),
    Scenario(
        name="empty-reply",
        about="a reply has nothing in it, after a call",
        laws=("PROGRESS", "PAIR"),
        answers=(calling(Called(label="a")), Reply(), _DONE),
    ),
    Scenario(
        name="retry-after-1",
        about="too many requests; the server asks to wait for a second",
        laws=("RETRY-LAW", "PREFIX"),
        answers=(calling(Called(label="a")), limited(1), _DONE),
    ),
    Scenario(
        name="retry-after-6",
        about="too many requests; the server asks to wait for six seconds",
        laws=("RETRY-LAW", "PREFIX"),
        answers=(calling(Called(label="a")), limited(6), _DONE),
    ),
    Scenario(
        name="overloaded",
        about="the server is overloaded, once",
        laws=("PREFIX", "PROGRESS"),
        answers=(calling(Called(label="a")), BUSY, _DONE),
    ),
    Scenario(
        name="refused",
        about="the server refuses the key, which no second try mends",
        laws=("RETRY-LAW", "PROGRESS"),
        answers=(Problem(status=401, kind="authentication_error", message="invalid key"),) * 3,
    ),
    Scenario(
        name="too-long",
        about="the prompt is too long, after a call",
        laws=("CUT-SAFE", "TASK", "PAIR", "PROGRESS"),
        answers=(calling(Called(label="a")), calling(Called(label="b")), TOO_LONG, _DONE),
    ),
    Scenario(
        name="second-prompt",
        about="a call; the session is gone on with by another process",
        laws=("CONSERVE", "PREFIX", "SHOWN"),
        answers=(calling(Called(label="a")), _DONE, calling(Called(label="b")), _DONE),
        lives=(Life(), Life()),
    ),
    Scenario(
        name="cancel-within-command",
        about="a person cancels while a command runs, and goes on",
        laws=("CANCEL-STOP", "SHOWN", "AT-MOST-ONCE", "CONSERVE"),
        answers=(calling(Called(label="a", held=True)), _DONE, _DONE, _DONE),
        lives=_CANCELLED_THEN_GOES_ON,
    ),
    Scenario(
        name="cancel-within-two",
        about="a person cancels while the first of two commands runs, and goes on",
        laws=("CANCEL-STOP", "PAIR", "AT-MOST-ONCE"),
        answers=(calling(Called(label="a", held=True), Called(label="b", held=True)), _DONE, _DONE, _DONE),
        lives=_CANCELLED_THEN_GOES_ON,
    ),
    Scenario(
        name="kill-within-command",
        about="the agent is killed while a command runs, and goes on",
        laws=("WRITE-AHEAD", "PAIR", "AT-MOST-ONCE", "CONSERVE"),
        answers=(calling(Called(label="a", held=True, sleeps_s=9)), _DONE, _DONE),
        lives=_KILLED_THEN_GOES_ON,
    ),
    Scenario(
        name="kill-after-command",
        about="the agent is killed within its second command, and goes on",
        laws=("WRITE-AHEAD", "PAIR", "AT-MOST-ONCE"),
        answers=(calling(Called(label="a")), calling(Called(label="b", held=True, sleeps_s=9)), _DONE, _DONE),
        lives=(Life(end=End.KILLED, within="b"), Life()),
    ),
)


def scenario_named(name: str) -> Scenario:
    """The scenario of that name. Raises KeyError."""
    return {each.name: each for each in SCENARIOS}[name]
