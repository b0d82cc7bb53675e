"""`loopkernel replay RUN` and `log RUN`: a log folded again, with its events, its last state, and the laws."""

from collections.abc import Sequence

from loopkernel.codec import record_to_text
from loopkernel.data.effects import AskHook
from loopkernel.data.model_deltas import ModelFailed
from loopkernel.replaying import StepRecord, fold
from loopkernel.views.explain import interaction_of

from loopkernel_adapters.cli.outcomes import ExitStatus, Unusable
from loopkernel_adapters.cli.places import log_of
from loopkernel_adapters.cli.recording_files import to_be_no_recording
from loopkernel_adapters.cli.screen import Screen
from loopkernel_adapters.cli.summary import phase_of, tell_laws, tell_outcome
from loopkernel_adapters.cli.trace import show, show_hook
from loopkernel_adapters.cli.words import counted
from loopkernel_adapters.driver.asyncio_driver import is_event
from loopkernel_adapters.stores.jsonl import LogFile


def replay(name: str, store: str | None, screen: Screen) -> ExitStatus:
    """Show the run that the log tells. Raises Unusable when it cannot be read or cannot be trusted."""
    found = log_of(name, store)
    if not found.records:
        what = "is empty" if found.torn_tail is None else "holds no complete record"
        raise Unusable(f"the log {name} {what}, so there is nothing to replay; name the log of a run")
    steps = fold(found.records)
    show_events(steps, screen)
    screen.line()
    tell_torn(found, screen)
    tell_outcome(steps, screen)
    state = steps[-1].after
    session = state.session
    messages = len(session.thread) if session is not None else 0
    screen.labelled(
        "state",
        f"{phase_of(state)} at version {state.stamp.version}, {counted(messages, 'message')}; "
        f"a person would see: {interaction_of(state).value}",
    )
    screen.labelled("replayed", counted(len(steps), "delta"))
    held = tell_laws(steps, screen)
    return ExitStatus.NATURAL_END if held and found.torn_tail is None else ExitStatus.OTHER_END


def tell_torn(found: LogFile, screen: Screen) -> None:
    """Say that the last line was never finished, if that is so."""
    tail = found.torn_tail
    if tail is not None:
        screen.labelled(
            "torn tail",
            f"line {tail.line} (from byte {tail.position}, {counted(tail.size, 'byte')}) was never finished, so "
            "nothing followed from it; it is left out here, and cut off when the log is opened to go on",
        )


def _cause(step: StepRecord) -> str:
    """What the service of the model has said, where the step is its failure."""
    delta = step.context.delta
    return delta.message if isinstance(delta, ModelFailed) else ""


def show_events(steps: Sequence[StepRecord], screen: Screen) -> None:
    """Every event of the run, and every hook that was asked."""
    for step in steps:
        for effect in step.effects:
            if isinstance(effect, AskHook):
                show_hook(screen, effect)
            elif is_event(effect):
                show(screen, effect, step.after, cause=_cause(step))


# --- `loopkernel log RUN` --------------------------------------------------------------------------------


def show_log(name: str, store: str | None, screen: Screen, *, as_json: bool) -> ExitStatus:
    """Show it. Raises Unusable when it is not there or cannot be trusted."""
    with to_be_no_recording(name, "replay", "shows it"):
        found = log_of(name, store)
    records = found.records
    if not records:
        raise Unusable(f"the log of {name} holds no complete record yet, so there is nothing to show")
    if as_json:
        for record in records:
            screen.line(record_to_text(record))
        return ExitStatus.NATURAL_END
    steps = fold(records)
    show_events(steps, screen)
    screen.line()
    tell_torn(found, screen)
    tell_outcome(steps, screen)
    screen.labelled("state", phase_of(steps[-1].after))
    return ExitStatus.NATURAL_END
