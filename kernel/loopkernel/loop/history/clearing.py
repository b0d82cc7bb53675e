"""Old result bodies are cleared, so that requests stay small (rule TOOL-11)."""

from attrs import evolve

from loopkernel.data.choices import ClearMoment
from loopkernel.data.effects import Effect
from loopkernel.data.events import ResultsCleared
from loopkernel.data.ids import CallId
from loopkernel.data.messages import ResultMessage
from loopkernel.data.sessions import Session
from loopkernel.loop.algorithms.clearing import cleared_message, is_cleared
from loopkernel.loop.algorithms.compaction import characters_of, rewritten


def clear_results(session: Session) -> tuple[Session, tuple[Effect, ...]]:
    """By policy, at each request: above a count of results with a body, all but the latest lose it."""
    policy = session.settings.policy.clear_results
    if policy is None or policy.when is not ClearMoment.EACH_REQUEST or session.bodies <= policy.above:
        return session, ()
    return _clear(session, policy.keep)


def clear_under_pressure(session: Session) -> tuple[Session, tuple[Effect, ...]]:
    """The prompt is too long: whatever their count, all bodies but the latest are cleared (rule INFER-8)."""
    policy = session.settings.policy.clear_results
    return (session, ()) if policy is None else _clear(session, policy.keep)


def clear_before(session: Session, until: int) -> tuple[Session, tuple[Effect, ...]]:
    """All results before that index of the thread lose their body (rule COMPACT-2)."""
    later = session.thread.messages.since(until)
    kept = sum(
        not is_cleared(result) for message in later if isinstance(message, ResultMessage) for result in message.results
    )
    return _clear(session, kept)


def _clear(session: Session, keep: int) -> tuple[Session, tuple[Effect, ...]]:
    """All results but so many lose their body; no effect where none has to."""
    if session.bodies <= keep:
        return session, ()
    thread = session.thread
    messages, remaining, gone = thread.messages, session.bodies, list[CallId]()
    total = session.size.total
    first = len(messages)
    for index in range(session.bodies_from, len(messages)):
        message = messages[index]
        if not isinstance(message, ResultMessage):
            continue
        bodies = [result.call for result in message.results if not is_cleared(result)]
        old = bodies[: remaining - keep]
        shorter = cleared_message(message, frozenset(old))
        total += characters_of(shorter) - characters_of(message)
        messages = messages.replace(index, shorter)
        gone.extend(old)
        remaining -= len(old)
        if len(old) < len(bodies):
            first = index
            break
    thread = evolve(thread, messages=messages, generation=thread.generation + 1)
    size = rewritten(total)
    cleared = evolve(session, thread=thread, bodies=remaining, bodies_from=first, size=size)
    return cleared, (ResultsCleared(tuple(gone)),)
