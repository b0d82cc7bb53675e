"""A loop without a fault, played on paper: what would be seen of it in a scenario, for judges to find nothing in."""

from collections.abc import Iterator
from typing import assert_never

from attrs import evolve, frozen
from loopkernel_adapters.conform.asked import Asked, Call, Given, Item, Text
from loopkernel_adapters.conform.record import Effect, Exchange, LifeSeen, Record
from loopkernel_adapters.conform.scenario import End, Scenario, prompt_of
from loopkernel_adapters.conform.script import Called, Problem, Reply, Said, command_of, output_of, said


@frozen
class Ran:
    """What a call leaves behind: its effects and its answer."""

    effects: tuple[Effect, ...]
    given: Given


def record_of(scenario: Scenario) -> Record:
    """What is seen of the loop in the scenario."""
    items: list[Item] = [Text("system", "be good")]
    exchanges: list[Exchange] = []
    effects: list[Effect] = []
    lives: list[LifeSeen] = []
    left, now = list(scenario.answers), 0.0
    for number, life in enumerate(scenario.lives):
        items.append(Text("user", prompt_of(number)))
        over = False
        while not over:
            answer = left.pop(0) if left else said("done")
            exchanges.append(_exchange(len(exchanges) + 1, number, now, items, answer))
            match answer:
                case Problem(status=status, retry_after_s=wait):
                    now += 1.0 if wait is None else float(wait)
                    short = _in_short(number)
                    over = status == 401 or (status == 400 and items[1:] == short)
                    if status == 400:
                        items[1:] = short
                case Reply(ended=False):
                    now += 1.0
                case Reply():
                    over = not any(_runs(call) or not call.half for call in answer.calls) and bool(answer.parts)
                    over = over and answer.stop.value != "output limit"
                    cut_within = life.within if life.within in {call.label for call in answer.calls} else None
                    calls = _with_ids_of_their_own(answer.calls)
                    items += _said_and_called(evolve(answer, parts=(*_texts(answer), *calls)))
                    for call in calls:
                        ran = _run(call, stopped=cut_within is not None)
                        effects += ran.effects
                        items.append(ran.given)
                    now += 1.0
                    if cut_within is not None:
                        over = True
                case _:
                    assert_never(answer)
        stopped = life.end is not End.BY_ITSELF
        lives.append(
            LifeSeen(status=0, signalled=stopped, exchanges=len(exchanges) if stopped else 0, effects=len(effects))
        )
    return Record(scenario=scenario, exchanges=tuple(exchanges), effects=tuple(effects), lives=tuple(lives))


def _in_short(life: int) -> list[Item]:
    """All that came before in a few words, and what is to be done now."""
    summary = Text("user", f"in short: {prompt_of(0)}")
    return [summary, Text("user", prompt_of(life))] if life else [summary]


def _exchange(number: int, life: int, now: float, items: list[Item], answer: Reply | Problem) -> Exchange:
    asked = Asked(items=tuple(items), tools=(), streams=True, model="m")
    return Exchange(number=number, life=life, at_s=now, answered_s=now, asked=asked, answer=answer)


def _said_and_called(reply: Reply) -> Iterator[Item]:
    for part in reply.parts:
        if isinstance(part, Said):
            yield Text("assistant", part.text)
        else:
            yield Call(part.call_id, "shell" if part.tool is None else part.tool, arguments_of(part))


def _texts(reply: Reply) -> tuple[Said, ...]:
    return tuple(part for part in reply.parts if isinstance(part, Said))


def _with_ids_of_their_own(calls: tuple[Called, ...]) -> tuple[Called, ...]:
    taken = [call.call_id for call in calls]
    return tuple(
        evolve(call, id=f"{call.call_id}_{place}") if call.call_id in taken[:place] else call
        for place, call in enumerate(calls)
    )


def arguments_of(call: Called) -> str:
    """The arguments as the loop tells them."""
    return call.raw if call.raw is not None else command_of(call, "effects")


def _runs(call: Called) -> bool:
    return call.tool is None and call.raw is None and not call.half


def _run(call: Called, *, stopped: bool) -> Ran:
    if not _runs(call):
        return Ran((), Given(call.call_id, "it cannot be run", failed=True))
    begun = (Effect("part", call.label), Effect("begin", call.label))
    if stopped:
        return Ran(begun, Given(call.call_id, "cancelled", failed=True))
    return Ran((*begun, Effect("end", call.label)), Given(call.call_id, output_of(call.label)))
