"""A witness of hooks: which are due at a point, in which order, and what they have answered (section HOOK).

A passing is one walk over the hooks of a point: those before something in the order of the policy, those after it in
the reverse. Observed ones are told, gated ones asked, one after the other. Around a tool call, each call has its own.
"""

from collections.abc import Iterator
from typing import final

from attrs import frozen

from loopkernel.data.choices import HookFailure
from loopkernel.data.effects import AbortOther, AskHook, Effect, TellHook
from loopkernel.data.events import LineageForked, TurnEnded, WorkCancelled
from loopkernel.data.hook_calls import OpenHook
from loopkernel.data.ids import CallId, HookOperation, OperationKind
from loopkernel.data.messages import UserMessage, UserOrigin
from loopkernel.data.outside_deltas import HookAnswer, HookAnswered, HookBlock, HookFault, TimerFired
from loopkernel.data.policy import Hook, Policy
from loopkernel.data.states import State
from loopkernel.data.thread_deltas import Acquired, Forked, Resumed
from loopkernel.data.words import HookPoint, TurnEndReason
from loopkernel.laws.ending_laws import entries_in
from loopkernel.laws.gates import gate_of_turn, gated_calls
from loopkernel.laws.shadow.step import JudgedStep

AFTER_POINTS = frozenset(point for point in HookPoint if point.value.startswith("after_"))
CALL_POINTS = frozenset({HookPoint.BEFORE_TOOL, HookPoint.AFTER_TOOL})
TURN_POINTS = frozenset(point for point in HookPoint if point.can_be_gated) - CALL_POINTS

_CUT_SHORT = frozenset({TurnEndReason.INTERRUPTED, TurnEndReason.EDITED, TurnEndReason.DISPOSED})

Key = tuple[HookPoint, CallId | None]


@final
@frozen
class Said:
    """What a hook has said at a point, the policy for hooks that fail applied: None is to go on."""

    key: Key
    hook: HookOperation
    answer: HookAnswer | None

    @property
    def blocks(self) -> bool:
        """Whether it does not let go on."""
        return isinstance(self.answer, HookBlock)


def due_at(policy: Policy, point: HookPoint) -> tuple[Hook, ...]:
    """The hooks of the point, in the order in which their turn comes."""
    hooks = tuple(hook for hook in policy.hooks if hook.point is point)
    return hooks[::-1] if point in AFTER_POINTS else hooks


def cuts(step: JudgedStep) -> bool:
    """Whether a turn is cut short with this step: no gated hook is asked about it any more."""
    return any(
        isinstance(effect, WorkCancelled | LineageForked)
        or (isinstance(effect, TurnEnded) and effect.reason in _CUT_SHORT)
        for effect in step.effects
    )


def open_hooks(state: State) -> Iterator[tuple[Key, OpenHook]]:
    """The hooks that are asked, and what about."""
    gate = gate_of_turn(state)
    if isinstance(gate, OpenHook):
        yield (gate.hook.point, None), gate
    for entry, hook in gated_calls(state):
        yield (hook.hook.point, entry.call.id), hook


def keeps_going(step: JudgedStep) -> bool:
    """Whether the block of a stop hook is honoured with this step: its reason goes into the thread."""
    return any(isinstance(one, UserMessage) and one.origin is UserOrigin.STOP_HOOK for one in step.added)


def sends_back(step: JudgedStep, policy: Policy) -> bool:
    """Whether a stop hook blocks the end of the turn, and has not done so too often (rule HOOK-2)."""
    delta, gate, turn = step.delta, gate_of_turn(step.before), step.turn_before
    if not isinstance(delta, HookAnswered) or not isinstance(gate, OpenHook) or turn is None:
        return False
    asked = delta.operation == gate.operation and gate.hook.point is HookPoint.STOP
    return asked and isinstance(delta.answer, HookBlock) and turn.blocks < policy.stop_hook_limit


@final
class HookOrder:
    """The passings of some points, as the effects tell of them."""

    def __init__(self, start: State, points: frozenset[HookPoint]) -> None:
        self._points = points
        self._left: dict[Key, tuple[Hook, ...]] = {}
        self._open: dict[HookOperation, Key] = {}
        self.passed: set[Key] = set()
        for key, gate in open_hooks(start):
            if key[0] in points:
                self._open[gate.operation], self._left[key] = key, gate.left
        for entry in entries_in(start):
            left = entry.hooks.left
            if entry.is_open and left and entry.hooks.open is None and HookPoint.BEFORE_TOOL in points:
                self._left[HookPoint.BEFORE_TOOL, entry.call.id] = left  # its input was changed, and is being checked

    @property
    def idle(self) -> bool:
        """Whether no passing is under way."""
        return not self._open and not self._left

    def begin(self, step: JudgedStep) -> None:
        """A step begins: a restart asks again what was open, and a fork leaves it behind."""
        if isinstance(step.taken, Acquired | Resumed):
            self._open.clear()
            for key, gate in open_hooks(step.before):
                if key[0] in self._points:
                    self._left[key] = (gate.hook, *gate.left)
        elif isinstance(step.taken, Forked):
            self._open.clear()
            self._left.clear()
            self.passed.clear()

    def answered(self, step: JudgedStep, policy: Policy) -> Said | None:
        """What the delta says in the name of a hook that is asked, if it does: its answer, or that its time is over."""
        delta = step.taken
        if not isinstance(delta, HookAnswered | TimerFired):
            return None
        answer: HookAnswer | None = HookFault("no answer in time")
        operation: HookOperation | None = None
        if isinstance(delta, HookAnswered):
            operation, answer = delta.operation, delta.answer
        else:
            for _, gate in open_hooks(step.before):
                if gate.timer is not None and gate.timer.operation == delta.operation:
                    operation = gate.operation
        key = None if operation is None else self._open.pop(operation, None)
        if operation is None or key is None:
            return None
        if isinstance(answer, HookFault):
            closed = policy.hook_failure is HookFailure.CLOSED and key[0] is not HookPoint.STOP
            answer = HookBlock(answer.why) if closed else None
        said = Said(key, operation, answer)
        heard = key[0] is not HookPoint.AFTER_INVOCATION and (key[0] is not HookPoint.STOP or keeps_going(step))
        if said.blocks and heard:
            self.forget(key)
        else:
            self._go_on(key)
        return said

    def take(self, effect: Effect, policy: Policy, *, cut: bool = False) -> Iterator[str]:
        """What is wrong with this effect; where all is `cut` short only hooks that observe have their turn."""
        if isinstance(effect, WorkCancelled | LineageForked):
            self._open.clear()
            self._left.clear()
        elif isinstance(effect, AbortOther) and effect.kind is OperationKind.HOOK:
            key = self._open.pop(HookOperation(effect.operation), None)
            if key is not None:
                self._left.pop(key, None)
        elif isinstance(effect, AskHook | TellHook) and effect.context.point in self._points:
            yield from self._has_turn(effect, policy, cut)

    def _has_turn(self, effect: AskHook | TellHook, policy: Policy, cut: bool) -> Iterator[str]:
        context, gated = effect.context, isinstance(effect, AskHook)
        key: Key = (context.point, context.call if context.point in CALL_POINTS else None)
        where = f"hook {context.name} at {context.point.value}"
        if key in self._open.values():
            yield f"{where} has its turn, and another one of that point has not answered"
        due = self._left.get(key) or due_at(policy, context.point)
        due = tuple(hook for hook in due if not (cut and hook.gated))
        names = [(hook.name, hook.gated) for hook in due]
        mine = (context.name, gated)
        if mine not in names:
            yield f"{where} has a turn, and is not due"
            return
        place = names.index(mine)
        if place:
            yield f"{where} has its turn before {due[0].name}"
        self._left[key] = due[place + 1 :]
        if isinstance(effect, AskHook):
            self._open[effect.operation] = key
        else:
            self._go_on(key)

    def _go_on(self, key: Key) -> None:
        """One hook of the passing has had its turn, and lets go on; with the last one it is over."""
        if not self._left.get(key):
            self._left.pop(key, None)
            self.passed.add(key)

    def forget(self, key: Key) -> None:
        """The passing is used up, or void."""
        self.passed.discard(key)
        self._left.pop(key, None)
