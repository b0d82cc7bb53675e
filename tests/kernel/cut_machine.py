"""A state machine of compactions, trims, clears, edits, restores and forks, in any order, that dice can drive too.

The threads have what makes a cut hard: replies that think and make several calls at once, results with pictures, calls
that nobody has answered when the cut comes, and conversations that begin as broken as they were found elsewhere.
"""

from collections.abc import Callable, Iterator
from typing import Any

from attrs import evolve
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule
from loopkernel.codec import state_from_text, state_to_text
from loopkernel.data.blocks import MediaBlock, TextBlock, UserBlock
from loopkernel.data.choices import ClearMoment, CompactionMoment, CompactionStrategy
from loopkernel.data.deltas import Delta
from loopkernel.data.events import ResultsCleared, ThreadCompacted, ThreadCut, ThreadRewritten
from loopkernel.data.foreign import (
    ForeignCall,
    ForeignMessage,
    ForeignReply,
    ForeignResult,
    ForeignResults,
    ForeignUser,
)
from loopkernel.data.ids import MessageId, ModelOperation, RunOperation
from loopkernel.data.json_text import Json
from loopkernel.data.messages import SENT_BY_USER, AssistantMessage, Message, ResultMessage, UserMessage
from loopkernel.data.model_deltas import (
    ModelCall,
    ModelCompleted,
    ModelFailed,
    ModelOpaque,
    ModelReasoning,
    ModelText,
)
from loopkernel.data.outside_deltas import SummaryFailed, SummaryReady
from loopkernel.data.policy import ClearResults, Compaction, Policy
from loopkernel.data.states import Backoff, Compacting, Initial, Streaming
from loopkernel.data.thread_deltas import Acquired, Created, Disposed, Forked, Resumed
from loopkernel.data.tool_deltas import ToolFailed, ToolLost, ToolStopped, ToolSucceeded
from loopkernel.data.tools import ToolOutput, ValidCall
from loopkernel.data.usage import Usage
from loopkernel.data.user_deltas import CancelAll, ChangePolicy, CompactNow, EditMessage, RetryNow, Say, Steer
from loopkernel.data.words import CallStatus, ErrorClass, StopReason
from loopkernel.laws.cut_law import badly_begun, unsafe_cuts
from loopkernel.laws.judging import judge_run
from loopkernel.laws.request_laws import rounds_of, unpaired
from loopkernel.laws.views import ledger_in
from loopkernel.loop.algorithms.compaction import plan_cut
from loopkernel.loop.algorithms.projection import project
from loopkernel.replaying import StepRecord
from loopkernel.testing.stateful.plays import Choose, drawing
from loopkernel.testing.stateful.steps import JudgedMachine
from typing_extensions import override

from tests.kernel.building import ASKING_NOBODY, TOOLS

Act = Callable[[Choose], None]
PICTURE = MediaBlock("image/png", "aaaa")
CONTENTS: tuple[tuple[UserBlock, ...], ...] = (
    (TextBlock("what now"),),
    (TextBlock("look"), PICTURE),
    (PICTURE,),
    (),
)
ASKED = ForeignReply(
    content=tuple(ForeignCall(provider_id=f"f{place}", tool="read", input=Json.of({})) for place in (1, 2)), model="m"
)
ANSWERED = ForeignResult(provider_id="f2", status=CallStatus.DONE, content=(PICTURE,))
SPOKEN = ForeignUser(content=(TextBlock("before"),))
# Nothing; calls of which one is answered; calls that the next message leaves open; an answer to nothing.
FOUND: tuple[tuple[ForeignMessage, ...], ...] = (
    (),
    (SPOKEN, ASKED, ForeignResults(results=(ANSWERED,)), SPOKEN),
    (SPOKEN, ASKED, SPOKEN, ASKED),
    (ForeignResults(results=(ANSWERED,)), ASKED),
)
KEPT: tuple[dict[str, Any], ...] = (  # Any: the options of a policy
    *({"keep_turns": turns} for turns in (1, 2, 4)),
    *({"keep_turns": None, "keep_messages": messages} for messages in (1, 2, 3, 6)),
    *({"keep_turns": None, "keep_ratio": ratio} for ratio in (0.0, 0.1, 0.5, 1.0)),
)
REWRITES = ThreadCompacted | ThreadRewritten | ThreadCut | ResultsCleared
MOSTLY = (True, True, True, False)
LATE = Usage(), Usage(input=9)  # what a reply is billed, which a compaction may wait for


def way_to_compact(choose: Choose) -> Compaction | None:
    """A way to make the thread smaller, which comes soon, late, or only when it is asked for."""
    if not choose((*MOSTLY, True, True)):
        return None
    strategy = choose(tuple(CompactionStrategy))
    summarises = strategy is CompactionStrategy.SUMMARISE
    return Compaction(
        strategy=strategy,
        trigger_ratio=None,
        trigger_tokens=choose((None, 1, 8, 30)),
        when=choose(tuple(when for when in CompactionMoment if not (summarises and when is CompactionMoment.TURN_END))),
        failures=2,
        cooldown_ms=5,
        **choose(KEPT),
    )


def way_to_clear(choose: Choose) -> ClearResults | None:
    """A way to clear results, if they are to be cleared."""
    if not choose(MOSTLY):
        return None
    return ClearResults(above=choose((0, 1, 3)), keep=choose((0, 1, 2)), when=choose(tuple(ClearMoment)))


def changed(policy: Policy, choose: Choose) -> Policy:
    """The policy with other such ways."""
    return evolve(policy, compaction=way_to_compact(choose), clear_results=way_to_clear(choose))


class CutMachine(JudgedMachine):
    """Turns of several calls, and whatever makes their thread another."""

    @override
    def deliver(self, delta: Delta) -> None:
        """Send a delta; no witness follows, since none knows conversations from elsewhere."""
        self.sound = False
        self.judge_step(self.take(delta))
        self.sound = True

    @override
    def judge_step(self, step: StepRecord) -> None:
        super().judge_step(step)
        wrong = [*map(str, judge_run("CUT-SAFE", [step], self.judged)), *badly_kept(step)]
        assert not wrong, "; ".join(wrong)

    @property
    def model(self) -> ModelOperation | None:
        """The reply that is awaited, or comes in."""
        return self.state.reply.operation if isinstance(self.state, Streaming) and self.state.after is None else None

    @property
    def runs(self) -> list[RunOperation]:
        """The runs of calls that have no answer."""
        ledger = ledger_in(self.state)
        entries = () if ledger is None else ledger.entries
        return [entry.operation for entry in entries if entry.has_run and entry.operation is not None]

    @property
    def sent(self) -> list[MessageId]:
        """The messages of the user, in the thread or taken out of it."""
        session = self.state.session
        if session is None:
            return []
        taken = [message for removal in session.compactions.removals for message in removal.messages]
        every = (*session.thread, *taken)
        return sorted(one.id for one in every if isinstance(one, UserMessage) and one.origin in SENT_BY_USER)

    @override
    @initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        """As Hypothesis chooses."""
        self.start(drawing(data))

    @rule(data=st.data())
    def go_on(self, data: st.DataObject) -> None:
        """As Hypothesis chooses."""
        self.act(drawing(data))

    def start(self, choose: Choose) -> None:
        """A session, which may go on from what was found elsewhere."""
        policy = changed(evolve(ASKING_NOBODY, loop=None, max_turns=None), choose)
        self.deliver(Created(session_id="s", policy=policy, tools=TOOLS, start=choose(FOUND)))
        self.deliver(Acquired())

    def act(self, choose: Choose) -> None:
        """Whatever may come now; what leads a turn on comes as often as all else together."""
        leads_on = list(self.turns())
        changes = list(self.changes())
        choose(leads_on if choose((True, False)) and leads_on else changes)(choose)

    def turns(self) -> Iterator[Act]:
        """What leads to turns, and on in one."""
        if isinstance(self.state, Initial):
            yield lambda choose: self.deliver(Acquired())
        elif isinstance(self.state, Compacting):
            yield self.summarise
        elif self.model is not None:
            yield self.reply
        elif self.runs:
            yield self.answer
        elif isinstance(self.state, Backoff):
            yield lambda choose: self.deliver(RetryNow())
        else:
            yield self.say

    def changes(self) -> Iterator[Act]:
        """What makes the thread another, or the turn."""
        yield from (self.say, self.change_ways, self.compact_now, self.restart, self.cut_short)
        if self.sent:
            yield from (self.edit, self.edit)
        if self.model is not None:
            yield self.find_it_too_long

    # --- turns ----------------------------------------------------------------------------------------------

    def say(self, choose: Choose) -> None:
        """The user says something, before a turn or within one."""
        content = choose(CONTENTS)
        self.deliver(Say(content=content) if choose(MOSTLY) else Steer(content=content))

    def reply(self, choose: Choose) -> None:
        """The model thinks, speaks and calls; or it is still about to."""
        operation = self.model
        if operation is None:
            return
        if choose(MOSTLY):
            self.deliver(ModelReasoning(operation, "well"))
            self.deliver(ModelOpaque(operation, Json.of({"signature": "x"})))
        self.deliver(ModelText(operation, "some words"))
        made = self.state.ledger.entries.size if isinstance(self.state, Streaming) else 0
        calls = choose((0, 1, 2, 3))
        for place in range(made + 1, made + calls + 1):
            given = Json.of({"place": f"{operation}.{place}"})
            verdict = ValidCall(())
            self.deliver(ModelCall(operation, provider_id=f"c{place}", tool="read", input=given, verdict=verdict))
        if choose(MOSTLY):
            stop = StopReason.TOOL_USE if made + calls else StopReason.END_TURN
            self.deliver(ModelCompleted(operation, stop, choose(LATE)))

    def answer(self, choose: Choose) -> None:
        """Some of the calls are answered, or all."""
        content: tuple[UserBlock, ...] = choose(((PICTURE,), (TextBlock("here it is"),)))
        output = ToolOutput(content)
        for run in self.runs[: choose((1, 9, 9))]:
            ends: tuple[Delta, ...] = (ToolSucceeded(run, output), ToolFailed(run, output), ToolLost(run))
            end: Delta = choose((ends[0], *ends))
            self.deliver(end)

    def find_it_too_long(self, choose: Choose) -> None:
        """The model cannot take in so much."""
        if self.model is not None:
            self.deliver(ModelFailed(self.model, error=ErrorClass.PROMPT_TOO_LONG))

    # --- what makes the thread another ----------------------------------------------------------------------

    def change_ways(self, choose: Choose) -> None:
        """It is to be smaller in another way."""
        session = self.state.session
        if session is not None:
            self.deliver(ChangePolicy(changed(session.settings.policy, choose)))

    def compact_now(self, choose: Choose) -> None:
        """It is to be smaller at once."""
        self.deliver(CompactNow())

    def summarise(self, choose: Choose) -> None:
        """The summary is there, or could not be made."""
        if isinstance(self.state, Compacting):
            operation = self.state.operation
            ready = choose(MOSTLY)
            self.deliver(SummaryReady(operation, "so far") if ready else SummaryFailed(operation, "no"))

    def edit(self, choose: Choose) -> None:
        """A message of the user is another, be it one that a cut took out."""
        self.deliver(EditMessage(message=choose(self.sent), content=choose(CONTENTS)))

    def cut_short(self, choose: Choose) -> None:
        """A lineage begins, everything stops, or the thread is let go, whatever is open."""
        cutting: tuple[Delta, ...] = (Forked(session_id="t"), CancelAll(), Disposed())
        self.deliver(choose(cutting))
        for held in () if self.state.session is None else self.state.session.held:
            self.deliver(ToolStopped(held.operation))

    def restart(self, choose: Choose) -> None:
        """The process dies; the next one reads the state that was written down, and goes on from it."""
        restored = state_from_text(state_to_text(self.state))
        assert restored == self.state
        self.state = restored
        self.deliver(Resumed())


def badly_kept(record: StepRecord) -> Iterator[str]:
    """What is wrong with the thread after a step, and with any cut that could be made of it."""
    session = record.after.session
    before = record.before.session
    if session is None or ledger_in(record.after) is not None or (before and before.thread is session.thread):
        return
    for calls, results in rounds_of(project(session.thread, "m")):
        yield from unpaired(calls, results)
    yield from parted(list(session.thread))
    if session.compactions.removals:
        yield from badly_begun(list(session.thread))
    if any(isinstance(effect, REWRITES) for effect in record.effects):
        yield from unsafe_cuts(session.thread.messages, plan_cut)


def parted(messages: list[Message]) -> Iterator[str]:
    """Each reply with calls is followed by the answers to them, in their order; no answer stands elsewhere."""
    for place, message in enumerate(messages):
        follows = messages[place + 1] if place + 1 < len(messages) else None
        given = [result.call for result in follows.results] if isinstance(follows, ResultMessage) else []
        made = [call.id for call in message.calls] if isinstance(message, AssistantMessage) else []
        if made != given:
            yield f"message {message.id} makes the calls {made}, and the answers after it are to {given}"
    if messages and isinstance(messages[0], ResultMessage):
        yield "answers come first"
