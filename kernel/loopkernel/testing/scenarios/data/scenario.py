"""A scenario as data: what the world does, and what the loop must then do.

The parts lie beside this file: `world` (tools, model, hooks, ...), `actions` (what the user does, and when) and
`expectations`. `format.document` reads them, `format.writer` writes them.
"""

from collections.abc import Mapping
from typing import Annotated, final

from attrs import Factory, field, frozen

from loopkernel.testing.scenarios.data.actions import TimedAction
from loopkernel.testing.scenarios.data.expectations import Expectations
from loopkernel.testing.scenarios.data.marks import Name, WrittenAs
from loopkernel.testing.scenarios.data.world import (
    ChildScript,
    CorrectionScript,
    HandoffScript,
    HookScript,
    JsonValue,
    ModelEntry,
    StartMessage,
    SummaryScript,
    ToolScript,
)


@final
@frozen(kw_only=True)
class PolicyChoice:
    """A preset by name, and the options that replace parts of it.

    The options are as the document has them, with every key name and value shape checked: words are text,
    `none` is None, a nested option is a dict of the keys that were given.
    """

    preset: str = "default"
    options: Mapping[str, JsonValue] = Factory(dict)


@final
@frozen(kw_only=True)
class Scenario:
    """One document of a scenario file. `source` and `line` say where it stands; they are not compared."""

    id: Annotated[str, WrittenAs("scenario")]
    about: str = ""
    rules: tuple[str, ...] = ()
    policy: PolicyChoice = Factory(PolicyChoice)
    tools: Mapping[str, ToolScript] = Factory(dict)
    model: tuple[ModelEntry, ...] = ()
    model_rest: ModelEntry | None = None
    user: tuple[TimedAction, ...] = ()
    hooks: tuple[HookScript, ...] = ()
    summaries: tuple[SummaryScript, ...] = ()
    corrections: tuple[CorrectionScript, ...] = ()
    handoffs: tuple[HandoffScript, ...] = ()
    children: Mapping[Name, ChildScript] = Factory(dict)
    start: tuple[StartMessage, ...] = ()
    expect: Expectations = Factory(Expectations)
    source: str = field(default="", eq=False)
    line: int = field(default=0, eq=False)
