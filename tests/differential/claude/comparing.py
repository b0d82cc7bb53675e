"""Two loops beside each other: every difference between what was seen of one conversation, in order, and its class."""

import enum
from collections.abc import Iterator

from attrs import evolve, frozen

from tests.differential.claude.observations import Seen, Shown
from tests.differential.claude.scripts import Answer, Conversation, Reply


class What(enum.Enum):
    """In what the two differ."""

    ORDER = "the order of results"  # and in nothing else up to there
    REQUEST = "a request"
    NO_REQUEST = "a request of theirs is missing"
    ONE_MORE = "a request of theirs is not made"
    SUMMARY = "the summaries"
    LIMIT = "the output limit"
    STREAM = "whether the reply is to be a stream"
    RUNS = "the runs"
    WAITS = "the waits"
    ENDS = "the ends"


@frozen
class Difference:
    """A difference: what both have done, and the answer that they had been given last before it."""

    what: What
    after: Answer | None
    ours: object
    theirs: object


def differences(conversation: Conversation, ours: Seen, theirs: Seen) -> Iterator[Difference]:
    """A difference in the order of results, if there is one, and the first other one."""
    if ours == theirs:
        return
    mine, others = _in_one_order(ours), _in_one_order(theirs)
    for place, (first, second) in enumerate(zip(ours.requests, theirs.requests, strict=False)):
        if mine.requests[place] != others.requests[place]:
            break
        if first != second:
            yield Difference(What.ORDER, _answer(conversation, place - 1), first, second)
            break
    found = _first(conversation, mine, others)
    if found is not None:
        yield found


def _first(conversation: Conversation, ours: Seen, theirs: Seen) -> Difference | None:
    shared = min(len(ours.requests), len(theirs.requests))
    for place in range(shared):
        before = _answer(conversation, place - 1)
        if _up_to(ours.summaries, place) != _up_to(theirs.summaries, place):
            return Difference(What.SUMMARY, before, ours.summaries, theirs.summaries)
        if ours.requests[place] != theirs.requests[place]:
            return Difference(What.REQUEST, before, ours.requests[place], theirs.requests[place])
        if ours.limits[place] != theirs.limits[place]:
            return Difference(What.LIMIT, before, ours.limits[place], theirs.limits[place])
        if ours.streamed[place] != theirs.streamed[place]:
            return Difference(What.STREAM, before, ours.streamed[place], theirs.streamed[place])
    last = _answer(conversation, shared - 1)
    if len(ours.requests) != len(theirs.requests):
        what = What.NO_REQUEST if len(ours.requests) < len(theirs.requests) else What.ONE_MORE
        longer = max(ours.requests, theirs.requests, key=len)
        return Difference(what, last, len(ours.requests), (len(theirs.requests), longer[shared]))
    for what, first, second in (
        (What.SUMMARY, ours.summaries, theirs.summaries),
        (What.RUNS, ours.runs, theirs.runs),
        (What.ENDS, ours.ends, theirs.ends),
    ):
        if first != second:
            return Difference(what, last, first, second)
    if ours.waits != theirs.waits:
        # How often both have waited is known only at the end: it is put behind the first answer that was lost.
        lost = (each for each in conversation.answers if isinstance(each, Reply) and each.ends != "whole")
        return Difference(What.WAITS, next(lost, last), ours.waits, theirs.waits)
    return None


def _up_to(summaries: tuple[int, ...], place: int) -> tuple[int, ...]:
    return tuple(number for number in summaries if number <= place)


def _answer(conversation: Conversation, place: int) -> Answer | None:
    return conversation.answers[place] if 0 <= place < len(conversation.answers) else None


def _in_one_order(seen: Seen) -> Seen:
    """The same with the results of each message in the order of their ids."""
    return evolve(seen, requests=tuple(tuple(_sorted(message) for message in request) for request in seen.requests))


def _sorted(message: Shown) -> Shown:
    role, blocks = message
    results = iter(sorted(block for block in blocks if block[0] == "result"))
    return role, tuple(next(results) if block[0] == "result" else block for block in blocks)
