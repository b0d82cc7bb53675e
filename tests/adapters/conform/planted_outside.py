"""Bugs in the kernel that a stranger's loop could have, each with the scenario that shows it and the law that names it.

Some are those that the laws of the kernel are tested by; the others change what the model is sent.
"""

from collections.abc import Callable, Iterable, Iterator

from attrs import evolve, frozen
from loopkernel.data.blocks import TextBlock
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import CallModel, Effect
from loopkernel.data.messages import AssistantMessage, Message, ResultMessage, UserMessage
from loopkernel.data.model_deltas import ModelCompleted, ModelFailed
from loopkernel.data.records import StepRecord
from loopkernel.data.states import State
from loopkernel.data.steps import Step
from loopkernel.data.thread_deltas import Acquired
from loopkernel.data.tool_deltas import ToolChecked
from loopkernel.data.tools import ValidCall
from loopkernel.data.user_deltas import CancelAll
from loopkernel.data.vector import Vector
from loopkernel.data.words import CallStatus, StopReason
from loopkernel.testing.planted.planting import (
    Plant,
    changing_deltas,
    changing_effects,
    changing_steps,
    with_request_thread,
)

from tests.kernel.planted.bugs import PLANTED

Messages = tuple[Message, ...]


@frozen(kw_only=True)
class Outside:
    """A bug, where it is seen from outside, and the law that names it there."""

    name: str
    plant: Plant
    scenario: str
    law: str


def sending(change: Callable[[Messages], Iterable[Message]]) -> Plant:
    """The model is sent other messages than the thread has, which stays as it is."""

    def changed(record: StepRecord) -> Iterator[Effect]:
        for effect in record.effects:
            if isinstance(effect, CallModel):
                thread = effect.request.thread
                yield with_request_thread(effect, evolve(thread, messages=Vector.of(change((*thread.messages,)))))
            else:
                yield effect

    return changing_effects(changed)


def _first_round_forgotten(messages: Messages) -> Messages:
    return (messages[0], *messages[3:]) if len(messages) > 4 else messages


def _rounds_swapped(messages: Messages) -> Messages:
    return (messages[0], *messages[3:5], *messages[1:3], *messages[5:]) if len(messages) > 6 else messages


def _old_answer_changed(messages: Messages) -> Messages:
    def other(message: Message) -> Message:
        if not isinstance(message, ResultMessage):
            return message
        content = (TextBlock("(old output removed)"),)
        return evolve(message, results=tuple(evolve(one, content=content) for one in message.results))

    return (*map(other, messages[:3]), *messages[3:]) if len(messages) > 4 else messages


def _task_dropped(messages: Messages) -> Messages:
    return messages[1:] if len(messages) > 1 else messages


def _later_prompts(times: int) -> Callable[[Messages], Iterator[Message]]:
    """What a person said later so many times."""

    def change(messages: Messages) -> Iterator[Message]:
        for place, message in enumerate(messages):
            yield from [message] * (times if place and isinstance(message, UserMessage) else 1)

    return change


def _siblings_lost(messages: Messages) -> Iterator[Message]:
    """Of calls side by side only the first, which fails in the scenario, has its output."""
    stopped = (TextBlock("(stopped)"),)
    for message in messages:
        if isinstance(message, ResultMessage):
            first, *others = message.results
            yield evolve(message, results=(first, *(evolve(each, content=stopped) for each in others)))
        else:
            yield message


def _unfinished_forgotten(messages: Messages) -> Iterator[Message]:
    """Without the rounds of which a call did not come to its own end, as in a loop that stores whole rounds alone."""
    gone = {
        message.reply
        for message in messages
        if isinstance(message, ResultMessage)
        and any(one.status not in (CallStatus.DONE, CallStatus.ERROR) for one in message.results)
    }
    for message in messages:
        if not isinstance(message, AssistantMessage | ResultMessage) or message.reply not in gone:
            yield message


def _answers_dropped(messages: Messages) -> Iterator[Message]:
    return (message for message in messages if not isinstance(message, ResultMessage))


def _cut_is_an_end(_: State, delta: Delta) -> Delta:
    if isinstance(delta, ModelFailed):
        return ModelCompleted(delta.operation, StopReason.TOOL_USE, delta.usage)
    return delta


def _cancel_unheard(_: State, delta: Delta) -> Delta:
    return Acquired() if isinstance(delta, CancelAll) else delta


def _raises_on_what_does_not_fit(record: StepRecord) -> Step[State]:
    delta = record.context.delta
    if isinstance(delta, ToolChecked) and not isinstance(delta.verdict, ValidCall):
        raise LookupError("no such tool")
    return Step(record.after, record.effects)


def _never_asks_again(record: StepRecord) -> Iterator[Effect]:
    return (effect for effect in record.effects if not isinstance(effect, CallModel) or effect.operation == 1)


def _known(name: str) -> Plant:
    return next(bug.plant for bug in PLANTED if bug.name == name)


PLANTED_OUTSIDE: tuple[Outside, ...] = (
    *(
        Outside(name=name, plant=_known(name), scenario=scenario, law=law)
        for name, scenario, law in (
            ("last-result-dropped", "parallel", "PAIR"),
            ("results-reversed", "parallel", "ORDER"),
            ("output-forgotten", "one-call", "RESULT"),
            ("started-twice", "one-call", "AT-MOST-ONCE"),
            ("dangerous-run-repeated", "kill-within-command", "AT-MOST-ONCE"),
            ("retry-after-ignored", "retry-after-6", "RETRY-LAW"),
            ("first-message-cut", "one-call", "TASK"),
        )
    ),
    Outside(name="answers-dropped", plant=sending(_answers_dropped), scenario="one-call", law="PAIR"),
    Outside(name="first-round-forgotten", plant=sending(_first_round_forgotten), scenario="rounds", law="SHOWN"),
    Outside(name="rounds-swapped", plant=sending(_rounds_swapped), scenario="rounds", law="PREFIX"),
    Outside(name="old-answer-changed", plant=sending(_old_answer_changed), scenario="rounds", law="ONE-END"),
    Outside(name="task-dropped", plant=sending(_task_dropped), scenario="one-call", law="TASK"),
    Outside(name="last-prompt-twice", plant=sending(_later_prompts(2)), scenario="second-prompt", law="CONSERVE"),
    Outside(name="last-prompt-dropped", plant=sending(_later_prompts(0)), scenario="second-prompt", law="CONSERVE"),
    Outside(
        name="unfinished-forgotten",
        plant=sending(_unfinished_forgotten),
        scenario="kill-within-command",
        law="WRITE-AHEAD",
    ),
    Outside(
        name="cancelled-forgotten", plant=sending(_unfinished_forgotten), scenario="cancel-within-command", law="SHOWN"
    ),
    Outside(
        name="cut-is-an-end", plant=changing_deltas(_cut_is_an_end), scenario="whole-call-clean-end", law="FINAL-ARGS"
    ),
    Outside(
        name="raises-on-what-does-not-fit",
        plant=changing_steps(_raises_on_what_does_not_fit),
        scenario="bad-arguments",
        law="TOTAL",
    ),
    Outside(name="siblings-lost", plant=sending(_siblings_lost), scenario="sibling", law="SIBLING"),
    Outside(
        name="cancel-unheard",
        plant=changing_deltas(_cancel_unheard),
        scenario="cancel-within-command",
        law="CANCEL-STOP",
    ),
    Outside(name="never-asks-again", plant=changing_effects(_never_asks_again), scenario="one-call", law="PROGRESS"),
)


def named_outside(name: str) -> Outside:
    """The bug of that name. Raises KeyError."""
    return {bug.name: bug for bug in PLANTED_OUTSIDE}[name]
