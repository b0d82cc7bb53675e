"""Judges of what runs: by the effects that commands have left, not by what is said of them."""

from collections import Counter
from collections.abc import Iterator

from loopkernel_adapters.conform.judges.judgement import Judge, Judgement, check
from loopkernel_adapters.conform.record import Record
from loopkernel_adapters.conform.scorecard import Weight
from loopkernel_adapters.conform.script import Stop, output_of


def final_arguments(record: Record) -> Iterator[Judgement]:
    """FINAL-ARGS: nothing runs on half of its arguments, nor before its reply has come to an end."""
    for _, reply, call in record.delivered:
        if call.tool is not None or (call.raw is not None and not call.half):
            continue
        ran = record.count("part", call.label) > 0
        if call.half:
            yield check("FINAL-ARGS", ran, Weight.MUST, f"half of the command of call {call.label} was run")
        elif not reply.ended:
            detail = f"call {call.label} was run though the end of its reply never came"
            yield check("FINAL-ARGS", ran, Weight.SHOULD, detail)
        else:
            yield Judgement("FINAL-ARGS")


def at_most_once(record: Record) -> Iterator[Judgement]:
    """AT-MOST-ONCE: a command runs as often as the model has called for it."""
    for label, times in Counter(call.label for _, _, call in record.delivered).items():
        begun = record.count("part", label)
        detail = f"the model called for {label} {_times(times)}, and it ran {_times(begun)}"
        yield check("AT-MOST-ONCE", begun > times, Weight.MUST, detail)


def siblings(record: Record) -> Iterator[Judgement]:
    """SIBLING: when a call fails, the others of its reply keep their answers."""
    for exchange, reply, failing in record.delivered:
        if not (failing.status or failing.tool) or len(reply.calls) < 2:
            continue
        for later in [each for each in record.exchanges if each.number == exchange.number + 1]:
            given = {call.label: answer for call, answer in later.asked.answers()}
            for call in reply.calls:
                answer = given.get(call.label)
                if call is not failing and record.count("end", call.label):
                    lost = answer is None or output_of(call.label) not in answer.text
                    detail = f"call {failing.label} failed, and request {later.number} lacks the output of {call.label}"
                    yield check("SIBLING", lost, Weight.MUST, detail)


def told_calls(record: Record) -> Iterator[Judgement]:
    """ONE-END: each call of a whole reply is in the next request, run or not, with an answer."""
    for exchange, reply, call in record.delivered:
        if not reply.ended or call.half or record.lives[exchange.life].signalled:
            continue
        if reply.stop is Stop.OUTPUT_LIMIT:
            continue  # such a reply may be taken back as a whole, and asked for under a higher limit
        for later in [each for each in record.exchanges if each.number == exchange.number + 1]:
            there = any(each.label == call.label for each in later.asked.calls)
            detail = f"call {call.label} was made, and request {later.number} has nothing of it"
            # One that has run is SHOWN's; of one that has not, words may tell the model instead.
            yield check("ONE-END", not there and not record.count("begin", call.label), Weight.NOTED, detail)


def _times(number: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(number, f"{number} times")


RUN_JUDGES: tuple[Judge, ...] = (final_arguments, at_most_once, siblings, told_calls)
