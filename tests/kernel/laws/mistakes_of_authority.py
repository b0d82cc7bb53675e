"""Mistakes in who may run what, and in who may see it: approval, redaction, projection."""

from collections.abc import Callable

from loopkernel.data.blocks import OpaqueBlock, TextBlock
from loopkernel.data.choices import ApprovalMode
from loopkernel.data.json_text import Json
from loopkernel.data.tools import Decision
from loopkernel.loop.algorithms.wording import STOPPED_REPLY

from tests.kernel.laws import mistake_runs as runs
from tests.kernel.laws.mistakes import Function, Mistake, mistakes

ALLOW, ASK, DENY = Decision.ALLOW, Decision.ASK, Decision.DENY
Plant = Callable[[Function], Function]


def always(outcome: object) -> Plant:
    """The function gives this, whatever it is asked."""
    return lambda _: lambda *_given, **_named: outcome


def given(**instead: object) -> Plant:
    """The function is given something else."""
    return lambda right: lambda *given, **named: right(*given, **{**named, **instead})


def as_it_is(_: Function) -> Function:
    """The function gives back what it is given first."""
    return lambda first, *_rest: first


def second(_: Function) -> Function:
    """The function gives back what it is given second."""
    return lambda _first, second, *_rest: second


def without_last(right: Function) -> Function:
    """The last of what the function gives is missing."""
    return lambda *given: right(*given)[:-1]


def without_first(right: Function) -> Function:
    """The first of what the function gives is missing."""
    return lambda *given: right(*given)[1:]


def _denials_asked(right: Function) -> Function:
    return lambda *given, **named: ASK if right(*given, **named) is DENY else right(*given, **named)


def _nobody_asked_in_plan_mode(right: Function) -> Function:
    return lambda mode, *rest: ALLOW if mode is ApprovalMode.PLAN else right(mode, *rest)


def _denied_once_approved(right: Function) -> Function:
    return lambda *given, **named: DENY if named.get("approved") else right(*given, **named)


APPROVAL = mistakes(
    "approval",
    "algorithms",
    ("all is allowed", "approval.decide", always(ALLOW), runs.ruled, "ASKED"),
    ("all is asked about", "approval.decide", always(ASK), runs.ruled, "PARALLEL"),
    ("denials are asked about", "approval.decide", _denials_asked, runs.ruled, "PARALLEL"),
    ("a person's word is not heard", "approval.decide", given(approved=False), runs.in_modes, "PARALLEL"),
    ("a log in doubt is trusted", "approval.decide", given(doubted=False), runs.doubted, "ASKED"),
    ("what a call uses is not known", "approval.decide", given(claims=None), runs.ruled, "PARALLEL"),
    ("what a call uses is nothing", "approval.decide", given(claims=()), runs.ruled, "ASKED"),
    (
        "a mode changes nothing",
        "approval._by_mode",
        second,
        runs.in_modes,
        "PARALLEL",
    ),
    ("nobody is asked in plan mode", "approval._by_mode", _nobody_asked_in_plan_mode, runs.in_modes, "ASKED"),
    ("an input is any other", "approval.same_input", always(True), runs.remembered, "ASKED"),
    ("an input is no other", "approval.same_input", always(False), runs.remembered, "PARALLEL"),
    (
        "patterns are of beginnings",
        "patterns.glob_matches",
        lambda right: lambda pattern, text: right(f"{pattern}*", text),
        runs.named_alike,
        "ASKED",
    ),
    ("all is denied", "approval.decide", always(DENY), runs.ruled, "ASKED"),
    ("an edit is always denied", "approval.decide", _denied_once_approved, runs.edited_into, "ASKED"),
    ("nothing reaches anything", "reach.reaches", always(False), runs.ruled, "ASKED"),
    ("paths are as they are spelled", "reach.canonical", as_it_is, runs.ruled, "ASKED"),
    ("all lies within all", "reach.lies_within", always(True), runs.ruled, "ASKED"),
    (
        "a command is its beginning",
        "commands.command_matches",
        lambda _: lambda pattern, command: command.startswith(pattern.rstrip("*")),
        runs.commanded,
        "ASKED",
    ),
)


def _unparsed_shown(right: Function) -> Function:
    return lambda given: right(given) if isinstance(given, Json) else given


def _lists_passed_over(right: Function) -> Function:
    def redacted(value: Json) -> Json:
        parts, hidden = value.value(), right(value).value()
        if not isinstance(parts, dict) or not isinstance(hidden, dict):
            return value
        return Json.of({key: part if isinstance(part, list) else hidden[key] for key, part in parts.items()})

    return redacted


REDACTION = mistakes(
    "redaction",
    "algorithms.redaction",
    ("messages are shown as they are", "redacted_message", as_it_is, runs.telling, "MIRROR"),
    ("inputs are shown as they are", "redacted_call_input", as_it_is, runs.telling, "MIRROR"),
    ("values are shown as they are", "redacted", as_it_is, runs.asked_of_the_provider, "MIRROR"),
    ("lists are passed over", "redacted", _lists_passed_over, runs.telling, "MIRROR"),
    ("what does not parse is shown", "redacted_call_input", _unparsed_shown, runs.telling, "MIRROR"),
    ("no key is of a secret", "names_secret", always(False), runs.telling, "MIRROR"),
    ("every key is of a secret", "names_secret", always(True), runs.telling, "MIRROR"),
    (
        "keys have one spelling",
        "names_secret",
        lambda _: lambda key: key in ("token", "password", "cookie", "api_key"),
        runs.telling,
        "MIRROR",
    ),
    (
        "counts of tokens are hidden",
        "names_secret",
        lambda right: lambda key: right(key) or "token" in key,
        runs.telling,
        "MIRROR",
    ),
)


def _any_model(right: Function) -> Function:
    def content(blocks: tuple[object, ...], model: str) -> object:
        return right(blocks, next((one.model for one in blocks if isinstance(one, OpaqueBlock)), model))

    return content


def _stops_untold(right: Function) -> Function:
    def project(*thread: object) -> object:
        return tuple(message for message in right(*thread) if message.content[0] != TextBlock(STOPPED_REPLY))

    return project


PROJECTION = mistakes(
    "projection",
    "algorithms.projection",
    (
        "the last message is left out",
        "project",
        without_last,
        runs.spoken,
        "SHOWN",
    ),
    (
        "the first message is left out",
        "project",
        without_first,
        runs.spoken,
        "SHOWN",
    ),
    ("a stop is not told of", "project", _stops_untold, runs.spoken, "SHOWN"),
    ("a model reads the blocks of another", "_assistant_content", _any_model, runs.spoken_elsewhere, "SHOWN"),
    ("names of tools are as they come", "safe_tool_name", as_it_is, runs.spoken, "SHOWN"),
    ("blank words are sent", "_user_content", as_it_is, runs.spoken_elsewhere, "SHOWN"),
)

OF_AUTHORITY: tuple[Mistake, ...] = (*APPROVAL, *REDACTION, *PROJECTION)
