"""Scripted runs for judging laws: small, deterministic, and played against any transition, a broken one too.

A script is a function that plays a run move by move. The player keeps what is open outside (a model call,
checks, tool runs), so that a script names a move and not operation ids, and goes on where a broken kernel does
something else than the script expects. `settle` answers all that is open, within a bound.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import final

from attrs import evolve

from loopkernel.data.blocks import RawInput, TextBlock
from loopkernel.data.choices import EarlyStart, Lifetime, NoProfile, NoProfileApproval, RunCalls, Schedule
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import AbortModel, AbortTool, CallModel, CheckCall, StartTool
from loopkernel.data.ids import (
    CallId,
    CheckOperation,
    ModelOperation,
    QueueNumber,
    RunOperation,
    TimerOperation,
)
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import (
    ModelCall,
    ModelCompleted,
    ModelFailed,
    ModelOpaque,
    ModelReasoning,
    ModelStarted,
    ModelText,
    ModelUsage,
)
from loopkernel.data.outside_deltas import TimerFired
from loopkernel.data.policy import Policy
from loopkernel.data.records import StepRecord
from loopkernel.data.states import Initial, State
from loopkernel.data.steps import Context
from loopkernel.data.thread_deltas import Acquired, Created, Disposed, Resumed
from loopkernel.data.tool_deltas import ToolChecked, ToolFailed, ToolProgress, ToolStopped, ToolSucceeded
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
    CancelAll,
    CancelCall,
    ChangePolicy,
    Discard,
    DismissError,
    Enqueue,
    RetryNow,
    Say,
    Steer,
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
BARE = Tool(name="bare")
TOOLS = (READ, WRITE, ASKS, DENIED, BARE)
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

    def begin(self, policy: Policy = POLICY, tools: tuple[Tool, ...] = TOOLS) -> None:
        """A session with these settings, ready for the user."""
        self.deliver(Created(session_id="s", policy=policy, tools=tools, instructions="be brief"))
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


# --- the scripts --------------------------------------------------------------------------------------


def talk(player: Player) -> None:
    """Two turns of words alone, with a clock that goes back, a late report and a timer of nobody."""
    player.deliver(Acquired())
    player.begin()
    player.say("hello", key="k")
    player.say("hello", key="k")
    player.deliver(ModelStarted(ModelOperation(1), "m"))
    player.deliver(ModelReasoning(ModelOperation(1), "hm"))
    player.deliver(ModelUsage(ModelOperation(1), Usage(input=4)))
    player.reply(text="hi")
    player.deliver(ModelText(ModelOperation(1), "late"), earlier_ms=5)
    player.say("again")
    player.deliver(TimerFired(TimerOperation(1)))
    player.deliver(ModelText(ModelOperation(2), "y"), earlier_ms=50)
    player.reply(text="yes")
    player.settle()


def reads(player: Player) -> None:
    """Three calls at once, answered in another order than they were made; one answer comes twice."""
    player.begin()
    player.say("read three")
    player.reply(read("a"), read("b"), read("c"), text="reading")
    player.deliver(ToolProgress(RunOperation(1), "half"))
    player.end(2)
    player.end(1)
    player.deliver(ToolSucceeded(RunOperation(3)))
    player.end(0)
    player.reply(read("d"))
    player.settle()


def conflicts(player: Player) -> None:
    """Calls that must not overlap: of tools without a profile, and of writers of one file."""
    player.begin()
    player.say("one after the other")
    player.reply(BARE_CALL, BARE_CALL, read("a"))
    player.end()
    player.end()
    player.end()
    player.reply(write("a"), read("a/b"), read("c"), write("a"))
    player.settle()


def slots(player: Player) -> None:
    """More calls than slots."""
    player.begin(Policy(max_parallel=2, early_start=EarlyStart.NEVER))
    player.say("four")
    player.reply(read("a"), read("b"), read("c"), read("d"))
    player.end(1)
    player.settle()


def in_order(player: Player) -> None:
    """The serial schedule."""
    player.begin(Policy(schedule=Schedule.SERIAL, no_profile=NoProfile.NO_CONFLICT))
    player.say("two")
    player.reply(read("a"), read("b"))
    player.settle()


def failing(player: Player) -> None:
    """One of three runs fails while one is done and one still runs; then a reply fails, and is asked for again."""
    player.begin()
    player.say("try")
    player.reply(read("a"), read("b"), read("c"))
    player.end(0)
    player.end(0, fails=True)
    player.end(0)
    player.stream(text="I")
    player.fail()
    player.deliver(DismissError())
    player.deliver(RetryNow())
    player.fail(ErrorClass.AUTH)
    player.deliver(RetryNow())
    player.settle()


def forbidden(player: Player) -> None:
    """Calls that may not run: one to ask a person about, one denied, one invalid, one unknown."""
    player.begin()
    player.say("dare")
    player.reply(TO_ASK, TO_DENY, INVALID, UNPARSED, UNKNOWN, read("a"))
    player.settle()


def cancelled(player: Player) -> None:
    """Everything is cancelled, first amid calls, then amid a reply; queued input waits until the user goes on."""
    player.begin()
    player.say("go")
    player.reply(read("a"), write("b"), write("b"))
    player.deliver(Enqueue(content=(TextBlock("later"),)))
    player.deliver(CancelAll())
    player.deliver(ToolStopped(RunOperation(1)))
    player.deliver(ToolSucceeded(RunOperation(2)))
    player.deliver(CancelAll())
    player.say("go on")
    player.stream(read("a"), text="well")
    player.deliver(CancelAll())
    player.deliver(ModelCompleted(ModelOperation(2), StopReason.END_TURN, USAGE))
    player.deliver(RetryNow())
    player.settle()


def one_cancelled(player: Player) -> None:
    """One call of two is cancelled while it runs."""
    player.begin()
    player.say("go")
    player.reply(read("a"), read("b"))
    player.deliver(CancelCall(CallId(ModelOperation(1), 1)))
    player.deliver(CancelCall(CallId(ModelOperation(1), 1)))
    player.settle()
    player.say("next")
    player.settle()


def limited(player: Player) -> None:
    """The turn limit stops the loop after two replies."""
    player.begin(Policy(max_turns=2))
    player.say("on and on")
    for _ in range(3):
        player.reply(read("a"))
        player.end()
    player.settle()


def empty(player: Player) -> None:
    """A model that says nothing, and one that pauses without end."""
    player.begin()
    player.say("speak")
    for _ in range(3):
        player.reply()
    player.settle()
    player.say("pause")
    for _ in range(12):
        player.reply(text="...", stop=StopReason.PAUSE)
    player.settle()


def waiting(player: Player) -> None:
    """Input while the loop is busy: queued, steered, discarded; the queue goes on by itself after a natural end."""
    player.begin()
    player.say("first")
    for word in ("second", "third", "fourth"):
        player.deliver(Enqueue(content=(TextBlock(word),), key=word))
    player.deliver(Steer(content=(TextBlock("this way"),)))
    player.deliver(Discard(QueueNumber(2)))
    player.deliver(Discard(QueueNumber(2)))
    player.reply(read("a"))
    player.end()
    player.reply(text="one")
    player.deliver(Steer(content=(TextBlock("that way"),)))
    player.fail()
    player.deliver(Enqueue(content=(TextBlock("fifth"),)))
    player.settle()


def task(player: Player) -> None:
    """A task ends after its turn; what was queued is handed back, and nothing moves it any more."""
    player.begin(Policy(lifetime=Lifetime.TASK, run_calls=RunCalls.STOP_REASON))
    player.say("do it")
    player.deliver(Enqueue(content=(TextBlock("and then"),)))
    player.reply(read("a"), text="no", stop=StopReason.END_TURN)
    player.say("more")
    player.deliver(ModelUsage(ModelOperation(1), Usage(input=99)))
    player.settle()


def released(player: Player) -> None:
    """The session is let go amid a run and taken up again."""
    player.begin()
    player.say("go")
    player.reply(read("a"), read("b"))
    player.end()
    player.deliver(Disposed())
    player.say("anyone?")
    player.deliver(ToolSucceeded(RunOperation(2)))
    player.deliver(Resumed())
    player.say("again")
    player.settle()


def other_model(player: Player) -> None:
    """A model leaves an opaque block, and another one is asked next."""
    player.begin()
    player.say("think")
    if player.model is not None:
        player.deliver(ModelOpaque(player.model, Json.of({"signed": True})))
    player.reply(read("a"), text="so")
    player.end()
    player.deliver(ChangePolicy(evolve(POLICY, model="other")))
    player.reply(text="done")
    player.say("and you?")
    player.settle()


def unfinished(player: Player) -> None:
    """Replies that end neither by themselves nor with calls that run: refused, filtered, cut at the limit."""
    player.begin()
    for stop in (StopReason.REFUSAL, StopReason.CONTENT_FILTERED, StopReason.MAX_TOKENS):
        player.say("go")
        player.reply(read("a"), text="I", stop=stop)
    player.settle()


SCRIPTS: Mapping[str, Script] = MappingProxyType(
    {
        script.__name__: script
        for script in (
            talk,
            reads,
            conflicts,
            slots,
            in_order,
            failing,
            forbidden,
            cancelled,
            one_cancelled,
            limited,
            empty,
            waiting,
            task,
            released,
            other_model,
            unfinished,
        )
    }
)
