"""The words of the runs that are written by hand: tools, calls, replies."""

from attrs import evolve
from loopkernel.data.blocks import TextBlock
from loopkernel.data.deltas import Delta
from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelCall, ModelCompleted, ModelText
from loopkernel.data.policy import Policy
from loopkernel.data.thread_deltas import Acquired, Created
from loopkernel.data.tools import (
    AccessMode,
    Claim,
    EffectClass,
    FieldResource,
    Tool,
    ToolProfile,
    ValidCall,
)
from loopkernel.data.usage import Usage
from loopkernel.data.words import StopReason

HELLO = (TextBlock("hello"),)
TOOLS = (
    Tool(
        name="read",
        profile=ToolProfile(effect=EffectClass.READ_ONLY, resources=(FieldResource("path", AccessMode.READ),)),
    ),
    Tool(
        name="write",
        profile=ToolProfile(effect=EffectClass.IDEMPOTENT, resources=(FieldResource("path", AccessMode.WRITE),)),
    ),
    Tool(name="shell"),
)
READS = ValidCall((Claim("notes/a.txt", AccessMode.READ),))
WRITES = ValidCall((Claim("notes", AccessMode.WRITE),))

Log = tuple[Delta, ...]


def created(policy: Policy, *, early: bool = False) -> Log:
    """A session with three tools, acquired. Those with a profile may start `early`."""
    tools = tuple(
        tool if tool.profile is None else evolve(tool, profile=evolve(tool.profile, early=early)) for tool in TOOLS
    )
    return (Created(session_id="s1", policy=policy, tools=tools, instructions="Be brief."), Acquired())


def call(reply: int, tool: str = "read", path: str = "notes/a.txt", verdict: ValidCall | None = None) -> ModelCall:
    """A complete call of a reply."""
    call_input = Json.of({"path": path})
    return ModelCall(ModelOperation(reply), provider_id=f"c{path}", tool=tool, input=call_input, verdict=verdict)


def text(reply: int) -> ModelText:
    """A piece of a reply."""
    return ModelText(ModelOperation(reply), "It says \u00fc and \u2026")


def completed(reply: int, stop: StopReason = StopReason.END_TURN) -> ModelCompleted:
    """The end of a reply."""
    return ModelCompleted(ModelOperation(reply), stop, Usage(input=7, output=reply))


def running(reply: int) -> Log:
    """A reply with one call, whose tool has started."""
    return (call(reply, verdict=READS), completed(reply, StopReason.TOOL_USE))
