"""What was seen in a scenario as lines: requests with what is new in each, answers, effects, and the ends of lives."""

from collections.abc import Iterator

from loopkernel_adapters.conform.asked import Call, Given, Item, Text
from loopkernel_adapters.conform.record import Exchange, Record
from loopkernel_adapters.conform.script import Answer, Called, Problem, Reply, Said

_LONGEST = 110
_MOST_NEW = 8


def lines_of(record: Record) -> Iterator[str]:
    """The whole trace."""
    before: tuple[Item, ...] = ()
    begun = record.exchanges[0].at_s if record.exchanges else 0.0
    for number, life in enumerate(record.lives):
        if number:
            yield f"process {number + 1}: it goes on with the session"
        for each in record.of_life(number):
            yield f"{each.at_s - begun:6.1f} s  request {each.number}: {len(each.asked.items)} items, new:"
            yield from _new(before, each)
            yield f"          answer: {answer_told(each.answer)}"
            before = each.asked.items
        if life.signalled:
            after = len(record.of_life(number)) - sum(e.number <= life.exchanges for e in record.of_life(number))
            yield f"          signalled after request {life.exchanges}; {after} requests came later"
        ended = "had to be ended" if life.status is None else f"ended with status {life.status}"
        yield f"          process {number + 1} {ended}"
    yield f"effects: {', '.join(f'{each.word} {each.label}' for each in record.effects) or 'none'}"


def _new(before: tuple[Item, ...], exchange: Exchange) -> Iterator[str]:
    """The items that the request before did not have; of the instructions nothing."""
    items = [item for item in exchange.asked.items if item not in before and not _is_instruction(item)]
    if not items and before:
        yield "            nothing"
    yield from (f"            {_item(item)}" for item in items[-_MOST_NEW:])
    gone = [item for item in before if isinstance(item, Call | Given) and item not in exchange.asked.items]
    yield from (f"            gone: {_item(item)}" for item in gone)


def _is_instruction(item: Item) -> bool:
    return isinstance(item, Text) and item.role == "system"


def _item(item: Item) -> str:
    match item:
        case Text(role, text):
            return _short(f"{role}: {text}")
        case Call():
            return _short(f"call {item.label} ({item.id}) of {item.name}: {item.arguments}")
        case Given(id, text, failed):
            return _short(f"{'error' if failed else 'answer'} to {id}: {text}")


def answer_told(answer: Answer) -> str:
    """What the model answers, in short."""
    match answer:
        case Problem(status=status, kind=kind, retry_after_s=wait):
            return f"error {status} {kind}" + (f", retry-after: {wait}" if wait is not None else "")
        case Reply(parts=parts, stop=stop, cut=cut):
            said = ", ".join(_part(part) for part in parts) or "nothing"
            return f"{said}; {f'cut: {cut.value}' if cut else f'stop: {stop.value}'}"


def _part(part: Said | Called) -> str:
    if isinstance(part, Said):
        return f"text {part.text!r}"
    return f"{'half of ' if part.half else ''}call {part.label} ({part.call_id})"


def _short(text: str) -> str:
    line = " / ".join(text.split("\n"))
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 20]}... {line[-16:]}"
