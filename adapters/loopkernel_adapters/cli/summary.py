"""What is said at the end: how the turn ended, what it used, and whether log and laws agree with it."""

import signal
from collections import Counter
from collections.abc import Sequence

from loopkernel.data.effects import CallModel, StartTool
from loopkernel.data.events import TurnEnded
from loopkernel.data.states import Done, State
from loopkernel.data.words import TurnEndReason
from loopkernel.replaying import StepRecord, fold

from loopkernel_adapters.cli.outcomes import ExitStatus
from loopkernel_adapters.cli.places import Place, resumption, run_or_file
from loopkernel_adapters.cli.screen import Screen
from loopkernel_adapters.cli.session import Played, Workbench
from loopkernel_adapters.cli.verification import effects_of, first_difference, judge
from loopkernel_adapters.cli.words import counted, tokens_told, used_told

# The ends that the model chose, or that the calls were meant to bring about; every other one cut the work short.
NATURAL_ENDS = frozenset(
    {
        TurnEndReason.MODEL_STOP,
        TurnEndReason.STOP_SEQUENCE,
        TurnEndReason.TOOL_FINAL,
        TurnEndReason.OUTPUT,
    }
)


MOST_JUDGED = 5_000  # records of a run that is judged when it ends; `replay` judges those of any length


def summarise(played: Played, bench: Workbench, screen: Screen) -> ExitStatus:
    """The end of a run: the outcome, the log read anew from its store and compared, and the laws.

    Those of the logs of its sub-agents too.
    """
    place, run = bench.place, bench.run
    steps = fold(place.read(run))
    screen.line()
    reason = tell_outcome(steps, screen)
    screen.labelled("log", place.described(run))
    status = status_of(reason, played.ended_by)
    if not isinstance(played.witnessed.state, Done):
        tell_resumption(place, run, screen)
    if len(steps) > MOST_JUDGED:
        screen.labelled("replayed", f"not yet: `{place.command('replay', run_or_file(place, run))}` judges the log")
        return status
    difference = first_difference(played.witnessed, steps)
    effects = len(effects_of(steps))
    if difference is None:
        verdict = f"{counted(len(steps), 'delta')}: identical (the state and all {effects} effects, byte for byte)"
    else:
        verdict = f"{counted(len(steps), 'delta')}: NOT identical: {difference}. Please report this with the log"
    screen.labelled("replayed", verdict)
    held = tell_laws(steps, screen)
    for child in place.runs_of(run):
        folded = fold(place.read(child))
        screen.labelled("sub-agent", f"{counted(len(folded), 'delta')} in {place.described(child)}")
        held = tell_laws(folded, screen) and held
    return status if difference is None and held else ExitStatus.OTHER_END


def tell_resumption(place: Place, run: str, screen: Screen) -> None:
    """How the run can be gone on with."""
    command = resumption(place, run)
    screen.labelled("go on", command or "not possible: this run was in memory, and ends with the command")


def status_of(reason: TurnEndReason | None, ended_by: signal.Signals | None = None) -> ExitStatus:
    """What the shell is told of a run whose last turn ended so."""
    return ExitStatus.NATURAL_END if reason in NATURAL_ENDS and ended_by is None else ExitStatus.OTHER_END


def tell_outcome(steps: Sequence[StepRecord], screen: Screen) -> TurnEndReason | None:
    """How the last turn ended, and what the run used. Returns the reason, None when no turn has ended."""
    effects = effects_of(steps)
    kinds = Counter(map(type, effects))
    ends = [effect for effect in effects if isinstance(effect, TurnEnded)]
    reason = ends[-1].reason if ends else None
    screen.labelled(
        "outcome",
        f"{reason.value if reason is not None else 'no turn has ended'}, "
        f"after {counted(kinds[CallModel], 'request')} and {counted(kinds[StartTool], 'tool run')}",
    )
    session = steps[-1].after.session if steps else None
    screen.labelled("usage", tokens_told(0, 0) if session is None else used_told(session))
    return reason


def tell_laws(steps: Sequence[StepRecord], screen: Screen) -> bool:
    """How many checks of laws there were, by kind, and every breach. Returns whether all held."""
    reports = judge(steps)
    checked = {kind: count for report in reports for kind, count in report.checked}
    kinds = ", ".join(f"{count} {kind}" for kind, count in checked.items())
    breaches = [breach for report in reports for breach in report.breaches]
    verdict = "all held" if not breaches else f"{len(breaches)} BROKEN"
    laws = {law for report in reports for law, _ in report.by_law}
    screen.labelled(
        "laws", f"{counted(len(laws), 'law')}, {counted(sum(checked.values()), 'check')} ({kinds}): {verdict}"
    )
    for breach in breaches:
        screen.labelled("", f"{breach}. Please report this with the log")
    return not breaches


def phase_of(state: State) -> str:
    """The name of the phase."""
    return type(state).__name__
