"""What a loop does where loops may differ, as it was seen: nothing here is judged."""

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise

from loopkernel_adapters.conform.record import Effect, Record
from loopkernel_adapters.conform.script import Reply

QUESTIONS: Mapping[str, str] = {
    "parallel": "Do the calls of a reply run together?",
    "half-call-output-limit": "What does a call become that the output limit cuts?",
    "text-output-limit": "What does a text become that the output limit cuts?",
    "text-clean-end": "What does a text become whose stream ends early?",
    "half-call-clean-end": "What does a call become whose stream ends early?",
    "half-call-reset": "What does a call become whose connection is reset?",
    "empty-reply": "What follows an empty reply?",
    "calls-with-natural-stop": "Does a call run whose reply says that the turn is over?",
    "unknown-tool": "Do other calls run beside one of an unknown tool?",
    "overloaded": "What follows when the server is overloaded?",
    "too-long": "What follows when the prompt is too long?",
    "cancel-within-command": "What is a cancelled command answered with?",
}


def choices_seen(record: Record) -> Iterator[tuple[str, str]]:
    """The choice that the scenario shows, if it does."""
    name = record.scenario.name
    if record.exchanges and name in QUESTIONS:
        yield name, _SEEN.get(name, _what_followed)(record)


def _parallel(record: Record) -> str:
    words = [each.word for each in record.effects if each.word != "part"]
    return "one after the other" if words == ["begin", "end"] * (len(words) // 2) else "together"


def _half_call(record: Record) -> str:
    if any(Effect("part", call.label) in record.effects for _, _, call in record.delivered if call.half):
        return "it runs as far as it came"
    if len(record.exchanges) < 2:
        return "the turn ends"
    asked = record.exchanges[1].asked
    answers = [given for call, given in asked.answers() if call.label == "a"]
    if answers:
        return "it is kept, and answered"
    return "it is dropped, and the same is asked again" if _same(record) else "it is dropped, and the model is told"


def _text(record: Record) -> str:
    if len(record.exchanges) < 2:
        return "the turn ends with it"
    kept = any("to be contin" in text for text in record.exchanges[1].asked.words("assistant"))
    return "it is kept, and gone on with" if kept else "it is dropped, and asked for again"


def _natural_stop(record: Record) -> str:
    return "it runs" if record.count("begin", "a") else "it does not run"


def _unknown(record: Record) -> str:
    return "they run" if record.count("begin", "b") else "they do not run"


def _too_long(record: Record) -> str:
    if record.summaries:
        return "a summary is made"
    return "another request is made" if len(record.exchanges) > 3 else "the turn ends"


def _cancelled(record: Record) -> str:
    resumed = record.of_life(1)
    if not resumed:
        return "nothing was asked later"
    given = [answer for call, answer in resumed[0].asked.answers() if call.label == "a"]
    if not given or given[0] is None:
        return "nothing"
    return "an error" if given[0].failed else "a text"


def _what_followed(record: Record) -> str:
    problem = next((e for e in record.exchanges if not isinstance(e.answer, Reply) or not e.answer.parts), None)
    if problem is None or problem.number == len(record.exchanges):
        return "the turn ends"
    return "the same is asked again" if _same(record) else "the model is told to go on"


def _same(record: Record) -> bool:
    """Whether some request has the very items of the one before."""
    asked = [each.asked.items for each in record.exchanges]
    return any(before == after for before, after in pairwise(asked))


_SEEN: Mapping[str, Callable[[Record], str]] = {
    "parallel": _parallel,
    "half-call-output-limit": _half_call,
    "half-call-clean-end": _half_call,
    "half-call-reset": _half_call,
    "text-output-limit": _text,
    "text-clean-end": _text,
    "calls-with-natural-stop": _natural_stop,
    "unknown-tool": _unknown,
    "too-long": _too_long,
    "cancel-within-command": _cancelled,
}
