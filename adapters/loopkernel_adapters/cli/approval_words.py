"""What an approval that is remembered is about, in words, secrets hidden; and so the rules of a policy."""

import json
import re

from loopkernel.data.events import ApprovalRemembered
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.policy import ApprovalRule, FieldPattern
from loopkernel.data.remembered import Remembered, RememberedCall, RememberedPattern, RememberedTool
from loopkernel.data.states import State
from loopkernel.data.user_deltas import RememberCall, RememberTool
from loopkernel.loop.algorithms.redaction import REDACTED, names_secret, redacted

from loopkernel_adapters.cli.screen import in_one_line

LONGEST = 300  # characters of an approval
_PLAIN = re.compile(r"(?!(true|false|null)$)[A-Za-z_./*][\w./*@:+-]*")


def approval_told(remembered: Remembered) -> str:
    """What it is about; secrets in it are hidden."""
    if isinstance(remembered, RememberedTool) or (isinstance(remembered, RememberedPattern) and not remembered.fields):
        return in_one_line(f"each call of {remembered.tool}", LONGEST)
    if isinstance(remembered, RememberedPattern):
        return in_one_line(f"{remembered.tool}{_patterns(remembered.fields)}", LONGEST)
    return in_one_line(f"{remembered.tool} {_exactly(remembered.input)}", LONGEST)


def _exactly(given: Json) -> str:
    value = redacted(given).value()
    if value == {}:
        return "without any input"
    if not isinstance(value, dict):
        return f"with {_written(value)} exactly"
    return f"with {', '.join(f'{_written(key)}={_written(part)}' for key, part in value.items())} exactly"


def _patterns(fields: tuple[FieldPattern, ...]) -> str:
    shown = [f"{_written(field)} like {_written(pattern)}" for field, pattern in patterns_shown(fields).items()]
    return f" with {' and '.join(shown)}" if shown else ""


def patterns_shown(fields: tuple[FieldPattern, ...]) -> dict[str, JsonValue]:
    """The patterns by their fields; what stands for a secret is hidden."""
    return {part.field: REDACTED if names_secret(part.field) else part.pattern for part in fields}


def _written(value: JsonValue) -> str:
    """A text as it is, where nothing in it could be taken for something else; else as JSON."""
    plain = isinstance(value, str) and (value == REDACTED or _PLAIN.fullmatch(value) is not None)
    return str(value) if plain else json.dumps(value, ensure_ascii=False)


def rule_told(rule: ApprovalRule) -> str:
    """What the rule is about."""
    return in_one_line(f"{rule.tool}{_patterns(rule.input)}", LONGEST)


def remembered_told(event: ApprovalRemembered, state: State) -> str:
    """What the event has made run unasked; `state` is the one that it led to."""
    number = number_of(event, state)
    if number is None or state.session is None:
        return f"what call {event.call} does"
    return approval_told(_distinct(state)[number - 1])


def number_of(event: ApprovalRemembered, state: State) -> int | None:
    """By which number it is listed; None where it has been taken back since."""
    kind = {RememberTool: RememberedTool, RememberCall: RememberedCall}.get(type(event.remembrance), RememberedPattern)
    numbers = [number for number, each in enumerate(_distinct(state), start=1) if isinstance(each, kind)]
    return numbers[-1] if numbers else None


def _distinct(state: State) -> tuple[Remembered, ...]:
    return () if state.session is None else tuple(dict.fromkeys(state.session.settings.remembered))
