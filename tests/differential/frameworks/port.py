"""A scenario as the script of a player, and what a player has seen as the record that is judged."""

from loopkernel_adapters.conform.asked import Asked, Call, Given, Item, Text, Tool
from loopkernel_adapters.conform.record import Effect, Exchange, LifeSeen, Record
from loopkernel_adapters.conform.scenario import Scenario, prompt_of
from loopkernel_adapters.conform.script import (
    Answer,
    Called,
    Problem,
    Said,
    as_json,
    command_of,
    cut_arguments,
    said,
)

from tests.differential.frameworks import stage

TOOL = Tool(name="shell", schema={"type": "object", "properties": {"command": {"type": "string"}}})


def script_of(scenario: Scenario) -> stage.Script:
    """What the player is given."""
    lives: list[stage.Life] = [
        {"prompt": prompt_of(number), "within": life.within} for number, life in enumerate(scenario.lives)
    ]
    return {"lives": lives, "answers": [_answer(each) for each in scenario.answers]}


def _answer(answer: Answer) -> stage.Answer:
    if isinstance(answer, Problem):
        return {"problem": answer.status, "message": answer.message, "retry_after_s": answer.retry_after_s}
    told: stage.Answer = {
        "text": "".join(part.text for part in answer.parts if isinstance(part, Said)),
        "calls": [_call(call) for call in answer.calls],
        "stop": answer.stop.value,
    }
    if answer.cut is not None:
        told["cut"] = answer.cut.value
    return told


def _call(call: Called) -> stage.ScriptedCall:
    given = as_json({"command": command_of(call, "effects")}) if call.raw is None else call.raw
    arguments = cut_arguments(call, given)
    return {"id": call.call_id, "tool": call.tool or TOOL.name, "arguments": arguments, "half": call.half}


def record_of(scenario: Scenario, seen: stage.Seen) -> Record:
    """What was seen, as that of any agent."""
    return Record(
        scenario=scenario,
        exchanges=tuple(
            Exchange(
                number=number,
                life=each["life"],
                at_s=each["at_s"],
                answered_s=each["answered_s"],
                asked=Asked(items=tuple(map(_item, each["items"])), tools=(TOOL,), streams=False, model="scripted"),
                answer=said("done") if each["answer"] is None else scenario.answers[each["answer"]],
            )
            for number, each in enumerate(seen["exchanges"], 1)
        ),
        effects=tuple(Effect(word, label) for word, label in seen["effects"]),
        lives=tuple(LifeSeen(**life) for life in seen["lives"]),
    )


def _item(item: stage.Item) -> Item:
    match item:
        case ["call", name, tool, arguments]:
            return Call(name, tool, arguments)
        case ["given", name, text, failed]:
            return Given(name, text, bool(failed))
        case [_, role, text]:
            return Text(role, text)
        case _:
            raise ValueError(f"a player has told an item that is none: {item}")
