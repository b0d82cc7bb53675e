"""What runs that are played by hand are made of: a few tools, calls of them, and an adapter's verdicts on those."""

from typing import final

from attrs import frozen

from loopkernel.data.blocks import RawInput
from loopkernel.data.choices import NoProfileApproval
from loopkernel.data.effects import CheckCall
from loopkernel.data.json_text import Json
from loopkernel.data.policy import Policy
from loopkernel.data.tools import (
    AccessMode,
    Claim,
    Decision,
    EffectClass,
    FieldResource,
    InvalidCall,
    Tool,
    ToolProfile,
    UnknownTool,
    ValidCall,
    Verdict,
)
from loopkernel.data.usage import Usage

READS_PATH = (FieldResource("path", AccessMode.READ),)
WRITES_PATH = (FieldResource("path", AccessMode.WRITE),)

READ = Tool(name="read", profile=ToolProfile(effect=EffectClass.READ_ONLY, resources=READS_PATH))
WRITE = Tool(name="write", profile=ToolProfile(effect=EffectClass.IDEMPOTENT, resources=WRITES_PATH))
GLANCE = Tool(name="glance", profile=ToolProfile(effect=EffectClass.READ_ONLY, resources=READS_PATH, early=True))
NOTE = Tool(name="note", profile=ToolProfile(effect=EffectClass.IDEMPOTENT, resources=WRITES_PATH, early=True))
EAGER = Tool(name="eager", profile=ToolProfile(resources=WRITES_PATH, early=True))
SHELL = Tool(name="shell", profile=ToolProfile(approval=Decision.ASK, resources=WRITES_PATH))
ASKS = Tool(name="asks", profile=ToolProfile(approval=Decision.ASK))
DENIED = Tool(name="erase", profile=ToolProfile(approval=Decision.DENY))
ALONE = Tool(name="alone", profile=ToolProfile(effect=EffectClass.READ_ONLY, serial=True))
SUB = Tool(name="sub", profile=ToolProfile(effect=EffectClass.READ_ONLY, child=True))
BARE = Tool(name="bare")
TOOLS = (READ, WRITE, GLANCE, NOTE, EAGER, SHELL, ASKS, DENIED, ALONE, SUB, BARE)
POLICY = Policy(no_profile_approval=NoProfileApproval.ALLOW)
USAGE = Usage(input=10, output=2)


@final
@frozen
class Call:
    """A call to make: a tool, its input, and the ids of the calls that it declares to depend on."""

    tool: str
    input: Json | RawInput
    after: tuple[str, ...] = ()


def path_of(path: str) -> Json:
    """The input that names the path."""
    return Json.of({"path": path})


def read(path: str, after: tuple[str, ...] = ()) -> Call:
    """A call of the tool that reads."""
    return Call("read", path_of(path), after)


def write(path: str, after: tuple[str, ...] = ()) -> Call:
    """A call of the tool that writes."""
    return Call("write", path_of(path), after)


def shell(path: str) -> Call:
    """A call, dangerous and about a path, that a person is asked about."""
    return Call("shell", path_of(path))


def write_to_result(of: str) -> Call:
    """A call of the tool that writes, to the path that another call tells."""
    return Call("write", Json.of({"path": {"$result": of}}))


NOTHING = Json.of({})
BARE_CALL = Call("bare", NOTHING)
SUB_CALL = Call("sub", Json.of({"prompt": "look"}))
ALONE_CALL = Call("alone", NOTHING)
TO_ASK = Call("asks", NOTHING)
TO_DENY = Call("erase", NOTHING)
INVALID = Call("read", NOTHING)
UNPARSED = Call("read", RawInput('{"pa'))
UNKNOWN = Call("nothing", NOTHING)


def verdict_on(check: CheckCall) -> Verdict:
    """What an adapter finds: the tools of this file, and a path where one is needed."""
    tool = next((tool for tool in TOOLS if tool.name == check.tool), None)
    if tool is None:
        return UnknownTool()
    given = check.input.value()
    claims: list[Claim] = []
    for rule in tool.profile.resources if tool.profile is not None else ():
        if isinstance(rule, FieldResource):
            path = given.get(rule.field) if isinstance(given, dict) else None
            if isinstance(path, dict):
                return ValidCall(None)  # a reference: what it names is not known yet
            if not isinstance(path, str):
                return InvalidCall(f"{rule.field} is missing")
            claims.append(Claim(path, rule.mode))
    return ValidCall(tuple(claims))
