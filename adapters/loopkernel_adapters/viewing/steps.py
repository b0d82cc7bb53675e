"""One step of a run as plain data: what came in, what went out and why, what has changed, and what waits for what."""

import re
from collections.abc import Iterator

import attrs
from attrs import define, field
from loopkernel.data import effects as commands
from loopkernel.data.blocks import MediaBlock, TextBlock
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import Effect
from loopkernel.data.events import Event
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.ledgers import Ledger
from loopkernel.data.model_deltas import ModelInput, ModelReasoning, ModelText
from loopkernel.data.outside_deltas import ChildAsks, ChildEnded, ChildProgress
from loopkernel.data.records import StepRecord
from loopkernel.data.steps import is_refused
from loopkernel.data.tool_deltas import ToolChecked, ToolDelta
from loopkernel.views.event_text import event_to_text
from loopkernel.views.explain import Explanation, explain
from loopkernel.views.waits import told

from loopkernel_adapters.viewing.plain import changes, plain
from loopkernel_adapters.viewing.shown import one_line

LONGEST_LINE = 200
LONGEST_FIELD = 60
MOST_WAITS = 40  # calls of a reply whose waits are told: telling them costs as much as there are calls
PIECES = (ModelText, ModelReasoning, ModelInput)  # of a reply that streams
_CAPITAL = re.compile(r"(?<!^)(?=[A-Z])")


@define
class Steps:
    """All steps of a run so far, with the sentences that many of them share: a rule, and what it asks for."""

    steps: list[JsonValue] = field(factory=list)
    rules: list[JsonValue] = field(factory=list)
    _places: dict[tuple[str, str], int] = field(factory=dict)
    _waits: list[str] = field(factory=list)
    _calls: dict[tuple[type[Effect], int], str] = field(factory=dict)  # what each check and run of a call is about

    def take(self, number: int, at_ms: int, step: StepRecord) -> None:
        """One step more, and its time."""
        explanation = explain(step.before, step.context)
        waits = self._waits
        if step.after is not step.before:
            self._waits = _waits_after(step, explanation)
        delta = step.context.delta
        shown: dict[str, JsonValue] = {
            "n": number,
            "at": at_ms,
            "phase": type(step.after).__name__,
            "delta": in_words(type(delta).__name__),
            "text": self._about(delta),
            "given": plain(delta),
            "effects": [self._effect(cause.effect, (cause.rule, cause.because)) for cause in explanation.causes],
            "changes": [*changes(step.before, step.after)],
        }
        if is_refused(step.effects):
            shown["refused"] = True
        if isinstance(delta, PIECES):
            shown["piece"] = True
        if self._waits != waits:
            shown["waits"] = [*self._waits]
        self.steps.append(shown)
        for effect in step.effects:
            if isinstance(effect, commands.CheckCall | commands.StartTool | commands.StartChild):
                kind = commands.CheckCall if isinstance(effect, commands.CheckCall) else commands.StartTool
                self._calls[kind, effect.operation] = f"call {effect.call}, {effect.tool}"

    def _about(self, delta: Delta) -> str:
        """What the delta is about; of a report about a call, which one."""
        call = None
        if isinstance(delta, ToolDelta | ChildProgress | ChildAsks | ChildEnded):
            kind = commands.CheckCall if isinstance(delta, ToolChecked) else commands.StartTool
            call = self._calls.get((kind, delta.operation))
        return about(delta) if call is None else one_line(", ".join([call, *_said(delta, "operation")]), LONGEST_LINE)

    def _effect(self, effect: Effect, rule: tuple[str, str]) -> JsonValue:
        if rule not in self._places:
            self._places[rule] = len(self.rules)
            self.rules.append([*rule])
        text = event_to_text(effect) if isinstance(effect, Event) else command_told(effect)
        place, is_event = self._places[rule], isinstance(effect, Event)
        return [in_words(type(effect).__name__), one_line(text, LONGEST_LINE), place, is_event]


def _waits_after(step: StepRecord, explanation: Explanation) -> list[str]:
    ledger = getattr(step.after, "ledger", None)  # which only some phases have
    if not isinstance(ledger, Ledger) or not ledger.unanswered:
        return []
    if len(ledger.entries) > MOST_WAITS:
        return [f"{ledger.unanswered} calls are open; what each waits for is told for at most {MOST_WAITS}"]
    return [one_line(told(wait), LONGEST_LINE) for wait in explanation.waits]


def in_words(name: str) -> str:
    """The name of a class as words."""
    return _CAPITAL.sub(" ", name).lower().capitalize()


def about(delta: Delta) -> str:
    """What the delta is about, in one line."""
    return one_line(", ".join(_said(delta)), LONGEST_LINE)


def command_told(command: commands.Command) -> str:
    """What is asked for, in one line."""
    return ", ".join(_said(command))


# What tells most about a delta or a command, in the order in which it is told.
_TELLING = (
    *("session_id", "operation", "call", "tool", "model", "reason", "purpose", "message", "text"),
    *("content", "input", "task", "goal", "question", "why", "stop", "error", "kind", "number"),
)


def _said(value: Delta | commands.Command, known: str = "") -> Iterator[str]:
    """What it tells by its fields, but for the one that is known."""
    given = attrs.asdict(value, recurse=False)
    for name in _TELLING:
        if name != known and name in given and given[name] not in (None, "", ()):
            yield from _field(name, given[name])


def _field(name: str, value: object) -> Iterator[str]:
    match value:
        case str() if name in ("text", "message", "task", "question", "why", "goal"):
            yield f'"{value}"'
        case str() | int():
            yield f"{name.replace('_', ' ')} {one_line(str(value), LONGEST_FIELD)}"
        case Json():
            yield value.text
        case tuple():
            yield from (f'"{part.text}"' for part in value if isinstance(part, TextBlock))
            yield from (part.media_type for part in value if isinstance(part, MediaBlock))
        case _ if (word := getattr(value, "value", None)) is not None:  # of an enum
            yield f"{name} {word}"
        case _:
            yield f"{name} {one_line(str(value), LONGEST_FIELD)}"
