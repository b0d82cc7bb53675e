"""Runs made for the page: a long one with calls that overlap, and texts of others that want to be more than texts."""

from loopkernel.data.blocks import TextBlock
from loopkernel.data.choices import NoProfile, NoProfileApproval, Schedule
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import CallModel, CheckCall, StartTool
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelCall, ModelCompleted, ModelReasoning, ModelText
from loopkernel.data.policy import Policy
from loopkernel.data.records import LogRecord
from loopkernel.data.thread_deltas import Acquired, Created
from loopkernel.data.tool_deltas import ToolChecked, ToolFailed, ToolProgress, ToolSucceeded
from loopkernel.data.tools import Tool, ToolOutput, ValidCall
from loopkernel.data.user_deltas import Say
from loopkernel.data.words import StopReason
from loopkernel.machine import Machine

BEGUN_MS = 1_760_000_000_000
CALLS = 3  # of each reply
PIECES = 20  # of each reply
TOOLS = ("read_file", "search", "shell")

HOSTILE = (
    "</script><script>globalThis.attacked = 1</script>",
    '"><img src=x onerror="globalThis.attacked = 2">',
    "<svg onload=globalThis.attacked=3><iframe srcdoc='<script>parent.attacked=4</script>'></iframe>",
    "javascript:globalThis.attacked=5",
    "[a link](javascript:globalThis.attacked=6) <a href='javascript:globalThis.attacked=7'>here</a>",
    "${globalThis.attacked = 8} {{constructor.constructor('globalThis.attacked=9')()}} <%= attacked %> $document",
    "<!--<script>--><style>*{display:none}</style><base href='https://example.invalid/'><meta http-equiv=refresh>",
    "__proto__ constructor toString hasOwnProperty",
    "user \u202egnp.exe\u202c \u2066\u2069 \u200f\u061c \u200b \ufeff \x1b[31m \x00 \x07 \x9b end",
    "]]></script><!-- \u2028\u2029 <plaintext>",
)


class Making:
    """A run that is driven by hand, with its log."""

    def __init__(self, policy: Policy, tools: tuple[str, ...] = TOOLS) -> None:
        self.machine = Machine()
        self.records: list[LogRecord] = []
        self.now_ms = BEGUN_MS
        offered = tuple(Tool(name=name, description="", input_schema=Json.of({"type": "object"})) for name in tools)
        self.send(Created(session_id="made", policy=policy, tools=offered), 0)
        self.send(Acquired(), 0)

    def send(self, delta: Delta, later_ms: int) -> None:
        self.now_ms += later_ms
        self.records.append(LogRecord(delta, self.now_ms))
        self.machine.deliver(delta, self.now_ms)

    def reply(self, texts: list[str], calls: list[tuple[str, Json]], thought: str = "") -> None:
        """What the model answers to the request that waits."""
        (request,) = (command for command in self.machine.commands() if isinstance(command, CallModel))
        if thought:
            self.send(ModelReasoning(request.operation, thought), 300)
        for text in texts:
            self.send(ModelText(request.operation, text), 40)
        for place, (tool, given) in enumerate(calls):
            self.send(ModelCall(request.operation, provider_id=f"c{place}", tool=tool, input=given), 30)
        stop = StopReason.TOOL_USE if calls else StopReason.END_TURN
        self.send(ModelCompleted(request.operation, stop), 50)

    def run_calls(self, outputs: list[str], fails: int | None = None) -> None:
        """The calls that wait are checked, run side by side, and end one after the other."""
        commands = self.machine.commands()
        for check in commands:
            if isinstance(check, CheckCall):
                self.send(ToolChecked(check.operation, ValidCall()), 1)
        runs = [command for command in (*commands, *self.machine.commands()) if isinstance(command, StartTool)]
        for place, run in enumerate(runs):
            self.send(ToolProgress(run.operation, outputs[place][:40]), 20)
            output = ToolOutput((TextBlock(outputs[place]),))
            ended = ToolFailed(run.operation, output) if place == fails else ToolSucceeded(run.operation, output)
            self.send(ended, 250 + 300 * place)


ALLOWED = Policy(
    no_profile=NoProfile.NO_CONFLICT,
    schedule=Schedule.ALL,
    max_parallel=None,
    no_profile_approval=NoProfileApproval.ALLOW,
    max_turns=None,
    loop=None,
)


def long_run(steps: int) -> list[LogRecord]:
    """A run of at least so many steps."""
    made = Making(ALLOWED)
    turn = 0
    while len(made.records) < steps:
        turn += 1
        made.send(Say(f"Task {turn}: look at part {turn} of the house and say what is wrong with it."), 4_000)
        for round_ in range(3):
            words = [f"Piece {piece} of what I say. " for piece in range(PIECES)]
            calls = [(tool, Json.of({"path": f"rooms/{turn}/{round_}/{tool}.txt"})) for tool in TOOLS[:CALLS]]
            made.reply(words, calls, thought="Which of them first?")
            outputs = [f"what {tool} found in part {turn}\n" * 12 for tool in TOOLS[:CALLS]]
            made.run_calls(outputs, fails=1 if turn % 7 == 0 and round_ == 1 else None)
        made.reply([f"Part {turn} is sound."], [])
    return made.records


def hostile_run() -> list[LogRecord]:
    """A run whose every text attacks the page: of the user, the model, its tools, its calls and their results."""
    made = Making(ALLOWED, tools=("<img-src=x>",))
    for text in HOSTILE:
        made.send(Say(text), 100)
        made.reply([text], [("<img-src=x>", Json.of({text: text, "__proto__": {"attacked": text}}))], thought=text)
        made.run_calls([text])
        made.reply([text], [])
    return made.records
