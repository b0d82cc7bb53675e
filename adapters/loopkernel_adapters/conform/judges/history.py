"""Judges of what the model is sent: pairing, order, and that nothing of the history is lost or changed."""

from collections.abc import Iterator

from loopkernel_adapters.conform.asked import Asked, Call, Given, Text
from loopkernel_adapters.conform.judges.judgement import Judge, Judgement, check
from loopkernel_adapters.conform.record import Exchange, Record
from loopkernel_adapters.conform.scenario import End, marker_of
from loopkernel_adapters.conform.scorecard import Weight
from loopkernel_adapters.conform.script import Called, Problem, output_of

_NOISE = "x" * 100
_SHOWN = 160  # characters of either end of an answer that is wrong


def pairing(record: Record) -> Iterator[Judgement]:
    """PAIR: in each request each call has one answer, before anybody else speaks, and each answer its call."""
    for each in record.exchanges:
        if each.asked.calls or any(isinstance(item, Given) for item in each.asked.items):
            wrong, weight = _pairing_fault(each.asked)
            yield check("PAIR", bool(wrong), weight, f"request {each.number}: {wrong}")


def _pairing_fault(asked: Asked) -> tuple[str, Weight]:
    ids = [call.id for call in asked.calls]
    wrong = _unpaired(asked)
    if wrong or not any(_neighbours_share_an_id(asked)):
        return wrong, Weight.MUST
    twice = next(name for name in ids if ids.count(name) > 1)
    return f"two calls side by side have the id {twice}, which providers refuse", Weight.SHOULD


def _neighbours_share_an_id(asked: Asked) -> Iterator[bool]:
    """Of each call, whether another one of its id waits for its answer, too."""
    waiting: list[str] = []
    for item in asked.items:
        match item:
            case Call(id=name):
                yield name in waiting
                waiting.append(name)
            case Given(id=name) if name in waiting:
                waiting.remove(name)
            case _:
                pass


def _unpaired(asked: Asked) -> str:
    open_calls: list[str] = []
    answered: set[str] = set()
    for item in asked.items:
        match item:
            case Call(id=name):
                open_calls.append(name)
                answered.discard(name)
            case Given(id=name) if name in open_calls:
                open_calls.remove(name)
                answered.add(name)
            case Given(id=name):
                return f"call {name} is answered twice" if name in answered else f"there is no call for answer {name}"
            case Text(role="user") if open_calls:
                return f"call {open_calls[0]} has no answer before the user speaks"
            case Text():
                pass
    return f"call {open_calls[0]} has no answer" if open_calls else ""


def order(record: Record) -> Iterator[Judgement]:
    """ORDER: answers come in the order of their calls."""
    for each in record.exchanges:
        calls = [call.id for call in each.asked.calls]
        if len(calls) > 1 and len(set(calls)) == len(calls):
            given = [item.id for item in each.asked.items if isinstance(item, Given)]
            expected = [call for call in calls if call in given]
            detail = f"request {each.number}: the calls are {calls}, their answers {given}"
            yield check("ORDER", given != expected and sorted(given) == sorted(expected), Weight.NOTED, detail)


def shown(record: Record) -> Iterator[Judgement]:
    """SHOWN: a call that has run is in the requests of its life that follow, and in those of later ones."""
    for exchange, reply, call in record.delivered:
        if not reply.ended or not record.count("begin", call.label) or _is_killed(record, exchange.life):
            continue
        for later in _later(record, exchange):
            there = any(each.label == call.label for each in later.asked.calls)
            detail = f"call {call.label} has run, and request {later.number} has nothing of it"
            yield check("SHOWN", not there and not _summed_up(record, exchange, later), Weight.MUST, detail)


def results(record: Record) -> Iterator[Judgement]:
    """RESULT: a call whose command has come to its end is answered with what that command has printed."""
    for exchange, _, call in record.delivered:
        if not record.count("end", call.label) or record.lives[exchange.life].signalled:
            continue
        for later in _later(record, exchange)[:1]:
            answers = [given for each, given in later.asked.answers() if each.label == call.label]
            if not answers or answers[-1] is None:
                continue  # which PAIR and SHOWN judge
            text, others = answers[-1].text, _other_outputs(record, call, answers[-1].text)
            if others:
                yield Judgement("RESULT", Weight.MUST, f"call {call.label} is answered with the output of {others[0]}")
            else:
                cut = call.prints and _NOISE in text  # which end of a long output is kept is a choice
                wrong = output_of(call.label) not in text and not cut
                detail = (
                    f"call {call.label} has run, and its answer has nothing of what it printed: {_both_ends(text)!r}"
                )
                yield check("RESULT", wrong, Weight.SHOULD, detail)


def _both_ends(text: str) -> str:
    """An answer so far as a person needs it: many agents begin with the command, and end with what it gave.

    It is cut between words, since a path is hidden only where it is whole.
    """
    if len(text) <= 2 * _SHOWN:
        return text
    return f"{text[:_SHOWN].rpartition(' ')[0]} ... {text[-_SHOWN:].partition(' ')[2]}"


def _other_outputs(record: Record, call: Called, text: str) -> list[str]:
    labels = {other.label for _, _, other in record.delivered if other.label != call.label}
    return sorted(label for label in labels if output_of(label) in text)


def one_end(record: Record) -> Iterator[Judgement]:
    """ONE-END: what a call was answered with stays its answer."""
    for before, after in _neighbours(record):
        then = {call.label: given for call, given in before.asked.answers() if given is not None}
        for call, given in after.asked.answers():
            if given is not None and call.label in then and len(then) == len(before.asked.calls):
                changed = given.text != then[call.label].text and not _summed_up(record, before, after)
                detail = f"the answer to call {call.label} is another in request {after.number} than in {before.number}"
                yield check("ONE-END", changed, Weight.SHOULD, detail)


def prefix(record: Record) -> Iterator[Judgement]:
    """PREFIX: what was in a request stays in the next, in its order."""
    for before, after in _neighbours(record):
        if _summed_up(record, before, after):
            continue
        kept = _spine(before.asked)
        later = iter(_spine(after.asked))
        lost = next((one for one in kept if one not in later), None)
        detail = f"request {after.number} has lost, or moved, {lost} of request {before.number}"
        yield check("PREFIX", lost is not None, Weight.SHOULD, detail)


def _is_refused(exchange: Exchange) -> bool:
    """Whether it was refused as it was, so that the next one has to be another."""
    return isinstance(exchange.answer, Problem) and exchange.answer.status == 400


def _spine(asked: Asked) -> list[str]:
    """What of a request is of the script: its calls, its answers, and what the person has said."""
    found: list[str] = []
    for item in asked.items:
        match item:
            case Call():
                found.append(f"call {item.label}")
            case Given(id=name):
                found.append(f"the answer to {name}")
            case Text(role="user", text=text) if "say-" in text:
                found.append(f"prompt {text[text.index('say-') :][:6]}")
            case Text():
                pass
    return found


def task(record: Record) -> Iterator[Judgement]:
    """TASK: each request has what the person asked for first; behind a cut the message of its turn, or a summary."""
    for each in record.exchanges:
        summed = any(number < each.number for number in record.summaries)
        was_cut = any(map(_is_refused, record.exchanges[: each.number - 1]))
        lives = (0, each.life, each.life - 1) if was_cut else (0,)  # the turn of the life before may be ended first
        there = summed or any(_has_prompt(each, life) for life in lives)
        yield check("TASK", not there, Weight.MUST, f"request {each.number} has not the task")


def _has_prompt(exchange: Exchange, life: int) -> bool:
    return any(marker_of(life) in text for text in exchange.asked.words("user"))


def inputs(record: Record) -> Iterator[Judgement]:
    """CONSERVE: what a person says is in the requests that follow, once."""
    for life in range(1, len(record.lives)):
        for each in record.of_life(life)[-1:]:  # an interrupted turn may be brought to its end first
            times = sum(marker_of(life) in text for text in each.asked.words("user"))
            yield check("CONSERVE", times == 0, Weight.MUST, f"request {each.number} has not the prompt of its process")
            if times:
                yield check("CONSERVE", times > 1, Weight.SHOULD, f"request {each.number} has a prompt {times} times")


def _later(record: Record, exchange: Exchange) -> list[Exchange]:
    """The exchanges behind it, but those whose life was begun after a kill, which WRITE-AHEAD judges."""
    return [
        each
        for each in record.exchanges
        if each.number > exchange.number
        and not any(_is_killed(record, life) for life in range(exchange.life, each.life))
    ]


def _neighbours(record: Record) -> Iterator[tuple[Exchange, Exchange]]:
    for before, after in zip(record.exchanges, record.exchanges[1:], strict=False):
        if before.life == after.life or not _is_killed(record, before.life):
            yield before, after


def _is_killed(record: Record, life: int) -> bool:
    return record.scenario.lives[life].end is End.KILLED


def _summed_up(record: Record, before: Exchange, after: Exchange) -> bool:
    """Whether the history was to become shorter between them: a summary was asked for, or it was too long as it was."""
    too_long = any(_is_refused(each) for each in record.exchanges[before.number - 1 : after.number - 1])
    return too_long or any(before.number <= number < after.number for number in record.summaries)


HISTORY_JUDGES: tuple[Judge, ...] = (pairing, order, shown, results, one_end, prefix, task, inputs)
