"""Ten kernels with a planted bug each, as examples: the law that is named must catch it, and no other.

    for bug in PLANTED:
        assert breached_laws(bug, SCRIPTS.values()) == {bug.law}

Each way to plant one is among them: other steps, effects, states or messages, another delta, another policy.
"""

from collections.abc import Callable, Iterator

from attrs import evolve

from loopkernel.data.choices import NoProfile
from loopkernel.data.deltas import Delta
from loopkernel.data.effects import AbortModel, AbortTool, Effect, StartTool
from loopkernel.data.events import (
    ToolEnded,
)
from loopkernel.data.messages import Message, ResultMessage
from loopkernel.data.model_deltas import ModelCompleted, ModelFailed
from loopkernel.data.policy import ApprovalRule
from loopkernel.data.records import StepRecord
from loopkernel.data.states import State
from loopkernel.data.steps import Context, Step, is_refused
from loopkernel.data.tool_deltas import FromTool
from loopkernel.data.tools import Decision
from loopkernel.data.user_deltas import CancelAll
from loopkernel.testing.planted.planting import (
    PlantedBug,
    changing_deltas,
    changing_effects,
    changing_messages,
    changing_states,
    changing_steps,
    under_policy,
    with_inbox,
)

ALLOW_ASKS = ApprovalRule(decision=Decision.ALLOW, tool="asks")
Change = Callable[[StepRecord], Iterator[Effect]]


def without(*kinds: type[Effect]) -> Change:
    """The effects but those of these kinds."""
    return lambda record: (effect for effect in record.effects if not isinstance(effect, kinds))


def twice(kind: type[Effect]) -> Change:
    """The effects, those of this kind twice."""
    return lambda record: (effect for effect in record.effects for _ in range(2 if isinstance(effect, kind) else 1))


def on_cancel(change: Change) -> Change:
    """The change, where everything is cancelled."""
    return lambda record: change(record) if isinstance(record.context.delta, CancelAll) else iter(record.effects)


def _last_result_dropped(message: Message, _: Context) -> Message:
    if isinstance(message, ResultMessage) and message.reply > 0 and len(message.results) > 1:
        return evolve(message, results=message.results[:-1])
    return message


def _results_reversed(message: Message, _: Context) -> Message:
    return evolve(message, results=message.results[::-1]) if isinstance(message, ResultMessage) else message


def _raises_on_late_report(record: StepRecord) -> Step[State]:
    if isinstance(record.context.delta, FromTool) and is_refused(record.effects):
        raise LookupError("no such run")
    return Step(record.after, record.effects)


def _queue_lost(record: StepRecord) -> State:
    inbox = None if record.after.session is None else record.after.session.inbox
    lost = inbox is not None and isinstance(record.context.delta, CancelAll)
    return with_inbox(record.after, evolve(inbox, queue=())) if inbox is not None and lost else record.after


def _billed_twice(_: State, delta: Delta) -> Delta:
    if isinstance(delta, ModelCompleted | ModelFailed):
        return evolve(delta, usage=delta.usage.plus(delta.usage))
    return delta


PLANTED = (
    PlantedBug(name="last-result-dropped", law="PAIR", plant=changing_messages(_last_result_dropped)),
    PlantedBug(name="results-reversed", law="ORDER", plant=changing_messages(_results_reversed)),
    PlantedBug(name="raises-on-late-report", law="TOTAL", plant=changing_steps(_raises_on_late_report)),
    PlantedBug(
        name="conflicts-ignored",
        law="NO-CONFLICT",
        plant=under_policy(lambda policy: evolve(policy, no_profile=NoProfile.NO_CONFLICT)),
    ),
    PlantedBug(name="ends-twice", law="ONE-END", plant=changing_effects(twice(ToolEnded))),
    PlantedBug(name="queue-lost-at-cancel", law="CONSERVE", plant=changing_states(_queue_lost)),
    PlantedBug(
        name="abort-forgotten",
        law="CANCEL-STOP",
        plant=changing_effects(on_cancel(without(AbortModel, AbortTool))),
    ),
    PlantedBug(
        name="nobody-asked",
        law="ASKED",
        plant=under_policy(lambda policy: evolve(policy, approval_rules=(*policy.approval_rules, ALLOW_ASKS))),
    ),
    PlantedBug(name="started-twice", law="AT-MOST-ONCE", plant=changing_effects(twice(StartTool))),
    PlantedBug(name="billed-twice", law="BUDGET", plant=changing_deltas(_billed_twice)),
)
