"""Tools as data: what is offered, what it touches, and the adapter's verdict on a call."""

import enum
from typing import Any, final

from attrs import Attribute
from attrs import field as attrs_field

from loopkernel.data.blocks import UserBlock, content_of
from loopkernel.data.checked_fields import at_least, checked_fields, refused
from loopkernel.data.errors import quoted
from loopkernel.data.json_text import Json
from loopkernel.data.value_classes import frozen


class EffectClass(enum.Enum):
    """What running a tool twice, or at all, may do to the world."""

    READ_ONLY = "read_only"
    IDEMPOTENT = "idempotent"
    DANGEROUS = "dangerous"

    def worst(self, other: "EffectClass | None") -> "EffectClass":
        """The one of the two that may do more."""
        if other is None or self is EffectClass.DANGEROUS or other is EffectClass.READ_ONLY:
            return self
        return other


class AccessMode(enum.Enum):
    """How a call uses a resource."""

    READ = "read"
    WRITE = "write"


class Decision(enum.Enum):
    """Whether a call may run."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


@final
@frozen(field_transformer=checked_fields)
class FieldResource:
    """The input field `field` names a resource, used in `mode`; with `tree` also all that lies within it."""

    field: str
    mode: AccessMode
    tree: bool = attrs_field(default=False, kw_only=True)


@final
@frozen(field_transformer=checked_fields)
class FixedResource:
    """Every call of the tool uses the resource `key`, in `mode`."""

    key: str
    mode: AccessMode


ResourceRule = FieldResource | FixedResource


@final
@frozen(kw_only=True, field_transformer=checked_fields)
class ToolProfile:
    """How a tool behaves (rule TOOL-1). `timeout_ms` overrides the policy's; None leaves it to the policy.

    `approval` counts where no rule and no mode of the policy says otherwise. It allows unless it is told to ask,
    whatever the effect: a dangerous tool whose calls a person shall see says `Decision.ASK`.

    `commands` are the input fields that hold a command for a shell. A tool that has some, or is `unbounded`, may reach
    more than its claims name (rule ASK-1).
    """

    effect: EffectClass = EffectClass.DANGEROUS
    serial: bool = False
    resources: tuple[ResourceRule, ...] = ()
    approval: Decision = Decision.ALLOW
    timeout_ms: int | None = attrs_field(default=None, validator=at_least(0))
    child: bool = False
    early: bool = False
    polling: bool = False
    commands: tuple[str, ...] = ()
    unbounded: bool = False


@final
@frozen(kw_only=True, field_transformer=checked_fields)
class Tool:
    """A tool that is offered to the model. Without a profile it counts as dangerous (rule TOOL-1)."""

    name: str
    description: str = ""
    input_schema: Json = Json(text="{}")
    profile: ToolProfile | None = None


def named_once(settings: object, attribute: "Attribute[Any]", tools: tuple[Tool, ...] | None) -> None:
    """A validator of tools that are offered together: each has a name of its own. Raises DataError.

    Of two tools of one name the first would decide whether a person is asked, and a provider refuses both.
    """
    seen = set[str]()
    for tool in tools or ():
        if tool.name in seen:
            raise refused(
                settings, attribute, f"holds two tools that are called {quoted(tool.name)}: rename one of them"
            )
        seen.add(tool.name)


@final
@frozen(field_transformer=checked_fields)
class Claim:
    """A resource that a call uses, by its canonical key. `a/b` lies within `a`.

    Rules of approval go by the rest as well: `also` are other names of the same resource, such as its absolute path;
    with `tree` the call uses all that lies within; with `ignores_case`, names that differ in case alone are one.
    """

    key: str
    mode: AccessMode
    tree: bool = attrs_field(default=False, kw_only=True)
    also: tuple[str, ...] = attrs_field(default=(), kw_only=True)
    ignores_case: bool = attrs_field(default=False, kw_only=True)


@final
@frozen(field_transformer=checked_fields)
class ValidCall:
    """The input is valid. `claims` is None when some resource of the call is not known."""

    claims: tuple[Claim, ...] | None = ()


@final
@frozen
class UnknownTool:
    """No such tool."""


@final
@frozen(field_transformer=checked_fields)
class InvalidCall:
    """The input does not fit the tool's schema; `why` is told to the model."""

    why: str


Verdict = ValidCall | UnknownTool | InvalidCall


@final
@frozen(field_transformer=checked_fields)
class ToolOutput:
    """What a tool returned. `final` and `stops_loop` are its own words about the loop (rule TOOL-13)."""

    content: tuple[UserBlock, ...] = attrs_field(default=(), converter=content_of)
    final: bool = attrs_field(default=False, kw_only=True)
    stops_loop: bool = attrs_field(default=False, kw_only=True)
    background: bool = attrs_field(default=False, kw_only=True)
