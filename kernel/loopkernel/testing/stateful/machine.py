"""A Hypothesis state machine over the kernel: every rule sends one delta, well-timed or not, in any state."""

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from loopkernel.data.blocks import UserBlock
from loopkernel.data.deltas import Delta
from loopkernel.data.ids import (
    OperationKind,
    QueueNumber,
    TimerOperation,
)
from loopkernel.data.outside_deltas import TimerFired
from loopkernel.data.states import Backoff, Cancelled, Confirming, Dispatching, Executing, Idle, Initial, Streaming
from loopkernel.data.thread_deltas import Acquired, Disposed, Forked, Resumed
from loopkernel.data.user_deltas import (
    CancelAll,
    CancelCall,
    Discard,
    DismissError,
    EditMessage,
    Enqueue,
    Forget,
    RetryNow,
    Say,
    Steer,
    UserDelta,
)
from loopkernel.data.words import NATURAL_ENDS
from loopkernel.testing.stateful.plays import PlayRules
from loopkernel.testing.strategies.conversation import contents
from loopkernel.testing.strategies.deltas import (
    deltas,
    settings_deltas,
    thread_deltas,
    user_deltas,
)
from loopkernel.testing.strategies.values import KEYS, queue_numbers, times_ms
from loopkernel.testing.witness_calls import Waiting

_keys = st.none() | st.sampled_from((*KEYS, "k3", "k4"))
disturbances: st.SearchStrategy[Delta] = st.sampled_from((Resumed(), Forked(session_id="t"), CancelAll(), Disposed()))
# Each ends the wait for a retry, or does not, in its own way.
in_backoff: st.SearchStrategy[Delta] = st.one_of(
    st.sampled_from((RetryNow(), DismissError())),
    st.builds(Say, content=contents),
    st.builds(Enqueue, content=contents),
    st.builds(Steer, content=contents),
)
WITHOUT_RUN = (Waiting.APPROVAL, Waiting.EDIT, Waiting.WORD)  # what a call may wait for in a released thread


class KernelMachine(PlayRules):
    """Any run of the kernel. A subclass may put a broken one in its place, to see it fail."""

    # --- life ---------------------------------------------------------------------------------------------

    @rule(delta=st.one_of(thread_deltas, disturbances))
    def live(self, delta: Delta) -> None:
        """The process dies, whatever it does; a lineage begins; the thread is released; everything is to stop."""
        self.deliver(delta)

    @precondition(lambda self: isinstance(self.state, Initial))
    @rule(delta=st.sampled_from((Acquired(), Resumed())))
    def take_up(self, delta: Acquired | Resumed) -> None:
        """A released thread is taken up again."""
        self.deliver(delta)

    @precondition(lambda self: self.is_open(OperationKind.RUN) or self.is_open(OperationKind.CHECK))
    @rule()
    def restart(self) -> None:
        """The process dies with calls in flight, and is restarted."""
        self.deliver(Resumed())

    @precondition(lambda self: isinstance(self.state, Executing | Confirming | Dispatching | Backoff))
    @rule(data=st.data(), delta=disturbances | st.none())
    def disturb(self, data: st.DataObject, delta: Delta | None) -> None:
        """The same, or an edit, while calls or a retry are waited for."""
        sent = self.witness.thread.editable()
        if delta is not None or not sent:
            self.deliver(delta or Resumed())
        else:
            self.deliver(EditMessage(message=data.draw(st.sampled_from(sent), label="message"), content=()))

    @precondition(lambda self: bool(self.witness.seen.waiting(*WITHOUT_RUN)))
    @rule(delta=st.sampled_from((Acquired(), Resumed())))
    def release_and_take_up(self, delta: Acquired | Resumed) -> None:
        """The thread is released while calls wait for a person, and taken up again."""
        self.deliver(Disposed())
        self.deliver(delta)

    @rule(now_ms=times_ms)
    def let_time_pass(self, now_ms: int) -> None:
        """The clock of the driver moves, now and then backwards."""
        self.now_ms = now_ms

    # --- the user -----------------------------------------------------------------------------------------

    @rule(content=contents, key=_keys)
    def say(self, content: tuple[UserBlock, ...], key: str | None) -> None:
        """A user message."""
        self.deliver(Say(content=content, key=key))

    @rule(content=contents, key=_keys)
    def enqueue(self, content: tuple[UserBlock, ...], key: str | None) -> None:
        """A message for the end of the turn."""
        self.deliver(Enqueue(content=content, key=key))

    @rule(content=contents, key=_keys)
    def steer(self, content: tuple[UserBlock, ...], key: str | None) -> None:
        """A message for the next request."""
        self.deliver(Steer(content=content, key=key))

    @precondition(lambda self: bool(self.witness.thread.editable()))
    @rule(data=st.data(), content=contents, key=_keys)
    def edit_message(self, data: st.DataObject, content: tuple[UserBlock, ...], key: str | None) -> None:
        """A message that the user sent is replaced."""
        message = data.draw(st.sampled_from(self.witness.thread.editable()), label="message")
        self.deliver(EditMessage(message=message, content=content, key=key))

    @precondition(lambda self: isinstance(self.state, Idle | Cancelled))
    @rule()
    def ask_again(self) -> None:
        """The same question again, after an error, a limit or a cancel; else another one."""
        session = self.state.session
        ended_well = session is not None and (session.last_end is None or session.last_end in NATURAL_ENDS)
        self.deliver(Say(content=()) if ended_well else RetryNow())

    @precondition(lambda self: isinstance(self.state, Backoff))
    @rule(delta=in_backoff)
    def do_not_wait(self, delta: Delta) -> None:
        """The user does not wait for the retry, or the process does not live to see it."""
        self.deliver(delta)

    @rule(number=st.none() | queue_numbers)
    def discard(self, number: QueueNumber | None) -> None:
        """Queued input is taken back."""
        self.deliver(Discard(number))

    @precondition(lambda self: self.witness.turns_open > 0)
    @rule()
    def cancel_all(self) -> None:
        """Everything is to stop."""
        self.deliver(CancelAll())

    @precondition(lambda self: bool(self.witness.open_calls))
    @rule(data=st.data())
    def cancel_open_call(self, data: st.DataObject) -> None:
        """One call is to stop."""
        self.deliver(CancelCall(data.draw(st.sampled_from(self.witness.open_calls))))

    @precondition(lambda self: bool(self.witness.seen.calls))
    @rule(data=st.data())
    def cancel_any_call(self, data: st.DataObject) -> None:
        """One call is to stop, whatever became of it."""
        self.deliver(CancelCall(data.draw(st.sampled_from(list(self.witness.seen.calls)), label="call")))

    @rule(delta=settings_deltas)
    def change(self, delta: UserDelta) -> None:
        """Other settings."""
        self.deliver(delta)

    @precondition(lambda self: bool(self.witness.seen.approvals.remembered))
    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        """A remembered approval is taken back."""
        self.deliver(Forget(data.draw(st.sampled_from(self.witness.seen.approvals.remembered), label="approval")))

    # --- time ---------------------------------------------------------------------------------------------

    @precondition(lambda self: self.is_open(OperationKind.TIMER))
    @rule(data=st.data(), late_ms=st.integers(0, 2))
    def run_out_of_time(self, data: st.DataObject, late_ms: int) -> None:
        """A deadline has passed: of a run, of a person, or of the time to stop in."""
        number = self.number(OperationKind.TIMER, data)
        self.now_ms = max(self.now_ms, self.witness.deadlines[number] + late_ms)
        self.deliver(TimerFired(TimerOperation(number)))

    @precondition(lambda self: isinstance(self.state, Backoff))
    @rule(late_ms=st.integers(-1, 1))
    def try_again(self, late_ms: int) -> None:
        """The wait for a retry is over, by a clock that is a little early, on time, or late."""
        assert isinstance(self.state, Backoff)
        self.now_ms = self.state.timer.deadline_ms + late_ms
        self.deliver(TimerFired(self.state.timer.operation))

    @precondition(lambda self: isinstance(self.state, Streaming) and self.state.silence is not None)
    @rule(late_ms=st.integers(-1, 1))
    def stay_silent(self, late_ms: int) -> None:
        """The stream is looked at, and has not been heard of for as long as it may, or nearly so."""
        assert isinstance(self.state, Streaming)
        assert self.state.silence is not None
        self.now_ms = self.state.silence.deadline_ms + late_ms
        self.deliver(TimerFired(self.state.silence.operation))

    # --- ill-timed ----------------------------------------------------------------------------------------

    @rule(delta=deltas | user_deltas)
    def anything(self, delta: Delta) -> None:
        """Any delta, mostly about what is closed or was never begun."""
        self.deliver(delta)

    @precondition(lambda self: bool(self.steps))
    @rule(data=st.data())
    def repeat(self, data: st.DataObject) -> None:
        """An earlier delta once more."""
        index = data.draw(st.integers(1, len(self.steps)), label="how many deltas ago")
        self.deliver(self.steps[-index].context.delta)
