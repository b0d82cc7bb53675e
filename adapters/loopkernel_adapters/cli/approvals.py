"""`loopkernel approvals RUN`: what runs unasked in a run, listed, and taken back while nobody has the run open."""

import asyncio
import json
from collections.abc import Sequence
from typing import assert_never

from loopkernel.data.effects import Command
from loopkernel.data.json_text import JsonValue
from loopkernel.data.policy import ApprovalRule, Policy
from loopkernel.data.records import LogRecord
from loopkernel.data.remembered import Remembered, RememberedCall, RememberedPattern, RememberedTool
from loopkernel.data.sessions import Settings
from loopkernel.data.states import Done, State
from loopkernel.data.steps import Context, is_refused
from loopkernel.data.tools import Decision
from loopkernel.data.user_deltas import Forget
from loopkernel.loop.algorithms.redaction import redacted
from loopkernel.loop.transition import transition
from loopkernel.replaying import START, replay

from loopkernel_adapters.blocking_ports import BlockingStore
from loopkernel_adapters.cli.approval_words import approval_told, patterns_shown, rule_told
from loopkernel_adapters.cli.outcomes import ExitStatus, Unusable
from loopkernel_adapters.cli.places import Place, located, log_of, resumption, run_or_file, told
from loopkernel_adapters.cli.recording_files import to_be_no_recording
from loopkernel_adapters.cli.screen import Screen
from loopkernel_adapters.cli.trace import in_words
from loopkernel_adapters.cli.words import counted
from loopkernel_adapters.driver.clocks import WallClock
from loopkernel_adapters.driver.log_writer import renew_snapshot
from loopkernel_adapters.ports import Sealing, demand_same_rules
from loopkernel_adapters.sessions.standing_approvals import StandingApproval, standing_approvals
from loopkernel_adapters.stores.in_place import InPlaceStore

# --- what runs unasked, listed ---------------------------------------------------------------------------


NONE = "no approval is remembered, so what asks asks each time"


def allowing_rules(policy: Policy) -> tuple[ApprovalRule, ...]:
    """The rules by which calls run unasked."""
    return tuple(rule for rule in policy.approval_rules if rule.decision is Decision.ALLOW)


def standing_lines(approvals: Sequence[StandingApproval], policy: Policy) -> tuple[str, ...]:
    """Each with its number, then the rules that allow."""
    numbered = [f"{number}  {_told(each)}" for number, each in enumerate(approvals, start=1)]
    return (*numbered, *(f"by a rule of the policy: {rule_told(rule)}" for rule in allowing_rules(policy)))


def _told(approval: StandingApproval) -> str:
    told = approval_told(approval.remembered)
    return f"{told} (in the sub-agent of call {in_words(approval.within)})" if approval.within else told


def tell_allowed(settings: Settings, screen: Screen) -> None:
    """What runs unasked in a session that is gone on with; nothing where nothing does."""
    approvals, rules = tuple(dict.fromkeys(settings.remembered)), len(allowing_rules(settings.policy))
    for approval in approvals:
        screen.labelled("unasked", approval_told(approval))
    if rules:
        screen.labelled("unasked", f"what {counted(rules, 'rule')} of the policy {'allows' if rules == 1 else 'allow'}")
    if approvals or rules:
        screen.labelled("", "/approvals lists it" + (", and takes it back" if approvals else ""))


# --- `loopkernel approvals RUN` --------------------------------------------------------------------------

ALL = "all"


def list_approvals(name: str, store: str | None, screen: Screen, *, as_json: bool) -> ExitStatus:
    """List them, without opening the run for writing. Raises Unusable when it is not there or cannot be trusted."""
    with to_be_no_recording(name, "replay", "shows it"):
        found = log_of(name, store)
    state = replay(found.records)
    if as_json:
        screen.line(json.dumps(_as_json(name, state), ensure_ascii=False))
        return ExitStatus.NATURAL_END
    _tell(state, screen)
    if _remembered(state):
        with located(name, store) as (place, run):
            listed = place.command("approvals", run_or_file(place, run))
            screen.labelled("", f"`{listed} --drop N` takes one back, `--drop all` every one")
    return ExitStatus.NATURAL_END


def drop_approval(name: str, store: str | None, which: int | str, screen: Screen, *, as_json: bool) -> ExitStatus:
    """Take one back, by its number, or all: recorded in the run, of which nothing is begun. Raises Unusable."""
    with located(name, store) as (place, run):
        with to_be_no_recording(name, "replay", "shows it"):
            place.read(run)  # first, so that a log that is not there is not made
        log = place.open(run)
        try:
            before, after = _dropped(log, place, run, which)
        finally:
            log.close()
    if as_json:
        screen.line(json.dumps(_as_json(name, after), ensure_ascii=False))
        return ExitStatus.NATURAL_END
    for gone in dict.fromkeys(each for each in _remembered(before) if each not in _remembered(after)):
        screen.labelled("taken back", approval_told(gone))
    _tell(after, screen)
    return ExitStatus.NATURAL_END


def _dropped(log: BlockingStore, place: Place, run: str, which: int | str) -> tuple[State, State]:
    """The states before and after. Nothing is recorded where nothing is remembered."""
    with told(f"run {run} cannot be opened"):
        restored = log.restore()
        demand_same_rules(restored)
        state = replay(restored.records, START if restored.state is None else restored.state)
    if not _remembered(state) and which == ALL:
        return state, state
    record = LogRecord(_chosen(state, which), WallClock().now_ms())
    step = transition(state, Context(record.delta, record.now_ms))
    if isinstance(state, Done):
        raise Unusable(f"run {run} is over: nothing runs in it any more, and nothing can be added to it")
    if is_refused(step.effects) or any(isinstance(effect, Command) for effect in step.effects):
        raise Unusable(
            f"run {run} would go on with this, or was released, and nobody has it open: nothing was changed. Go on "
            f"with it (`{resumption(place, run)}`), and type `/approvals drop {which}` there"
        )
    with told(f"run {run} cannot be written"):
        if restored.doubt is None and isinstance(log, Sealing):  # what was doubted stays so
            log.vouch()
        asyncio.run(renew_snapshot(InPlaceStore(log), restored))
        log.append((record,), durable=True)
    return state, step.next


def _chosen(state: State, which: int | str) -> Forget:
    """What takes it back. Raises Unusable where there is no approval of that number."""
    if not isinstance(which, int):
        return Forget()
    remembered = _remembered(state)
    if which > len(remembered):
        have = f"there are {len(remembered)}" if len(remembered) > 1 else "there is one" if remembered else NONE
        raise Unusable(f"there is no approval {which}: {have}. Nothing was changed")
    return Forget(remembered[which - 1])


def _remembered(state: State) -> tuple[Remembered, ...]:
    return tuple(each.remembered for each in _standing(state))


def _standing(state: State) -> tuple[StandingApproval, ...]:
    """Those of the run itself: its sub-agents have logs of their own."""
    return standing_approvals(lambda within: None if within else state)


def _tell(state: State, screen: Screen) -> None:
    standing = _standing(state)
    if not standing:
        screen.line(f"{NONE[0].upper()}{NONE[1:]}.")
    for line in standing_lines(standing, Policy() if state.session is None else state.session.settings.policy):
        screen.labelled("unasked", line)


def _as_json(name: str, state: State) -> dict[str, JsonValue]:
    policy = Policy() if state.session is None else state.session.settings.policy
    rules: list[JsonValue] = [
        {"tool": rule.tool, "pattern": patterns_shown(rule.input)} for rule in allowing_rules(policy)
    ]
    approvals: list[JsonValue] = [
        {"number": number, "told": approval_told(each), **_parts(each)}
        for number, each in enumerate(_remembered(state), start=1)
    ]
    return {
        "run": name if state.session is None else state.session.settings.session_id,
        "approvals": approvals,
        "allowing_rules": rules,
    }


def _parts(approval: Remembered) -> dict[str, JsonValue]:
    """The tool, with the input or the patterns that it is for; as scenarios write it."""
    match approval:
        case RememberedTool():
            return {"tool": approval.tool}
        case RememberedCall():
            return {"tool": approval.tool, "input": redacted(approval.input).value()}
        case RememberedPattern():
            return {"tool": approval.tool, "pattern": patterns_shown(approval.fields)}
        case _:
            assert_never(approval)
