"""The visible thread as events tell of it: what a client holds that knows the start and the events alone."""

from attrs import evolve

from loopkernel.data.blocks import TextBlock
from loopkernel.data.effects import Effect
from loopkernel.data.events import (
    MessageAdded,
    MessageReplaced,
    ResultsCleared,
    ThreadCompacted,
    ThreadCut,
    ThreadRewritten,
)
from loopkernel.data.ids import CallId
from loopkernel.data.messages import Message, ResultMessage
from loopkernel.data.vector import Vector
from loopkernel.laws.accounts.sentences import CLEARED


def thread_after(thread: Vector[Message], effect: Effect) -> Vector[Message]:
    """The thread once the event is told; what is not about it is passed over."""
    if isinstance(effect, MessageAdded):
        return thread.append(effect.message)
    if isinstance(effect, ThreadCompacted):
        return _compacted(thread, effect)
    if isinstance(effect, ThreadRewritten):
        return Vector.of(effect.messages)
    if isinstance(effect, ThreadCut):
        return Vector.of(thread[place] for place in range(min(effect.length, len(thread))))
    if isinstance(effect, MessageReplaced):
        return _replaced(thread, effect.message)
    if isinstance(effect, ResultsCleared):
        return _cleared(thread, set(effect.calls))
    return thread


def _replaced(thread: Vector[Message], message: Message) -> Vector[Message]:
    """The message of that id now reads otherwise."""
    for place, held in enumerate(thread):
        if held.id == message.id:
            thread = thread.replace(place, message)
    return thread


def _compacted(thread: Vector[Message], cut: ThreadCompacted) -> Vector[Message]:
    """COMPACT-3: the opening message, the note, and the messages from the first that is kept on."""
    places = {message.id: place for place, message in enumerate(thread)}
    opening = [message for message in thread if message.id == cut.opening]
    note = [] if cut.note is None else [cut.note]
    start = len(thread) if cut.first is None else places.get(cut.first, len(thread))
    return Vector.of((*opening, *note, *thread.since(start)))


def _cleared(thread: Vector[Message], calls: set[CallId]) -> Vector[Message]:
    """TOOL-11: the bodies of these results are gone. They stand near the end: the search ends with the last."""
    for place in range(len(thread) - 1, -1, -1):
        if not calls:
            break
        message = thread[place]
        if isinstance(message, ResultMessage):
            thread = thread.replace(place, _without_bodies(message, calls))
            calls = calls.difference(result.call for result in message.results)
    return thread


def _without_bodies(message: ResultMessage, calls: set[CallId]) -> ResultMessage:
    note = (TextBlock(CLEARED),)
    return evolve(
        message, results=tuple(evolve(one, content=note) if one.call in calls else one for one in message.results)
    )
