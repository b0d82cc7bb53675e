"""What is said at the end: how the turn ended, what it used, and whether log and laws agree with it."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from loopkernel.data.effects import CallModel, StartTool
from loopkernel.data.events import TurnEnded
from loopkernel.data.states import State
from loopkernel.data.usage import NO_USAGE
from loopkernel.data.words import TurnEndReason
from loopkernel.replay import StepRecord, fold

from loopkernel_adapters.cli.outcomes import ExitStatus, Unusable
from loopkernel_adapters.cli.screen import Screen
from loopkernel_adapters.cli.verification import Witnessed, effects_of, first_difference, judge
from loopkernel_adapters.cli.words import counted
from loopkernel_adapters.ports import Restored, RulesDiffer, StoreCorrupt, demand_same_rules
from loopkernel_adapters.stores.jsonl import LogFile, NotALog, read_log

# The ends that the model chose, or that the calls were meant to bring about; every other one cut the work short.
NATURAL_ENDS = frozenset(
    {
        TurnEndReason.MODEL_STOP,
        TurnEndReason.STOP_SEQUENCE,
        TurnEndReason.TOOL_FINAL,
        TurnEndReason.OUTPUT,
    }
)


def summarise(witnessed: Witnessed, log: Path, children: Sequence[Path], screen: Screen) -> ExitStatus:
    """The end of a run: the outcome, the log replayed from the disk and compared, and the laws.

    Those of the logs of its sub-agents too.
    """
    steps = fold(opened_log(log).records)
    difference = first_difference(witnessed, steps)
    screen.line()
    reason = tell_outcome(steps, screen)
    screen.labelled("log", str(log.absolute()))
    effects = len(effects_of(steps))
    if difference is None:
        verdict = f"{len(steps)} deltas: identical (the state and all {effects} effects, byte for byte)"
    else:
        verdict = f"{len(steps)} deltas: NOT identical: {difference}. Please report this with the log"
    screen.labelled("replayed", verdict)
    held = tell_laws(steps, screen)
    for child in children:
        folded = fold(opened_log(child).records)
        screen.labelled("sub-agent", f"{counted(len(folded), 'delta')} in {child.absolute()}")
        held = tell_laws(folded, screen) and held
    if difference is not None or not held:
        return ExitStatus.OTHER_END
    return ExitStatus.NATURAL_END if reason in NATURAL_ENDS else ExitStatus.OTHER_END


def opened_log(path: Path) -> LogFile:
    """The log, read without changing it. Raises Unusable, with the position of what is damaged and advice."""
    try:
        if path.exists() and not path.is_file():  # reading a pipe or a device might never end
            raise Unusable(f"{path} is not a regular file, so it cannot be a log; name the file of a run")
        found = read_log(path)
        demand_same_rules(Restored(records=found.records))
        return found
    except RulesDiffer as error:
        raise Unusable(f"{path}: {error}") from error
    except NotALog as error:
        raise Unusable(str(error)) from error
    except StoreCorrupt as error:
        raise Unusable(f"the log is damaged: {error}") from error
    except OSError as error:
        raise Unusable(f"the log {path} cannot be read: {error.strerror}; name the file of a run") from error


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
    usage = session.usage if session is not None else NO_USAGE
    screen.labelled("usage", f"{usage.input} tokens in, {usage.output} tokens out")
    return reason


def tell_laws(steps: Sequence[StepRecord], screen: Screen) -> bool:
    """How many checks of laws there were, by kind, and every breach. Returns whether all held."""
    reports = judge(steps)
    checked = {kind: count for report in reports for kind, count in report.checked}
    kinds = ", ".join(f"{count} {kind}" for kind, count in checked.items())
    breaches = [breach for report in reports for breach in report.breaches]
    verdict = "all held" if not breaches else f"{len(breaches)} BROKEN"
    laws = {law for report in reports for law, _ in report.by_law}
    screen.labelled("laws", f"{counted(len(laws), 'law')}, {sum(checked.values())} checks ({kinds}): {verdict}")
    for breach in breaches:
        screen.labelled("", f"{breach}. Please report this with the log")
    return not breaches


def phase_of(state: State) -> str:
    """The name of the phase."""
    return type(state).__name__
