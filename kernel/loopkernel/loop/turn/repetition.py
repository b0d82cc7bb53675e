"""A model that repeats itself: its calls are watched, and what that finds is acted on (rule LIMIT-3)."""

from typing import assert_never

from loopkernel.data.blocks import RawInput
from loopkernel.data.effects import Effect
from loopkernel.data.events import LoopNoted, LoopStopped, ToolDisabled
from loopkernel.data.ledgers import Ledger
from loopkernel.data.messages import UserOrigin
from loopkernel.data.sessions import Session
from loopkernel.data.watches import Watch, WatchedCall
from loopkernel.loop.algorithms.loop_detection import Disabled, Noted, Stopped, assess, watch_call
from loopkernel.loop.algorithms.wording import repetition_text
from loopkernel.loop.history.thread import add_note


def watch_calls(session: Session, ledger: Ledger) -> Watch:
    """A round has passed: the calls of its reply, which stays, are remembered, as far back as policy looks."""
    tiers, watch = session.settings.policy.loop, session.watch
    if tiers is None:
        return watch
    for entry in ledger.entries:
        given = entry.call.input
        call = WatchedCall(entry.call.tool, None if isinstance(given, RawInput) else given)
        watch = watch_call(watch, call, tiers.window)
    if not watch.due and (watch.calls or watch.disabled):
        watch = watch.marked(due=True)
    return watch


def check_repetition(session: Session) -> tuple[Session, bool, tuple[Effect, ...]]:
    """Before a request: a note, a tool that is not offered for some rounds, or (True) the end of the turn.

    Where no round has passed since the last check, as before a retry, nothing is found.
    """
    if not session.watch.due:
        return session, False, ()
    settings = session.settings
    polling = {tool.name for tool in settings.tools if tool.profile is not None and tool.profile.polling}
    exempt = polling if settings.policy.output_tool is None else {*polling, settings.policy.output_tool}
    watch, findings = assess(session.watch.marked(due=False), settings.policy.loop, exempt)
    session = session.updated(watch=watch)
    effects: list[Effect] = []
    stopped = False
    for finding in findings:
        match finding:
            case Noted(tool):
                session, added = add_note(session, repetition_text(tool), UserOrigin.LOOP_NOTE)
                effects.extend((LoopNoted(tool), *added))
            case Disabled(tool):
                effects.append(ToolDisabled(tool))
            case Stopped(tool):
                stopped = True
                effects.append(LoopStopped(tool))
            case _:
                assert_never(finding)
    return session, stopped, tuple(effects)
