"""A prompt that is too long: results are shortened, windows are cut again. And more of the preset `strands`."""

import pytest
from attrs import evolve
from loopkernel import Machine
from loopkernel.data.blocks import text_of
from loopkernel.data.choices import ClearMoment, CompactionMoment, CompactionStrategy, Lifetime, Redacts
from loopkernel.data.effects import CallModel, CheckCall, Command, StartTool
from loopkernel.data.events import CompactionEnded, Event, MessageReplaced, TurnEnded
from loopkernel.data.ids import ModelOperation
from loopkernel.data.json_text import Json
from loopkernel.data.messages import ResultMessage, UserMessage
from loopkernel.data.model_deltas import ModelCall, ModelCompleted, ModelDelta, ModelFailed, ModelText, Redaction
from loopkernel.data.policy import ClearResults, Compaction, Policy
from loopkernel.data.thread_deltas import Acquired, Created, Resumed
from loopkernel.data.tool_deltas import ToolSucceeded
from loopkernel.data.tools import Tool, ToolOutput, ToolProfile, ValidCall
from loopkernel.data.user_deltas import Say
from loopkernel.data.words import ErrorClass, RequestReason, StopReason, TurnEndReason
from loopkernel.presets.strands import STRANDS

PAGE = "a line of a page " * 40
SHORT = 60
WINDOW = Compaction(
    strategy=CompactionStrategy.WINDOW,
    trigger_ratio=None,
    keep_turns=None,
    keep_messages=4,
    when=CompactionMoment.TURN_END,
)


class Run:
    """A run of one prompt: each reply is given as it is asked for."""

    def __init__(self, policy: Policy, *tools: str, prompt: str = "read all", output: str = PAGE) -> None:
        self.machine, self.output = Machine(), output
        self.asked: list[CallModel] = []
        self.events: list[Event] = []
        self._deliver(
            Created(
                session_id="s",
                policy=policy,
                tools=tuple(Tool(name=name, profile=ToolProfile()) for name in ("read", *tools)),
            )
        )
        self._deliver(Acquired())
        self._deliver(Say(prompt))

    def _deliver(self, delta: ModelDelta | Created | Acquired | Resumed | Say | ToolSucceeded) -> None:
        self.events.extend(self.machine.deliver(delta, 0))
        for command in self.machine.commands():
            self._carry_out(command)

    def _carry_out(self, command: Command) -> None:
        if isinstance(command, CallModel):
            self.asked.append(command)
        elif isinstance(command, StartTool):
            self._deliver(ToolSucceeded(command.operation, ToolOutput(self.output)))
        else:
            assert not isinstance(command, CheckCall), "each call brings its verdict"

    @property
    def operation(self) -> ModelOperation:
        """The last request."""
        return self.asked[-1].operation

    def calls(self, tool: str = "read", stop: StopReason = StopReason.TOOL_USE) -> None:
        """The model calls a tool."""
        call = ModelCall(self.operation, provider_id="c", tool=tool, input=Json.of({}), verdict=ValidCall())
        self._deliver(call)
        self._deliver(ModelCompleted(self.operation, stop))

    def says(self, text: str, stop: StopReason = StopReason.END_TURN, redaction: Redaction | None = None) -> None:
        """The model says something, and stops."""
        self._deliver(ModelText(self.operation, text))
        self._deliver(ModelCompleted(self.operation, stop, redaction=redaction))

    def is_told(self, text: str) -> None:
        """The user says something more."""
        self._deliver(Say(text))

    def fails(self) -> None:
        """The prompt is too long."""
        self._deliver(ModelFailed(self.operation, error=ErrorClass.PROMPT_TOO_LONG))

    def resume(self, policy: Policy) -> None:
        """Another process goes on with the run, under this policy."""
        self._deliver(Resumed(policy=policy))

    @property
    def kinds(self) -> str:
        """The thread: `u` for words of the user or a note, `a` for a reply, `r` for results."""
        session = self.machine.state.session
        assert session is not None
        return "".join(
            "u" if isinstance(each, UserMessage) else "r" if isinstance(each, ResultMessage) else "a"
            for each in session.thread
        )

    @property
    def ended(self) -> TurnEndReason | None:
        """How the turn has ended."""
        return next((event.reason for event in self.events if isinstance(event, TurnEnded)), None)


def policy(compaction: Compaction = WINDOW) -> Policy:
    return Policy(lifetime=Lifetime.TASK, compaction=compaction, clear_results=None, loop=None, result_limit=None)


@pytest.mark.rule("INFER-8")
def test_the_oldest_results_are_shortened_first_and_the_next_message_is_not() -> None:
    run = Run(policy(evolve(WINDOW, shorten_results=SHORT)))
    run.calls()
    run.calls()
    run.fails()
    (told,) = [event.message for event in run.events if isinstance(event, MessageReplaced)]
    first, second = [message for message in run.asked[-1].request.thread if isinstance(message, ResultMessage)]
    assert told == first
    assert SHORT < len(text_of(first.results[0].content)) < 2 * SHORT + 50
    assert second.results[0].content == ToolOutput(PAGE).content
    run.fails()
    reasons = [command.request.reason for command in run.asked]
    assert reasons[3:] == [RequestReason.COLLAPSE_DRAIN_RETRY, RequestReason.REACTIVE_COMPACT_RETRY]


@pytest.mark.rule("INFER-8")
@pytest.mark.parametrize("kept", [0, 9, 18, 19, SHORT])
def test_a_result_that_was_cleared_is_not_shortened_and_so_not_cleared_again(kept: int) -> None:
    cleared = evolve(policy(evolve(WINDOW, shorten_results=kept)), clear_results=ClearResults(above=1, keep=1))
    run = Run(cleared)
    for _ in range(4):
        run.calls()
    for _ in range(12):
        if run.ended is None:
            run.fails()
    assert run.ended is TurnEndReason.ERROR


@pytest.mark.rule("INFER-8")
@pytest.mark.rule("COMPACT-5")
def test_a_window_is_cut_again_behind_a_cut_that_frees_less_than_its_note_takes() -> None:
    run = Run(policy(evolve(WINDOW, keep_messages=40)), output="a")
    run.calls()
    run.output = PAGE
    for _ in range(5):
        run.calls()
    while run.ended is None:
        run.fails()
    assert run.kinds == "uuar"


@pytest.mark.rule("INFER-8")
@pytest.mark.rule("COMPACT-2")
def test_a_window_that_is_not_full_is_cut_again_and_again_and_keeps_the_task() -> None:
    run = Run(policy(evolve(WINDOW, keep_messages=40)))
    for _ in range(3):
        run.calls()
    assert run.kinds == "uararar"
    run.fails()
    assert run.kinds == "uuarar"
    run.fails()
    assert run.kinds == "uuar"
    assert run.asked[-1].request.reason is RequestReason.REACTIVE_COMPACT_RETRY
    run.fails()
    assert (run.kinds, run.ended) == ("uuar", TurnEndReason.ERROR)


@pytest.mark.rule("COMPACT-1")
def test_a_window_of_the_end_of_a_turn_waits_for_it() -> None:
    run = Run(policy())
    for _ in range(4):
        run.calls()
    assert run.kinds == "uarararar"
    run.says("All read.")
    assert (run.kinds, run.ended) == ("uuara", TurnEndReason.MODEL_STOP)
    compacted = [isinstance(event, CompactionEnded) for event in run.events]
    assert compacted.index(True) < [isinstance(event, TurnEnded) for event in run.events].index(True)


@pytest.mark.rule("INFER-10")
def test_a_redaction_of_the_last_message_meets_the_results() -> None:
    for preset, kept in ((STRANDS, False), (policy(), True)):
        run = Run(preset)
        run.calls()
        run.says("No.", StopReason.GUARDRAIL_INTERVENED, Redaction(user_text="gone"))
        session = run.machine.state.session
        assert session is not None
        said, _, answers, _ = session.thread
        assert isinstance(said, UserMessage) and isinstance(answers, ResultMessage)
        assert (answers.results[0].content == ToolOutput(PAGE).content) is kept
        assert (said.content == ToolOutput("read all").content) is not kept


@pytest.mark.rule("INFER-10")
def test_a_redaction_behind_a_paused_reply_meets_the_results_before_it() -> None:
    run = Run(evolve(policy(), redacts=Redacts.LAST_MESSAGE, lifetime=Lifetime.SESSION))
    run.calls()
    run.says("wait", StopReason.PAUSE)
    run.says("no", StopReason.GUARDRAIL_INTERVENED, Redaction(user_text="[gone]", reply_text=None))
    (told,) = [event.message for event in run.events if isinstance(event, MessageReplaced)]
    assert isinstance(told, ResultMessage)
    assert text_of(told.results[0].content) == "[gone]"


@pytest.mark.rule("TOOL-11")
def test_a_result_that_a_redaction_gives_a_body_again_is_cleared_again() -> None:
    clearing = ClearResults(above=0, keep=0, when=ClearMoment.EACH_REQUEST)
    given = evolve(policy(), redacts=Redacts.LAST_MESSAGE, lifetime=Lifetime.SESSION, clear_results=clearing)
    run = Run(given)
    run.calls()
    (cleared,) = [message for message in run.asked[-1].request.thread if isinstance(message, ResultMessage)]
    run.says("no", StopReason.GUARDRAIL_INTERVENED, Redaction(user_text="[gone]"))
    *_, told = [event.message for event in run.events if isinstance(event, MessageReplaced)]
    assert isinstance(told, ResultMessage)
    assert text_of(told.results[0].content) == "[gone]"
    run.is_told("again")
    (again,) = [message for message in run.asked[-1].request.thread if isinstance(message, ResultMessage)]
    assert again.results[0].content == cleared.results[0].content != ToolOutput(PAGE).content


@pytest.mark.rule("INFER-8")
def test_where_there_is_no_result_none_is_shortened() -> None:
    run = Run(policy(evolve(WINDOW, shorten_results=SHORT)))
    run.fails()
    assert not any(isinstance(event, MessageReplaced) for event in run.events)
    assert run.ended is TurnEndReason.ERROR


@pytest.mark.rule("CALL-5")
def test_an_output_is_demanded_until_it_is_given_and_nothing_else_is_offered() -> None:
    run = Run(evolve(STRANDS, output_tool="answer", output_required=True), "answer")
    run.says("I think it is seven.")
    for _ in range(2):
        request = run.asked[-1].request
        assert (request.forced_tool, [tool.name for tool in request.tools]) == ("answer", ["answer"])
        run.calls("read")
    run.calls("answer")
    assert run.ended is TurnEndReason.OUTPUT


@pytest.mark.rule("INFER-5")
def test_calls_behind_a_stop_sequence_do_not_run_where_either_decides() -> None:
    run = Run(STRANDS)
    run.calls(stop=StopReason.STOP_SEQUENCE)
    assert (len(run.asked), run.ended) == (1, TurnEndReason.STOP_SEQUENCE)
    other = Run(STRANDS)
    other.calls(stop=StopReason.END_TURN)
    assert len(other.asked) == 2


@pytest.mark.rule("CALL-5")
def test_an_output_is_demanded_no_longer_than_a_policy_requires_one() -> None:
    run = Run(evolve(STRANDS, output_tool="answer", output_required=True), "answer")
    run.says("Well.")
    assert [tool.name for tool in run.asked[-1].request.tools] == ["answer"]
    run.resume(STRANDS)
    asked = run.asked[-1].request
    assert ([tool.name for tool in asked.tools], asked.forced_tool) == (["read", "answer"], None)
