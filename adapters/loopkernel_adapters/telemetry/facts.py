"""What is told of a run: that a span began, that something happened in it, that it ended, and what was measured.

Plain data, which a log leads to and which an exporter gives to a tracer and a meter. No time in it is a clock's own.
"""

from collections.abc import Mapping
from typing import TypeAlias, final

from attrs import Factory, frozen

from loopkernel_adapters.telemetry.conventions import OTHER, LinkReason, Metric, Operation

AttributeValue: TypeAlias = str | bool | int | float | tuple[str, ...]
Attributes: TypeAlias = Mapping[str, AttributeValue]


@final
@frozen
class SpanKey:
    """The identity of a span: the same for each folding of the same log. `trace` is that of the root of its tree."""

    trace: str
    span: str


@final
@frozen
class Link:
    """Another span, and what it is to this one."""

    to: SpanKey
    reason: LinkReason


@final
@frozen(kw_only=True)
class Begun:
    """A span began; without a `parent` it is the root of a tree of its own.

    `child_session` is the session of the sub-agent that was started with it, whose spans are its children.
    """

    key: SpanKey
    parent: SpanKey | None
    operation: Operation
    name: str
    at_ms: int
    attributes: Attributes
    links: tuple[Link, ...] = ()
    child_session: str | None = None


@final
@frozen(kw_only=True)
class Happened:
    """Something happened within a span."""

    key: SpanKey
    name: str
    at_ms: int
    attributes: Attributes = Factory(dict)


@final
@frozen(kw_only=True)
class Ended:
    """A span ended; `error` says what kind of failure it was, None that it was none."""

    key: SpanKey
    at_ms: int
    attributes: Attributes = Factory(dict)
    error: str | None = None


@final
@frozen(kw_only=True)
class Measured:
    """A measurement."""

    metric: Metric
    value: float
    attributes: Attributes


Fact: TypeAlias = Begun | Happened | Ended | Measured


@final
@frozen(kw_only=True)
class About:
    """What the log does not say, and what is to be told beside times and counts.

    `provider_name` is the provider as the conventions name it (`anthropic`, `openai`). With `content`, messages and the
    inputs and results of tools are told too.
    """

    provider_name: str = OTHER
    agent_name: str | None = None
    content: bool = False
