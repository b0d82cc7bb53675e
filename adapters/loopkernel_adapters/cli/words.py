"""In words, for whoever reads a run: failures and what to do about them, retries, limits, repetition, cancels."""

from collections.abc import Sequence

from loopkernel.data.blocks import text_of
from loopkernel.data.events import Event, ReplyFailed, RetryScheduled
from loopkernel.data.ids import OperationKind
from loopkernel.data.ledgers import CrashWait
from loopkernel.data.model_deltas import ModelFailed
from loopkernel.data.policy import Policy
from loopkernel.data.records import LogRecord
from loopkernel.data.sessions import Session
from loopkernel.data.states import Backoff, Initial, State
from loopkernel.data.words import CallStatus, CancelReason, ErrorClass, LimitName
from loopkernel.loop.algorithms.budget import cost_usd
from loopkernel.loop.algorithms.retry import Dice, GiveUp, WaitForRetry, models, schedule, schedule_text

from loopkernel_adapters.cli.screen import LONGEST_LINE, Screen, in_one_line
from loopkernel_adapters.cli.shown_text import told_input, told_name
from loopkernel_adapters.driver.children import WITH_CALLS

MOST_TOLD = 50  # retries; a schedule with more of them is not told

FAILURES = {
    ErrorClass.OVERLOADED: "the service of the model has too much to do",
    ErrorClass.RATE_LIMITED: "the service of the model was asked too often",
    ErrorClass.SERVER: "the service of the model has failed",
    ErrorClass.NETWORK: "there is no connection to the model, or it was lost",
    ErrorClass.STALLED: "the model has fallen silent",
    ErrorClass.INVALID_OUTPUT: "what the model sent cannot be read",
    ErrorClass.PROMPT_TOO_LONG: "the conversation is longer than the model can take",
    ErrorClass.AUTH: "the service of the model does not accept the key",
    ErrorClass.BAD_REQUEST: "the service of the model refuses the request",
    ErrorClass.REFUSED: "the model refuses the task",
    ErrorClass.UNKNOWN: "the model failed in a way that nobody foresaw",
    ErrorClass.MAX_TOKENS: "the reply is longer than it may be",
}
_LATER = "try again later, or with another model"
ADVICE = {
    ErrorClass.OVERLOADED: _LATER,
    ErrorClass.RATE_LIMITED: _LATER,
    ErrorClass.SERVER: _LATER,
    ErrorClass.NETWORK: "look after the connection, then run it again",
    ErrorClass.STALLED: _LATER,
    ErrorClass.INVALID_OUTPUT: "run it again, or with another model",
    ErrorClass.PROMPT_TOO_LONG: "give a shorter task, or smaller files to read",
    ErrorClass.AUTH: "mend the key, then run it again",
    ErrorClass.BAD_REQUEST: "mend what the message names, then run it again",
    ErrorClass.REFUSED: "put the task in other words",
    ErrorClass.UNKNOWN: "run it again; if it fails again, report it with the log",
    ErrorClass.MAX_TOKENS: "ask for less at a time",
}

CANCELS = {
    CancelReason.USER_CANCELLED: "cancelled by you",
    CancelReason.USER_INTERRUPTED: "interrupted by a new message",
    CancelReason.EDITED: "interrupted, since an earlier message was edited",
    CancelReason.DISPOSED: "stopped, since the session was released",
    CancelReason.SAFETY: "stopped to be safe",
    CancelReason.REJECTED: "stopped after a rejection",
    CancelReason.SIBLING: "stopped, since another call had failed",
    CancelReason.TIMEOUT: "stopped, since its time was over",
    CancelReason.LIMIT: "stopped at a limit",
    CancelReason.SUPERSEDED: "superseded",
}


def cause_of(event: Event, records: Sequence[LogRecord]) -> str:
    """What the service of the model has said of the request that the event says has failed; "" where it said nothing.

    `records` is the log up to the event.
    """
    if isinstance(event, ReplyFailed):
        for record in reversed(records):
            if isinstance(record.delta, ModelFailed) and record.delta.operation == event.reply:
                return record.delta.message
    return ""


def retry_told(event: RetryScheduled, state: State) -> str:
    """What is to come: this retry, and if it fails too, those after it (rule RETRY-2).

    `state` is the one that the event led to; without a countdown in it only this retry is told.
    """
    if not isinstance(state, Backoff):
        return f"retrying soon (retry {event.attempt})"
    session = state.session
    settings, policy = session.settings, session.settings.policy
    retries = policy.retry.retries if policy.retry is not None else 0
    delay, _, _ = schedule_text((WaitForRetry(event.delay_ms, event.attempt), GiveUp()), policy).partition(",")
    of = f" of {retries}" if retries >= event.attempt else ""
    text = f"retrying in {delay} (retry {event.attempt}{of})"
    if retries * len(models(policy)) > MOST_TOLD:
        return text
    coming = schedule(
        policy,
        attempt=event.attempt,
        model=state.turn.recovery.model,
        dice=Dice(seed=policy.seed, session_id=settings.session_id, lineage=settings.lineage),
        request=session.operations.minted[OperationKind.MODEL] + 1,
    )
    return f"{text}, then {schedule_text(coming, policy)}"


def limit_told(limit: LimitName, policy: Policy | None) -> str:
    """Which limit ended the turn, and how high it is."""
    return f"the turn ends at the limit of {_limit(limit, policy or Policy())} ({limit.value})"


def _limit(limit: LimitName, policy: Policy) -> str:
    match limit:
        case LimitName.MAX_TURNS:
            return f"{policy.max_turns} {'reply' if policy.max_turns == 1 else 'replies'} in a turn"
        case LimitName.TOKENS:
            return f"{counted(policy.max_total_tokens or 0, 'token')} in all"
        case LimitName.COST:
            return f"{policy.max_cost_usd} USD in all"
        case LimitName.TOOL_CALLS:
            return f"{counted(policy.max_tool_calls or 0, 'tool call')} in all"
        case LimitName.WALL_TIME:
            return f"{(policy.max_wall_ms or 0) / 1000:g} s for a turn"
        case LimitName.REPLY_SIZE:
            return f"{counted(policy.max_reply_chars or 0, 'character')} in a reply"


def clock_told(by_ms: int) -> str:
    """By how much a clock was set, and which way."""
    seconds = abs(by_ms) // 1000
    parts = (
        (seconds // 86_400, "day"),
        (seconds // 3_600 % 24, "hour"),
        (seconds // 60 % 60, "minute"),
        (seconds % 60, "second"),
    )
    told = [counted(number, what) for number, what in parts if number]
    return f"{'forward' if by_ms > 0 else 'back'} by {' '.join(told[:2]) or 'less than a second'}"


def counted(number: int, what: str) -> str:
    """The number with its noun."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def used_told(session: Session) -> str:
    """How many tokens a session has used, and what they cost where its policy knows prices."""
    usage, prices = session.usage, session.settings.policy.prices
    cost = f", {float(cost_usd(usage, prices)):.4f} USD" if prices.known else ""
    return f"{tokens_told(usage.input, usage.output)}{cost}"


def tokens_told(tokens_in: int, tokens_out: int) -> str:
    """How many tokens were used."""
    return f"{counted(tokens_in, 'token')} in, {tokens_out} out"


# --- what is open in a session ---------------------------------------------------------------------------

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
