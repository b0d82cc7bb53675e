"""A run played by hand: a player that keeps what is open outside, so that moves need no operation ids.

It goes on where a broken kernel does something else than was expected, and `settle` answers all that is open, within
a bound. Also here: a few tools, and the verdicts of an adapter that knows them.
"""

from collections.abc import Callable
from typing import final

from loopkernel.data.blocks import RawInput, TextBlock
from loopkernel.data.choices import NoProfileApproval
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import AbortModel, AbortTool, CallModel, CheckCall, StartTool
from loopkernel.data.foreign import ForeignMessage
from loopkernel.data.ids import (
    CallId,
    CheckOperation,
    ModelOperation,
    RunOperation,
)
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import (
    ModelCall,
    ModelCompleted,
    ModelFailed,
    ModelText,
)
from loopkernel.data.policy import Policy
from loopkernel.data.records import StepRecord
from loopkernel.data.states import Initial, State
from loopkernel.data.steps import Context
from loopkernel.data.thread_deltas import Acquired, Created
from loopkernel.data.tool_deltas import ToolChecked, ToolFailed, ToolSucceeded
from loopkernel.data.tools import (
    AccessMode,
    Claim,
    Decision,
    EffectClass,
    FieldResource,
    InvalidCall,
    Tool,
    ToolOutput,
    ToolProfile,
    UnknownTool,
    ValidCall,
    Verdict,
)
from loopkernel.data.usage import Usage
from loopkernel.data.user_deltas import (
    Say,
)
from loopkernel.data.words import ErrorClass, StopReason
from loopkernel.replay import Transition

MOST_ROUNDS = 20  # after which `settle` gives up: the laws say what is wrong

READ = Tool(
    name="read",
    profile=ToolProfile(effect=EffectClass.READ_ONLY, resources=(FieldResource("path", AccessMode.READ),)),
)
WRITE = Tool(
    name="write",
    profile=ToolProfile(effect=EffectClass.IDEMPOTENT, resources=(FieldResource("path", AccessMode.WRITE),)),
)
ASKS = Tool(name="shell", profile=ToolProfile(approval=Decision.ASK))
DENIED = Tool(name="erase", profile=ToolProfile(approval=Decision.DENY))
ALONE = Tool(name="alone", profile=ToolProfile(effect=EffectClass.READ_ONLY, serial=True))
BARE = Tool(name="bare")
TOOLS = (READ, WRITE, ALONE, ASKS, DENIED, BARE)
POLICY = Policy(no_profile_approval=NoProfileApproval.ALLOW)
USAGE = Usage(input=10, output=2)

Call = tuple[str, Json | RawInput]  # a tool, and its input


def read(path: str) -> Call:
    """A call of the tool that reads."""
    return "read", Json.of({"path": path})


def write(path: str) -> Call:
    """A call of the tool that writes."""
    return "write", Json.of({"path": path})


NOTHING = Json.of({})
BARE_CALL: Call = ("bare", NOTHING)
ALONE_CALL: Call = ("alone", NOTHING)
TO_ASK: Call = ("shell", NOTHING)
TO_DENY: Call = ("erase", NOTHING)
INVALID: Call = ("read", NOTHING)
UNPARSED: Call = ("read", RawInput('{"pa'))
UNKNOWN: Call = ("nothing", NOTHING)


@final
class Player:
    """Plays one run against a transition, and keeps its steps. Each move takes 10 ms."""

    def __init__(self, transition: Transition) -> None:
        self._transition = transition
        self.state: State = Initial()
        self.steps: list[StepRecord] = []
        self.now_ms = 0
        self.model: ModelOperation | None = None
        self.checks: dict[CheckOperation, CheckCall] = {}
        self.runs: dict[RunOperation, CallId] = {}

    def deliver(self, delta: Delta, *, earlier_ms: int = 0) -> None:
        """One delta. Where the kernel raises, nothing has happened: that is what law TOTAL is told by."""
        self.now_ms += 10
        context = Context(delta, self.now_ms - earlier_ms)
        try:
            after, effects = self._transition(self.state, context)
        except Exception:  # whatever it is: the laws judge the step
            after, effects = self.state, ()
        self.steps.append(StepRecord(self.state, context, after, effects))
        self.state = after
        for effect in effects:
            if isinstance(effect, CallModel):
                self.model = effect.operation
            elif isinstance(effect, AbortModel):
                self.model = None
            elif isinstance(effect, CheckCall):
                self.checks[effect.operation] = effect
            elif isinstance(effect, StartTool):
                self.runs[effect.operation] = effect.call
            elif isinstance(effect, AbortTool):
                self.runs.pop(effect.operation, None)

    def begin(
        self, policy: Policy = POLICY, tools: tuple[Tool, ...] = TOOLS, start: tuple[ForeignMessage, ...] = ()
    ) -> None:
        """A session with these settings, ready for the user; `start` is a conversation from elsewhere."""
        self.deliver(Created(session_id="s", policy=policy, tools=tools, instructions="be brief", start=start))
        self.deliver(Acquired())

    def say(self, text: str, key: str | None = None) -> None:
        """The user says something."""
        self.deliver(Say(content=(TextBlock(text),), key=key))

    def stream(self, *calls: Call, text: str = "") -> None:
        """The open model call says something and makes calls; it does not end."""
        if self.model is None:
            return
        if text:
            self.deliver(ModelText(self.model, text))
        for place, (tool, arguments) in enumerate(calls, 1):
            if self.model is not None:
                self.deliver(ModelCall(self.model, provider_id=f"p{place}", tool=tool, input=arguments))

    def complete(self, stop: StopReason = StopReason.END_TURN) -> None:
        """The open model call ends."""
        operation, self.model = self.model, None
        if operation is not None:
            self.deliver(ModelCompleted(operation, stop, USAGE))

    def reply(self, *calls: Call, text: str = "", stop: StopReason | None = None) -> None:
        """A whole reply, and the verdicts on its calls."""
        self.stream(*calls, text=text)
        self.complete(stop or (StopReason.TOOL_USE if calls else StopReason.END_TURN))
        self.check()

    def fail(self, error: ErrorClass = ErrorClass.SERVER) -> None:
        """The open model call fails."""
        operation, self.model = self.model, None
        if operation is not None:
            self.deliver(ModelFailed(operation, error=error, usage=USAGE))

    def check(self) -> None:
        """Every open check answers, in order."""
        while self.checks:
            operation = next(iter(self.checks))
            self.deliver(ToolChecked(operation, verdict_on(self.checks.pop(operation))))

    def end(self, place: int = 0, *, fails: bool = False) -> None:
        """The open run at this place reports its end; its output names its call."""
        if place >= len(self.runs):
            return
        operation = list(self.runs)[place]
        output = ToolOutput(content=(TextBlock(f"output of {self.runs.pop(operation)}"),))
        self.deliver(ToolFailed(operation, output) if fails else ToolSucceeded(operation, output))

    def settle(self) -> None:
        """All that is open ends: checks, runs, then the model with a word, until nothing is."""
        for _ in range(MOST_ROUNDS):
            self.check()
            while self.runs:
                self.end()
            if self.model is None:
                return
            self.reply(text="done")


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
            if not isinstance(path, str):
                return InvalidCall(f"{rule.field} is missing")
            claims.append(Claim(path, rule.mode))
    return ValidCall(tuple(claims))


Script = Callable[[Player], None]


def play(script: Script, transition: Transition) -> tuple[StepRecord, ...]:
    """The steps of the run that the script plays."""
    player = Player(transition)
    script(player)
    return tuple(player.steps)
