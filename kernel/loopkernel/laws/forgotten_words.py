"""Of law ASKED: what a person has taken back lets nothing start any more (rule ASK-3).

Which approvals stand, and what each is about, is told here from what the person has said, by other means than those
by which the kernel decides.
"""

import re
from typing import final

from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.policy import FieldPattern
from loopkernel.data.records import StepRecord
from loopkernel.data.remembered import Remembered, RememberedCall, RememberedPattern, RememberedTool
from loopkernel.data.states import State
from loopkernel.data.thread_deltas import Created, Resumed
from loopkernel.data.tools import Claim, Decision, Tool
from loopkernel.data.user_deltas import Approve, Forget, Remember, RememberCall, RememberTool
from loopkernel.laws.approvals import decided
from loopkernel.laws.views import Start, calls_kept, entry_of_call, refuses, tool_named


@final
class ForgottenApprovals:
    """The approvals that the person has taken back, beside those that stand."""

    def __init__(self, start: State) -> None:
        self._standing: list[Remembered] = [] if start.session is None else list(start.session.settings.remembered)
        self._gone: list[Remembered] = []

    def take(self, record: StepRecord) -> None:
        """What stands after this step, as the person said it."""
        delta = record.context.delta
        if refuses(record):
            return
        if isinstance(delta, Created):
            self._standing = list(delta.remembered)
        elif isinstance(delta, Resumed) and (delta.doubted or delta.remembered is not None):
            self._gone.extend(each for each in self._standing if each not in (delta.remembered or ()))
            self._standing = list(delta.remembered or ())
        elif isinstance(delta, Remember):
            self._standing.append(delta.remembered)
        elif isinstance(delta, Approve):
            said = remembered_by(delta, record.before)
            self._standing.extend(() if said is None else (said,))
        elif isinstance(delta, Forget):
            gone = [each for each in self._standing if delta.remembered in (None, each)]
            self._standing = [each for each in self._standing if each not in gone]
            self._gone.extend(gone)

    def lets_start(self, start: Start, after: State, claims: tuple[Claim, ...] | None, *, approved: bool) -> bool:
        """Whether nothing but an approval that was taken back can have let this start, which uses that."""
        about = (start.tool, start.input.value())
        if after.session is None or not any(_is_about(gone, *about) for gone in self._gone):
            return False
        settings = after.session.settings
        tool = tool_named(settings, start.tool) or Tool(name=start.tool)
        policy, tools = settings.policy, settings.tools
        without = decided(policy, (), tool, start.input, approved=approved, claims=claims, tools=tools)
        return without is not Decision.ALLOW and not any(_is_about(each, *about) for each in self._standing)


def remembered_by(approval: Approve, before: State) -> Remembered | None:
    """What is to be remembered by this word of a person on a call."""
    entry, remember = entry_of_call(calls_kept(before), approval.call), approval.remember
    if entry is None or remember is None or not isinstance(entry.given, Json):
        return None
    if isinstance(remember, RememberTool):
        return RememberedTool(entry.tool)
    if isinstance(remember, RememberCall):
        return RememberedCall(entry.tool, entry.given)
    return RememberedPattern(entry.tool, remember.fields)


def _is_about(approval: Remembered, tool: str, given: JsonValue) -> bool:
    if approval.tool != tool:
        return False
    if isinstance(approval, RememberedPattern):
        return all(_fits(part, given) for part in approval.fields)
    return isinstance(approval, RememberedTool) or approval.input.value() == given


def _fits(part: FieldPattern, given: JsonValue) -> bool:
    if not isinstance(given, dict) or part.field not in given:
        return False
    found = given[part.field]
    text = found if isinstance(found, str) else Json.of(found).text
    return re.fullmatch(".*".join(map(re.escape, part.pattern.split("*"))), text, re.DOTALL) is not None
