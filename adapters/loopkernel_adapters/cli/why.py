"""`loopkernel why RUN [STEP]` and `log RUN --steps`: each record of a log, what followed from it, and by which rule."""

from collections.abc import Sequence

from loopkernel.data.records import StepRecord
from loopkernel.replaying import fold
from loopkernel.views.event_text import event_to_text
from loopkernel.views.explain import Explanation, explain
from loopkernel.views.waits import told

from loopkernel_adapters.cli.outcomes import ExitStatus, Unusable
from loopkernel_adapters.cli.places import log_of
from loopkernel_adapters.cli.recording_files import to_be_no_recording
from loopkernel_adapters.cli.screen import Screen, in_one_line
from loopkernel_adapters.cli.words import counted
from loopkernel_adapters.driver.asyncio_driver import is_event
from loopkernel_adapters.viewing.steps import PIECES, about, command_told, in_words


def why(name: str, step: int | None, store: str | None, screen: Screen) -> ExitStatus:
    """Tell why each effect of the step came about; without one, of every step. Raises Unusable."""
    steps = _steps_of(name, store)
    if step is not None and not 1 <= step <= len(steps):
        raise Unusable(f"{name} has no step {step}; it has {counted(len(steps), 'step')}, which `log --steps` lists")
    for number, taken in enumerate(steps, start=1):
        if number == step or (step is None and not isinstance(taken.context.delta, PIECES)):
            _tell_reasons(number, taken, screen, waits=step is not None)
    return ExitStatus.NATURAL_END


def show_steps(name: str, store: str | None, screen: Screen) -> ExitStatus:
    """List the records by the numbers that `fork --at` takes; pieces of one reply share a line. Raises Unusable."""
    steps = _steps_of(name, store)
    first = 1
    for number, taken in enumerate(steps, start=1):
        kind = type(taken.context.delta)
        if kind in PIECES and number < len(steps) and type(steps[number].context.delta) is kind:
            continue  # told with the last of them
        numbers = str(number) if number == first else f"{first}-{number}"
        said = "" if kind in PIECES else about(taken.context.delta)
        screen.labelled(numbers, in_one_line(f"{in_words(kind.__name__)}{said and ': '}{said}"))
        first = number + 1
    return ExitStatus.NATURAL_END


def _steps_of(name: str, store: str | None) -> Sequence[StepRecord]:
    with to_be_no_recording(name, "view", "shows its steps"):
        found = log_of(name, store)
    if not found.records:
        raise Unusable(f"the log of {name} holds no complete record yet, so nothing has followed from it")
    return fold(found.records)


def _tell_reasons(number: int, step: StepRecord, screen: Screen, *, waits: bool) -> None:
    delta = step.context.delta
    said = about(delta)
    screen.labelled(f"step {number}", in_one_line(f"{in_words(type(delta).__name__)}{said and ': '}{said}"))
    explanation = explain(step.before, step.context)
    for cause in explanation.causes:
        effect = cause.effect
        text = event_to_text(effect) if is_event(effect) else command_told(effect)
        what = in_words(type(effect).__name__)
        screen.labelled("", in_one_line(f"{what}{text and ': '}{text}"))
        screen.labelled("", f"  since {cause.because} ({cause.rule})")
    if not explanation.causes:
        screen.labelled("", "nothing followed from it")
    _tell_state(step, explanation, screen, waits=waits)


def _tell_state(step: StepRecord, explanation: Explanation, screen: Screen, *, waits: bool) -> None:
    before, after = type(step.before).__name__, type(step.after).__name__
    if before != after:
        screen.labelled("", f"{before} becomes {after}")
    for wait in explanation.waits if waits else ():
        screen.labelled("waits", told(wait))
