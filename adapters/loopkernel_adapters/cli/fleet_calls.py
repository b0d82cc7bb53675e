"""Calls of a run that workers serve: those that wait for a person, listed, and answered in the words of a chat."""

from loopkernel.data.json_text import Json
from loopkernel.data.user_deltas import AnswerAfterCrash, AnswerQuestion, Approve, CallAnswer, Reject, RememberTool

from loopkernel_adapters.cli.dialogue import Word, corrected, said_after_crash_in, said_in
from loopkernel_adapters.cli.fleet_store import dsn_of, in_fleet
from loopkernel_adapters.cli.outcomes import ExitStatus, Unusable
from loopkernel_adapters.cli.screen import LONGEST_LINE, Screen, in_one_line
from loopkernel_adapters.cli.shown_text import told_input, told_name
from loopkernel_adapters.cli.trace import in_words
from loopkernel_adapters.fleet.running import FleetRun
from loopkernel_adapters.optional_ports import NoSuchAgent
from loopkernel_adapters.sessions.waiting_calls import WaitingCall

ANSWERS = "yes, no [WHY], always, or edit JSON"
ANSWERS_AFTER_CRASH = "done [WHAT IT GAVE], rerun, or cancel"


def list_waiting(name: str, store: str | None, screen: Screen) -> ExitStatus:
    """One line for each call that waits, also in sub-agents. Raises Unusable where the run is not there."""
    calls = in_fleet(dsn_of(store), f"run {name} cannot be looked at", lambda runs: FleetRun(runs, name).waiting())
    for call in calls:
        screen.labelled("ask", _told(call))
    if not calls:
        screen.labelled("ask", "nothing: no call waits for a person")
    return ExitStatus.NATURAL_END


def answer_call(name: str, address: str, words: str | None, store: str | None, screen: Screen) -> ExitStatus:
    """Have the answer wait for the run, or for its sub-agent. Raises Unusable for what is none."""
    if words is None:
        raise Unusable(f"there is no answer: write it behind the run, as in `send {name} yes --call {address}`")

    async def answered(run: FleetRun) -> WaitingCall:
        waiting = await run.waiting()
        found = next((call for call in waiting if in_words(call.path) == address), None)
        if found is None:
            have = ", ".join(in_words(call.path) for call in waiting)
            raise Unusable(f"no call {address} of run {name} waits: {f'there is {have}' if have else 'none does'}")
        try:
            await run.answer(found, _answer(found, words))
        except NoSuchAgent as error:
            raise Unusable(f"call {address} of run {name} waits no more: {error}") from error
        return found

    what = f"call {address} of run {name} cannot be answered"
    call = in_fleet(dsn_of(store), what, lambda runs: answered(FleetRun(runs, name)))
    screen.labelled("sent", f"{in_one_line(words)!r} to {_called(call)}; a worker hands it on")
    return ExitStatus.NATURAL_END


def _answer(call: WaitingCall, words: str) -> CallAnswer:
    """What the words say of that call: an exact word, or nothing. Raises Unusable."""
    number = call.path[-1]
    if call.question is not None:
        return AnswerQuestion(call=number, value=Json.of(words.strip()) if words.strip() else None)
    if call.after_crash:
        after_crash = said_after_crash_in(words)
        if after_crash is None:
            raise Unusable(f"{words!r} is not an answer: write {ANSWERS_AFTER_CRASH}. Nothing was sent")
        return AnswerAfterCrash(call=number, kind=after_crash.kind, text=after_crash.rest)
    said = said_in(words)
    if said is None or said.word is Word.SHOW:
        raise Unusable(f"{words!r} is not an answer: write {ANSWERS}. Nothing was sent")
    if said.word is Word.EDIT:
        try:
            return corrected(number, said.rest)
        except ValueError as error:
            raise Unusable(f"{error}. Nothing was sent") from error
    if said.word is Word.NO:
        return Reject(call=number, why=said.rest)
    return Approve(call=number, remember=RememberTool() if said.word is Word.ALWAYS else None)


def _called(call: WaitingCall) -> str:
    return f"call {in_words(call.path)}, {told_name(call.tool)} {told_input(call.input, LONGEST_LINE)}"


def _told(call: WaitingCall) -> str:
    if call.question is not None:
        return f"{_called(call)}: asks {in_one_line(call.question)!r} (any words answer; '' declines)"
    if call.after_crash:
        return f"{_called(call)}: was running when its process ended ({ANSWERS_AFTER_CRASH})"
    return f"{_called(call)}: {ANSWERS}"
