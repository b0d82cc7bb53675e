"""What is under way in a run, as spans that have begun and not ended; and how a step adds to it.

A `Tracing` is a value, and the accumulator of the fold; a `Telling` is one step of it, which nobody else sees.
"""

import enum
from collections.abc import Mapping
from typing import TypeAlias, final

from attrs import Factory, evolve, frozen
from loopkernel.data.ids import CallId, MessageId
from loopkernel.data.messages import AssistantMessage, UserMessage
from loopkernel.data.usage import NO_USAGE, Usage

from loopkernel_adapters.telemetry import conventions as named
from loopkernel_adapters.telemetry.content import messages_as_json
from loopkernel_adapters.telemetry.conventions import LinkReason, Metric, Operation
from loopkernel_adapters.telemetry.facts import (
    About,
    Attributes,
    AttributeValue,
    Begun,
    Ended,
    Fact,
    Happened,
    Link,
    Measured,
    SpanKey,
)


class Kind(enum.Enum):
    """What a span stands for."""

    TURN = "turn"
    CHAT = "chat"
    TOOL = "tool"
    BACKGROUND = "background"
    WAIT = "wait"
    SUMMARY = "summary"
    HANDOFF = "handoff"


# A thing under way: a turn by its number, a wait by its call, all else by its operation.
Slot: TypeAlias = tuple[Kind, int | CallId]


@final
@frozen(kw_only=True)
class OpenSpan:
    """A span that has not ended: what was told of its beginning, and what has been learnt since.

    `within` is what it lies in. `usage` is that of its replies; of a turn, that of the session when it began.
    """

    begun: Begun
    within: Slot | None
    learnt: Attributes = Factory(dict)
    usage: Usage = NO_USAGE
    messages: Mapping[MessageId, UserMessage | AssistantMessage] = Factory(dict)


@final
@frozen(kw_only=True)
class Tracing:
    """A run so far: `open` is what is under way at `now_ms`, the latest time of the log.

    `identity` is the session and the nonce of its log; `spans` and `turns` count what has begun. `parents` are the
    spans that the run's turns are children of, each with the time from which on it is: the calls that started a
    sub-agent. `before` is the turn that the next one follows, and how. `asked`: since when people are waited
    for, also where processes ended meanwhile.
    """

    about: About = About()
    parents: tuple[tuple[int, SpanKey], ...] = ()
    session_id: str = ""
    identity: str = ""
    now_ms: int = 0
    spans: int = 0
    turns: int = 0
    open: Mapping[Slot, OpenSpan] = Factory(dict)
    before: Link | None = None
    asked: Mapping[Slot, int] = Factory(dict)


class Telling:
    """One step: begins and ends spans, and gathers what is to be told of that."""

    def __init__(self, tracing: Tracing, now_ms: int) -> None:
        self.before = tracing
        self.about = tracing.about
        self.now_ms = max(tracing.now_ms, now_ms)
        self.facts: list[Fact] = []
        self.open = dict(tracing.open)
        self.session_id = tracing.session_id
        self.identity = tracing.identity
        self.turns = tracing.turns
        self.previous = tracing.before
        self._asked = dict(tracing.asked)
        self.total = NO_USAGE  # of the session, when the next turn begins
        self._spans = tracing.spans

    def after(self) -> Tracing:
        """The run after this step."""
        return evolve(
            self.before,
            session_id=self.session_id,
            identity=self.identity,
            now_ms=self.now_ms,
            spans=self._spans,
            turns=self.turns,
            open=self.open,
            before=self.previous,
            asked=self._asked,
        )

    @property
    def turn(self) -> Slot | None:
        """The turn under way."""
        return next((slot for slot in self.open if slot[0] is Kind.TURN), None)

    def begin(
        self,
        slot: Slot,
        operation: Operation,
        subject: str | None,
        attributes: Attributes,
        *,
        within: Slot | None = None,
        parent: SpanKey | None = None,
        links: tuple[Link, ...] = (),
        child_session: str | None = None,
        usage: Usage = NO_USAGE,
    ) -> None:
        """A span begins: within what is under way here, below a `parent` elsewhere, or as the root of a tree."""
        self._spans += 1
        name = f"{self.identity}/{self._spans}"
        parent = parent if within is None else self.open[within].begun.key
        begun = Begun(
            key=SpanKey(name if parent is None else parent.trace, name),
            parent=parent,
            operation=operation,
            name=operation.value if subject is None else f"{operation.value} {subject}",
            at_ms=self.now_ms,
            attributes={
                named.OPERATION_NAME: operation.value,
                named.CONVERSATION_ID: self.session_id,
                **attributes,
            },
            links=links,
            child_session=child_session,
        )
        self.open[slot] = OpenSpan(begun=begun, within=within, usage=usage)
        if slot[0] is Kind.WAIT:
            self._asked.setdefault(slot, self.now_ms)
        self.facts.append(begun)

    def learn(self, slot: Slot, attributes: Attributes, usage: Usage = NO_USAGE) -> None:
        """What is told at its end of what is under way."""
        span = self.open[slot]
        self.open[slot] = evolve(span, learnt={**span.learnt, **attributes}, usage=span.usage.most(usage))

    def hear(self, message: UserMessage | AssistantMessage) -> None:
        """The turn has this message, or has it in these words now; kept where content is to be told."""
        if self.about.content and self.turn is not None:
            span = self.open[self.turn]
            self.open[self.turn] = evolve(span, messages={**span.messages, message.id: message})

    def happen(self, slot: Slot | None, name: str, attributes: Attributes) -> None:
        """Something happens within what is under way."""
        if slot is not None:
            self.facts.append(
                Happened(key=self.open[slot].begun.key, name=name, at_ms=self.now_ms, attributes=attributes)
            )

    def end(
        self, slot: Slot, attributes: Attributes | None = None, error: str | None = None, at_ms: int | None = None
    ) -> None:
        """It ends, and what lies within it ends with it, unheard of."""
        end_ms = self.now_ms if at_ms is None else at_ms
        for inner in [each for each, span in self.open.items() if span.within == slot]:
            if inner in self.open:
                self.end(inner, {named.UNFINISHED: True}, at_ms=at_ms)
        span = self.open.pop(slot)
        given = {**span.learnt, **_content_of(span), **(attributes or {})}
        self.facts.append(Ended(key=span.begun.key, at_ms=end_ms, attributes=given, error=error))
        if named.UNFINISHED not in given:  # where it ends is not known
            self._measure_end(slot, span, given, error, (end_ms - self._asked.pop(slot, span.begun.at_ms)) / 1000)

    def end_all(self, at_ms: int) -> None:
        """Nothing that is under way will be heard of again in this run, or in this part of it."""
        while self.open:
            outermost = next(slot for slot, span in self.open.items() if span.within not in self.open)
            self.end(outermost, {named.UNFINISHED: True}, at_ms=at_ms)

    def measure(self, metric: Metric, value: float, attributes: Attributes) -> None:
        """A measurement, with what all of this run have in common."""
        self.facts.append(Measured(metric=metric, value=value, attributes=attributes))

    # --- what the end of a span is measured by ---

    def _measure_end(
        self, slot: Slot, span: OpenSpan, attributes: Attributes, error: str | None, seconds: float
    ) -> None:
        about = {**span.begun.attributes, **attributes}
        common = {key: about[key] for key in _DIMENSIONS[slot[0]] if key in about}
        if error is not None:
            common[named.ERROR_TYPE] = error
        self.measure(_DURATIONS[slot[0]], seconds, common)
        if slot[0] in (Kind.CHAT, Kind.SUMMARY):
            self._measure_usage(span.usage, about, common)

    def _measure_usage(self, usage: Usage, about: Attributes, common: Mapping[str, AttributeValue]) -> None:
        common = {key: value for key, value in common.items() if key != named.ERROR_TYPE}
        read = usage.input + usage.cache_read + usage.cache_write
        for kind, tokens in ((named.TokenType.INPUT, read), (named.TokenType.OUTPUT, usage.output)):
            if tokens:
                self.measure(Metric.TOKEN_USAGE, tokens, {**common, named.TOKEN_TYPE: kind.value})
        cost = about.get(named.COST_USD)
        if isinstance(cost, float) and cost:
            self.measure(Metric.COST, cost, common)


_MODEL = (named.OPERATION_NAME, named.PROVIDER_NAME, named.REQUEST_MODEL, named.RESPONSE_MODEL)
_TOOL = (named.OPERATION_NAME, named.TOOL_NAME)
_DIMENSIONS: Mapping[Kind, tuple[str, ...]] = {
    Kind.TURN: (named.OPERATION_NAME, named.AGENT_NAME, named.TURN_END),
    Kind.CHAT: _MODEL,
    Kind.TOOL: _TOOL,
    Kind.BACKGROUND: (*_TOOL, named.BACKGROUND),
    Kind.WAIT: (named.TOOL_NAME, named.WAIT_KIND),
    Kind.SUMMARY: _MODEL,
    Kind.HANDOFF: _MODEL,
}
_DURATIONS: Mapping[Kind, Metric] = {
    Kind.TURN: Metric.TURN_DURATION,
    Kind.CHAT: Metric.OPERATION_DURATION,
    Kind.TOOL: Metric.TOOL_DURATION,
    Kind.BACKGROUND: Metric.TOOL_DURATION,
    Kind.WAIT: Metric.PERSON_WAIT,
    Kind.SUMMARY: Metric.OPERATION_DURATION,
    Kind.HANDOFF: Metric.OPERATION_DURATION,
}


def _content_of(span: OpenSpan) -> Attributes:
    asked = [message for message in span.messages.values() if isinstance(message, UserMessage)]
    replied = [message for message in span.messages.values() if isinstance(message, AssistantMessage)]
    parts = ((named.INPUT_MESSAGES, asked), (named.OUTPUT_MESSAGES, replied))
    return {name: messages_as_json(messages) for name, messages in parts if messages}


def link_to(span: OpenSpan, reason: LinkReason) -> Link:
    """The span, as another one names it."""
    return Link(span.begun.key, reason)
