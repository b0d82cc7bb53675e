"""What a scenario expects of a run. What is not given (None, or empty) is not judged, but for `open`."""

from collections.abc import Mapping
from typing import Literal, final

from attrs import Factory, frozen

from loopkernel.data.words import CallStatus, RequestReason
from loopkernel.testing.scenarios.data.world import JsonValue, Role


@final
@frozen(kw_only=True)
class ExpectedMoment:
    """What held right after the step that printed the `nth` line that matches `when`."""

    when: str
    nth: int = 1
    state: tuple[str, ...] = ()
    interaction: tuple[str, ...] = ()
    open: tuple[str, ...] | None = None
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
    results: tuple[str, ...] | None = None
    contains: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    last: tuple[str, ...] = ()
    tools: frozenset[str] | None = None
    lacks_tools: tuple[str, ...] = ()
    max_output_tokens: int | Literal["none"] | None = None
    model: str | None = None
    forced_tool: str | None = None


@final
@frozen(kw_only=True)
class ExpectedResult:
    """How one call was answered. `reason` is its cancel reason, `runs` how often its tool started."""

    status: CallStatus | None = None
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

    min_ms: int | None = None
    max_ms: int | None = None


@final
@frozen(kw_only=True)
class Expectations:
    """All of `expect`. `state`, `interaction` and `reason` list what may be at the end; empty: anything."""

    trace: tuple[str, ...] = ()
    counts: Mapping[str, int] = Factory(dict)
    never: tuple[str, ...] = ()
    after: Mapping[str, tuple[str, ...]] = Factory(dict)
    together: tuple[tuple[str, ...], ...] = ()
    apart: tuple[tuple[str, ...], ...] = ()
    inputs: Mapping[str, JsonValue] = Factory(dict)
    at: tuple[ExpectedMoment, ...] = ()
    requests: int | None = None
    request: Mapping[int, ExpectedRequest] = Factory(dict)
    results: Mapping[str, ExpectedResult] = Factory(dict)
    thread: ExpectedThread | None = None
    state: tuple[str, ...] = ()
    interaction: tuple[str, ...] = ()
    reason: tuple[str, ...] = ()
    usage: ExpectedUsage | None = None
    queue: int | None = None
    open: tuple[str, ...] = ()
    elapsed_ms: ExpectedTime | None = None
