"""What a scenario expects of a run. What is not given (None, or empty) is not judged, but for `open`."""

from collections.abc import Mapping
from typing import Annotated, final

from attrs import Factory, frozen

from loopkernel.data.words import RequestReason
from loopkernel.testing.scenarios.data.marks import (
    EndReason,
    EndStatus,
    ForcedTool,
    Group,
    InteractionLabel,
    Line,
    Lines,
    Mark,
    Name,
    Names,
    OutputLimit,
    Position,
    StateName,
    WrittenAs,
)
from loopkernel.testing.scenarios.data.world import JsonValue, Role


@final
@frozen(kw_only=True)
class ExpectedMoment:
    """What held right after the step that printed the `nth` line that matches `when`."""

    when: Line
    nth: Position = 1
    state: tuple[StateName, ...] = ()
    interaction: tuple[InteractionLabel, ...] = ()
    open: Names | None = None
    queue: int | None = None


@final
@frozen(kw_only=True)
class ExpectedThread:
    """The thread at the end. In `roles`, neighbours of one role count once."""

    roles: tuple[Role, ...] | None = None
    messages: int | None = None
    contains: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()


@final
@frozen(kw_only=True)
class ExpectedRequest:
    """One request. `tools` is all that is offered; `results` all calls answered in it, in order.

    `max_output_tokens` and `forced_tool` are "none" where the request must have none.
    """

    why: RequestReason | None = None
    roles: tuple[Role, ...] | None = None
    messages: int | None = None
    results: Names | None = None
    contains: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    tools: Annotated[frozenset[str], Mark.NONE] | None = None
    lacks_tools: tuple[str, ...] = ()
    max_output_tokens: OutputLimit | None = None
    model: str | None = None
    forced_tool: ForcedTool | None = None


@final
@frozen(kw_only=True)
class ExpectedResult:
    """How one call was answered. `reason` is its cancel reason, `runs` how often its tool started."""

    status: Annotated[EndStatus | None, Mark.ALONE] = None
    reason: str | None = None
    contains: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    ran: bool | None = None
    runs: int | None = None


@final
@frozen(kw_only=True)
class ExpectedUsage:
    """Token totals of the run."""

    input: int | None = None
    output: int | None = None


@final
@frozen(kw_only=True)
class ExpectedTime:
    """Bounds, both included, for the virtual time of the last trace line."""

    min_ms: Annotated[int | None, WrittenAs("min")] = None
    max_ms: Annotated[int | None, WrittenAs("max")] = None


@final
@frozen(kw_only=True)
class Expectations:
    """All of `expect`. `state`, `interaction` and `reason` list what may be at the end; empty: anything."""

    trace: Lines = ()
    counts: Mapping[Line, int] = Factory(dict)
    never: Lines = ()
    after: Mapping[Line, Lines] = Factory(dict)
    together: tuple[Group, ...] = ()
    apart: tuple[Group, ...] = ()
    inputs: Mapping[Name, JsonValue] = Factory(dict)
    at: tuple[ExpectedMoment, ...] = ()
    requests: int | None = None
    request: Mapping[Position, ExpectedRequest] = Factory(dict)
    results: Mapping[Name, ExpectedResult] = Factory(dict)
    thread: ExpectedThread | None = None
    state: tuple[StateName, ...] = ()
    interaction: tuple[InteractionLabel, ...] = ()
    reason: tuple[EndReason, ...] = ()
    usage: ExpectedUsage | None = None
    queue: int | None = None
    open: Names = ()
    elapsed_ms: ExpectedTime | None = None
