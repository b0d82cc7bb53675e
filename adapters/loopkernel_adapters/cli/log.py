"""`loopkernel log RUN`: the events of a run for people, or its records for programs."""

from loopkernel.codec import record_to_text
from loopkernel.replaying import fold

from loopkernel_adapters.cli.located import log_of
from loopkernel_adapters.cli.outcomes import ExitStatus, Unusable
from loopkernel_adapters.cli.recording_files import to_be_no_recording
from loopkernel_adapters.cli.replay import show_events, tell_torn
from loopkernel_adapters.cli.screen import Screen
from loopkernel_adapters.cli.summary import phase_of, tell_outcome


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
