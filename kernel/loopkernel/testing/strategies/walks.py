"""Strategies for runs: random deltas folded through `transition`, and the states that they reach.

A run is drawn delta by delta, mostly from what the state before it can expect, so that it gets far; the rest is
anything at all. Shrinking drops deltas from the end, and makes what is left plainer.
"""

from typing import final

from attrs import evolve
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from typing_extensions import override

from loopkernel.data.deltas import Delta
from loopkernel.data.ids import CheckOperation, RunOperation
from loopkernel.data.json_text import Json
from loopkernel.data.model_deltas import ModelCall
from loopkernel.data.states import Initial, State, Streaming
from loopkernel.data.steps import Context
from loopkernel.data.thread_deltas import Acquired, Created
from loopkernel.data.tool_deltas import ToolChecked
from loopkernel.data.tools import AccessMode, EffectClass, FieldResource, Tool, ToolProfile
from loopkernel.data.words import CallStatus
from loopkernel.laws.views import ledger_in
from loopkernel.replay import LogRecord, StepRecord
from loopkernel.testing.explore_moves import Scope, reports, strays, wishes
from loopkernel.testing.strategies.conversation import tool_sets
from loopkernel.testing.strategies.deltas import deltas, model_deltas, session_ids, tool_deltas, user_deltas
from loopkernel.testing.strategies.policies import RUNNING_OPTIONS, policies
from loopkernel.testing.strategies.values import resource_keys, texts, times_ms
from loopkernel.transition import transition

# Tools whose calls really run: two that touch what they name, and one without a profile.
OFFERED = (
    Tool(
        name="read",
        profile=ToolProfile(effect=EffectClass.READ_ONLY, resources=(FieldResource("path", AccessMode.READ),)),
    ),
    Tool(
        name="write",
        profile=ToolProfile(effect=EffectClass.IDEMPOTENT, resources=(FieldResource("path", AccessMode.WRITE),)),
    ),
    Tool(name="shell"),
)
WIDE = Scope(calls=3, rounds=9, tools=("read", "write", "shell"), progress=True)


def _offered_or_any(offered: tuple[Tool, ...] | None) -> SearchStrategy[tuple[Tool, ...]]:
    return tool_sets if offered is None else st.just(offered)


creations_that_run: SearchStrategy[Created] = st.builds(
    Created,
    session_id=session_ids,
    policy=policies(RUNNING_OPTIONS),
    tools=st.sampled_from((OFFERED, OFFERED, OFFERED, None)).flatmap(_offered_or_any),
    instructions=texts,
)


@st.composite
def aimed_deltas(draw: DrawFn, state: State) -> Delta:
    """Any report, about an operation that is open in the state; any delta where none is."""
    checks: list[CheckOperation] = []
    runs: list[RunOperation] = []
    ledger = ledger_in(state)
    for entry in () if ledger is None else ledger.entries:
        if entry.check is not None:
            checks.append(entry.check)
        if entry.status is CallStatus.IN_PROGRESS and entry.operation is not None:
            runs.append(entry.operation)
    if isinstance(state, Streaming) and (not checks or draw(st.booleans())):
        return evolve(draw(model_deltas), operation=state.reply.operation)
    report = draw(tool_deltas)
    if isinstance(report, ToolChecked):
        return evolve(report, operation=draw(st.sampled_from(checks))) if checks else draw(deltas)
    return evolve(report, operation=draw(st.sampled_from(runs))) if runs else draw(deltas)


# Weights: most often what is owed, so that replies are completed and calls run.
_SOURCES = ("due", "due", "due", "call", "call", "aimed", "aimed", "wanted", "user", "stray", "any")


@st.composite
def next_deltas(draw: DrawFn, state: State) -> Delta:
    """What may come in a state: due, wanted, ill-timed, or anything."""
    source = draw(st.sampled_from(_SOURCES))
    plain: tuple[Delta, ...] = ()
    if source == "call" and isinstance(state, Streaming):
        tool, resource = draw(st.sampled_from(OFFERED)), draw(resource_keys)
        return ModelCall(state.reply.operation, provider_id="c1", tool=tool.name, input=Json.of({"path": resource}))
    if source in ("due", "call"):
        plain = tuple(reports(state, WIDE))
    if source in ("due", "call") and not plain:
        plain = tuple(wishes(state, WIDE))
    if source == "wanted":
        plain = tuple(wishes(state, evolve(WIDE, lives=True, crashes=True)))
    if source == "stray":
        plain = tuple(strays(state))
    if plain:
        return draw(st.sampled_from(plain))
    if source == "aimed":
        return draw(aimed_deltas(state))
    return draw(user_deltas if source == "user" else deltas)


@final
class Run:
    """The steps of a run; shown as its log, since states are long."""

    def __init__(self, steps: tuple[StepRecord, ...]) -> None:
        self.steps = steps

    @property
    def log(self) -> tuple[LogRecord, ...]:
        """What came in, and when."""
        return tuple(LogRecord(step.context.delta, step.context.now_ms) for step in self.steps)

    @property
    def state(self) -> State:
        """The state that it reaches."""
        return self.steps[-1].after

    @override
    def __repr__(self) -> str:
        return "".join(f"\n    {step.context.now_ms} ms: {step.context.delta}" for step in self.steps)


@st.composite
def _moments(draw: DrawFn, state: State, now_ms: int) -> Context | None:
    """The next thing that happens, in one piece, so that shrinking can take it out; None: nothing more."""
    if draw(st.integers(0, 15)) == 0:
        return None
    return Context(draw(next_deltas(state)), draw(st.just(now_ms + 1) | times_ms))


@st.composite
def runs(draw: DrawFn, most: int = 25) -> Run:
    """A run of up to `most` deltas after the creation and the acquisition of its session."""
    contexts = [Context(draw(creations_that_run), 0), Context(Acquired(), 0)]
    state: State = Initial()
    steps: list[StepRecord] = []
    while contexts:
        context = contexts.pop(0)
        after, effects = transition(state, context)
        steps.append(StepRecord(state, context, after, effects))
        state = after
        if not contexts and len(steps) < 2 + most:
            moment = draw(_moments(state, context.now_ms))
            contexts = [] if moment is None else [moment]
    return Run(tuple(steps))


def reachable_states(most: int = 25) -> SearchStrategy[State]:
    """A state that a run of up to `most` deltas reaches."""
    return runs(most).map(lambda run: run.state)
