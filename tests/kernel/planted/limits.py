"""Planted bugs about limits of a reply under way (rule LIMIT-4).

As in `bugs`: each is caught by its own law, and by no other.
"""

from attrs import evolve
from loopkernel.data.blocks import TextBlock
from loopkernel.data.deltas import Delta
from loopkernel.data.messages import AssistantMessage, Message
from loopkernel.data.model_deltas import ModelUsage
from loopkernel.data.outside_deltas import TimerFired
from loopkernel.data.records import StepRecord
from loopkernel.data.reply_sizes import NOTHING_SAID
from loopkernel.data.sessions import Settings
from loopkernel.data.states import State, Streaming
from loopkernel.data.steps import Context, Step
from loopkernel.data.user_deltas import Say
from loopkernel.loop.draft import Draft
from loopkernel.testing.planted.planting import (
    PlantedBug,
    changing_messages,
    changing_states,
    changing_steps,
    under_settings,
)


def _time_limit_forgotten(settings: Settings, _: State, delta: Delta) -> Settings:
    """A turn that a message opens asks the model without a time limit."""
    return evolve(settings, policy=evolve(settings.policy, max_wall_ms=None)) if isinstance(delta, Say) else settings


def _time_limit_unheeded(record: StepRecord) -> Step[State]:
    """When its time is over, the reply is given the same time once more."""
    before, delta = record.before, record.context.delta
    timer = before.time_limit if isinstance(before, Streaming) else None
    if not isinstance(before, Streaming) or timer is None or delta != TimerFired(timer.operation):
        return Step(record.after, record.effects)
    draft = Draft(before.session, before.stamp.next(record.context.now_ms), None)
    draft, again = draft.start_timer(timer.purpose, timer.deadline_ms)
    return Step(evolve(before, session=draft.session, stamp=draft.stamp, time_limit=again), draft.effects)


def _cut_text_dropped(message: Message, _: Context) -> Message:
    if not isinstance(message, AssistantMessage) or message.stop is not None:
        return message
    return evolve(message, content=tuple(block for block in message.content if not isinstance(block, TextBlock)))


def _size_uncounted(record: StepRecord) -> State:
    after = record.after
    return evolve(after, size=NOTHING_SAID) if isinstance(after, Streaming) else after


def _deaf_to_usage(settings: Settings, _: State, delta: Delta) -> Settings:
    """What a reply reports while it streams is compared with nothing."""
    if not isinstance(delta, ModelUsage):
        return settings
    return evolve(settings, policy=evolve(settings.policy, max_total_tokens=None))


PLANTED_LIMITS = (
    PlantedBug(name="time-limit-forgotten", law="TIMER-DATA", plant=under_settings(_time_limit_forgotten)),
    PlantedBug(name="time-limit-unheeded", law="BUDGET", plant=changing_steps(_time_limit_unheeded)),
    PlantedBug(name="cut-text-dropped", law="BUDGET", plant=changing_messages(_cut_text_dropped)),
    PlantedBug(name="reply-size-uncounted", law="BUDGET", plant=changing_states(_size_uncounted)),
    PlantedBug(name="reported-tokens-unheeded", law="BUDGET", plant=under_settings(_deaf_to_usage)),
)
