"""`loopkernel replay FILE --policy NAME`: where another policy parts from what was recorded, and what it does then."""

from collections import Counter
from typing import assert_never

from attrs import evolve, frozen
from loopkernel.data import events
from loopkernel.data.blocks import text_of
from loopkernel.data.choices import Lifetime
from loopkernel.data.json_text import JsonValue
from loopkernel.data.policy import Policy
from loopkernel.data.states import State
from loopkernel.data.thread_deltas import Created
from loopkernel.data.words import UserAction

from loopkernel_adapters.cli.recording_files import LogSource, where
from loopkernel_adapters.cli.screen import Screen, in_one_line
from loopkernel_adapters.cli.summary import phase_of
from loopkernel_adapters.cli.trace import labelled
from loopkernel_adapters.cli.words import counted
from loopkernel_adapters.transcripts.comparing import Comparison, Difference, Ends, NotAskedFor, ends_of, played_under
from loopkernel_adapters.transcripts.replaying import AS_RECORDED, Replayed
from loopkernel_adapters.transcripts.source import Source

SHOWN = 12  # differences that are told, unless all findings are wanted


@frozen(kw_only=True)
class WhatIf:
    """What the log under the policy did: how its turns and calls ended, and what it did otherwise.

    `recorded` is how they ended as recorded: of a log of ours as it says itself, of another recording as it is played.
    """

    name: str
    silence_judged: bool
    ends: Ends
    recorded: Ends
    comparison: Comparison


def as_recorded(source: Source) -> Policy:
    """What the recording was made under, as far as that is known."""
    if isinstance(source, LogSource) and isinstance(begun := source.records[0].delta, Created):
        return begun.policy
    return AS_RECORDED


def asked_what_if(
    source: Source, name: str, policy: Policy, *, recorded: Policy | None = None
) -> tuple[Replayed, WhatIf]:
    """The recording, played under the policy, as a session that may have many turns; held against `recorded`.

    By default that is what it was recorded under. Raises Unreadable, OSError.
    """
    recorded = as_recorded(source) if recorded is None else recorded
    found, comparison = played_under(source, evolve(policy, lifetime=Lifetime.SESSION), recorded)
    return found, WhatIf(
        name=name,
        silence_judged=policy.silence_ms is None or found.times_pieces,
        ends=ends_of(conversation.records for conversation in found.conversations),
        recorded=ends_of([source.records]) if isinstance(source, LogSource) else comparison.ends,
        comparison=comparison,
    )


def show_what_if(found: Replayed, under: WhatIf, screen: Screen, *, shows_all: bool) -> None:
    """Where the two part, what happens then, and the numbers of both.

    The calls that ask stand apart: that a person is asked changes nothing else, since they do as recorded.
    """
    told = under.comparison
    asked, others = told.asked, told.others
    place = parted(found.format, told)
    screen.labelled("what if", f"under the policy {in_one_line(under.name)}, instead of as it was recorded:")
    if place is None:
        apart = "but that some calls ask first, " if asked else ""
        screen.labelled("", f"nothing goes otherwise, {apart}the same calls run, and each turn ends as it did")
    else:
        apart = ", but that some calls may ask first" if asked else ""
        screen.labelled("parts at", f"{place}; up to there, both do the same{apart}")
    shown = others if shows_all else others[:SHOWN]
    for difference in shown:
        screen.labelled("", f"{_place(found, difference)}: {_times(difference)}{in_words(difference)}")
    if len(others) > len(shown):
        screen.labelled("", f"{len(others) - len(shown)} more; --findings shows all")
    if told.not_asked_for:
        first = told.not_asked_for[0]
        missing = counted(len(told.not_asked_for), "part")
        there = where(found.format, first.record, first.part)
        screen.labelled("", f"{there}: from here on, {missing} of the recording are not asked for")
    screen.labelled("turns", f"{_numbers(under.ends.turns)} (recorded: {_numbers(under.recorded.turns)})")
    screen.labelled("answers", f"{_numbers(under.ends.calls)} (recorded: {_numbers(under.recorded.calls)})")
    if under.recorded != told.ends:
        ends = f"turns {_numbers(told.ends.turns)}; answers {_numbers(told.ends.calls)}"
        screen.labelled("played", f"as recorded, it gives {ends}: a play has only what was said, called and answered")
        screen.labelled("", "what goes otherwise is told from that play")
    elif found.counts.unanswered:
        open_calls = counted(found.counts.unanswered, "call")
        screen.labelled("", f"{open_calls} without a result: the loop answers such a call itself, which counts here")
    if asked:
        calls = counted(sum(difference.times for difference in asked), "call")
        first_asked = f"first at {_place(found, asked[0])}: {in_words(asked[0])}"
        screen.labelled("asks", f"{calls} more than recorded, {first_asked}")
    if place is not None:
        screen.labelled("unknown", "what the model would have said instead; it is given the recorded replies all along")
    if asked:
        screen.labelled("unknown", "what the tools may do, which decides whether they ask; a person does as recorded")
    if not under.silence_judged:
        screen.labelled("unknown", "how long the model was silent: no times of the pieces of its replies are recorded")


def parted(kind: str, told: Comparison) -> str | None:
    """The first place at which the two differ in more than that a person is asked, in words; None: nowhere.

    `kind` is the format of the recording.
    """
    places = [difference.place for difference in told.others] + list(told.not_asked_for[:1])
    if not places:
        return None
    first = min(places, key=lambda place: 0 if place is None else place.record)
    return "the beginning" if first is None else where(kind, first.record, first.part)


def _place(found: Replayed, difference: Difference) -> str:
    place = difference.place
    told = "before the first record" if place is None else where(found.format, place.record, place.part)
    return f"{told}{f', in {in_one_line(difference.conversation)}' if difference.conversation else ''}"


def _times(difference: Difference) -> str:
    return "" if difference.times == 1 else f"here first, and {difference.times} times in all: "


def _numbers(numbers: Counter[str]) -> str:
    return ", ".join(f"{number} {what}" for what, number in numbers.items()) or "none"


def in_words(difference: Difference) -> str:
    """What happens under the policy, as a sentence."""
    event, state = difference.event, difference.state
    match event:
        case NotAskedFor():
            return "the loop has stopped, and asks for no reply; it is made to go on, so that the recorded one goes in"
        case events.ApprovalAsked():
            return f"the call of {_tool(event, state)} waits for a person"
        case events.ToolEnded(result=result):
            reason = f" ({result.reason.value})" if result.reason is not None else ""
            before = f", not {difference.recorded} as recorded" if difference.recorded else ""
            said = in_one_line(text_of(result.content), 60)
            return f"the call of {result.tool} ends as {result.status.value}{reason}{before}: {said}"
        case events.TurnEnded(reason=reason):
            return f"the turn ends here: {reason.value}"
        case events.Refused(action=action, reason=refusal):
            what = "what the user says" if action is UserAction.SAY else action.value
            return f"{what} is refused: {refusal.value}, since the run is {phase_of(state)}"
        case events.ReplyFailed(error=error):
            return f"the request for a reply fails: {error.value}"
        case events.CompactionStarted():
            again = "the recorded numbers of tokens know nothing of that, so it may soon be done again"
            return f"{labelled(event, state)[1]}; {again}"
        case (
            events.CorrectionInjected()
            | events.HandoffStarted()
            | events.LimitReached()
            | events.LoopNoted()
            | events.LoopStopped()
            | events.Queued()
            | events.ResultsCleared()
            | events.RetryScheduled()
            | events.Steered()
            | events.ToolDisabled()
            | events.WorkCancelled()
        ):
            return labelled(event, state)[1]
        case _:
            assert_never(event)


def _tool(event: events.ApprovalAsked, state: State) -> str:
    """The tool of the call, and its id."""
    ledger = getattr(state, "ledger", None)  # which the phases have that can wait for a person
    entries = () if ledger is None else ledger.entries
    return next((entry.call.tool for entry in entries if entry.call.id == event.call), f"call {event.call}")


def as_json(found: Replayed, under: WhatIf) -> dict[str, JsonValue]:
    """The same as numbers and places."""
    told = under.comparison
    differences: list[JsonValue] = [
        {
            "place": None if difference.place is None else difference.place.record,
            "part": "" if difference.place is None else difference.place.part,
            "conversation": difference.conversation,
            "event": type(difference.event).__name__,
            "text": in_words(difference),
            "times": difference.times,
        }
        for difference in told.differences
    ]
    return {
        "policy": under.name,
        "parts_at": parted(found.format, told),
        "differences": differences,
        "turns": dict(under.ends.turns),
        "turns_recorded": dict(under.recorded.turns),
        "turns_played": dict(told.ends.turns),
        "calls": dict(under.ends.calls),
        "calls_recorded": dict(under.recorded.calls),
        "calls_played": dict(told.ends.calls),
        "not_reached": len(told.not_asked_for),
        "silence_judged": under.silence_judged,
    }
