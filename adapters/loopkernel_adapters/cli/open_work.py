"""What is open in a session, in words: what it waits for, and what would go on."""

from loopkernel.data.blocks import text_of
from loopkernel.data.ledgers import CrashWait
from loopkernel.data.states import Backoff, Initial, State
from loopkernel.data.words import CallStatus

from loopkernel_adapters.cli.screen import LONGEST_LINE, Screen, in_one_line
from loopkernel_adapters.cli.shown_text import told_input, told_name
from loopkernel_adapters.cli.words import FAILURES, counted
from loopkernel_adapters.driver.children import WITH_CALLS

WAITS = {
    CallStatus.QUEUED: "has not started",
    CallStatus.IN_PROGRESS: "was running",
    CallStatus.BLOCKED_ON_USER: "waits for you",
}


def tell_open(state: State, screen: Screen) -> None:
    """One line for each thing that is open; one that says so where nothing is."""
    lines = [*_calls(state), *_others(state), *queue_lines(state)]
    for line in lines or ["nothing: it waits for what you say"]:
        screen.labelled("open", line)


def _calls(state: State) -> list[str]:
    ledger = state.ledger if isinstance(state, (*WITH_CALLS, Initial)) else None
    if ledger is None:
        return []
    found = []
    for entry in ledger.entries:
        if entry.is_open:
            how = "was running when the process ended" if isinstance(entry.person.wait, CrashWait) else None
            given = told_input(entry.given, LONGEST_LINE)
            found.append(
                f"call {entry.call.id} {told_name(entry.tool)} {given}: {how or WAITS.get(entry.status, 'is open')}"
            )
    return found


def _others(state: State) -> list[str]:
    if isinstance(state, Backoff):
        return [f"the model is asked again, since {FAILURES[state.error]}"]
    if isinstance(state, WITH_CALLS) or state.session is None:
        return []
    error = state.session.error
    return [] if error is None else [f"the error {error.error.value}: {in_one_line(error.message)}"]


def queue_lines(state: State) -> list[str]:
    """The messages that wait, with their numbers, oldest first."""
    if state.session is None:
        return []
    inbox = state.session.inbox
    steers = [f"a steering message: {in_one_line(text_of(steer.content))}" for steer in inbox.steers]
    return [*steers, *(f"message {item.number}: {in_one_line(text_of(item.content))}" for item in inbox.queue)]


def queue_told(state: State) -> str:
    """How many messages wait."""
    lines = queue_lines(state)
    return f"{counted(len(lines), 'message')} in the queue" if lines else "the queue is empty"
