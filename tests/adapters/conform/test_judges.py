"""The judges: a loop without a fault breaks nothing in any world, and each planted fault is named by its law."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.laws import LAWS
from loopkernel_adapters.conform.asked import Call, Given, Item, Text, listed, mapping, word
from loopkernel_adapters.conform.catalogue import SCENARIOS, scenario_named
from loopkernel_adapters.conform.choices import QUESTIONS, choices_seen
from loopkernel_adapters.conform.judges import judged
from loopkernel_adapters.conform.record import Effect, Record
from loopkernel_adapters.conform.scenario import Life, Scenario
from loopkernel_adapters.conform.scorecard import Weight
from loopkernel_adapters.conform.script import TOO_LONG, Answer, Called, Cut, Stop, calling, limited, output_of, said
from loopkernel_adapters.conform.trace import lines_of
from loopkernel_adapters.conform.world import found_in

from tests.adapters.conform.ideal import record_of

Fault = Callable[[Record], Record]


def breached(record: Record) -> set[str]:
    """The laws that are broken in it."""
    return {each.law for each in judged(record) if each.weight is not None}


@st.composite
def worlds(draw: st.DrawFn) -> Scenario:
    """Rounds of calls, failures and words; the labels are all different."""
    answers: list[Answer] = []
    labels = iter(f"x{number}" for number in range(100))
    for _ in range(draw(st.integers(0, 4))):
        match draw(st.sampled_from(("calls", "limited", "cut", "unknown"))):
            case "calls":
                answers.append(calling(*(Called(label=next(labels)) for _ in range(draw(st.integers(1, 3))))))
            case "limited":
                answers.append(limited(draw(st.integers(0, 5))))
            case "cut":
                call = Called(label=next(labels), half=True)
                answers.append(calling(call, cut=draw(st.sampled_from(Cut))))
            case _:
                answers.append(
                    calling(Called(label=next(labels), tool="nowhere", raw="{}"), Called(label=next(labels)))
                )
    return Scenario(name="drawn", about="", laws=(), answers=(*answers, said("done")))


@given(worlds())
def test_a_loop_without_a_fault_breaks_nothing(world: Scenario) -> None:
    assert breached(record_of(world)) == set()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_it_breaks_nothing_in_the_catalogue_and_each_law_that_a_scenario_is_for_is_judged(scenario: Scenario) -> None:
    record = record_of(scenario)
    assert breached(record) == set()
    assert set(scenario.laws) <= {law.id for law in LAWS}
    assert set(scenario.laws) - {each.law for each in judged(record)} <= {"ADDRESS"}
    assert list(lines_of(record))


def changing_items(change: Callable[[tuple[Item, ...]], tuple[Item, ...]], since: int = 2) -> Fault:
    """The requests from that one on, changed."""

    def changed(record: Record) -> Record:
        return evolve(
            record,
            exchanges=tuple(
                evolve(each, asked=evolve(each.asked, items=change(each.asked.items))) if each.number >= since else each
                for each in record.exchanges
            ),
        )

    return changed


def without(gone: Callable[[Item], bool]) -> Callable[[tuple[Item, ...]], tuple[Item, ...]]:
    """The items but those."""
    return lambda items: tuple(item for item in items if not gone(item))


def answers_swapped(items: tuple[Item, ...]) -> tuple[Item, ...]:
    """The answers in reverse."""
    given = iter([item for item in items if isinstance(item, Given)][::-1])
    return tuple(next(given) if isinstance(item, Given) else item for item in items)


def with_one_id(items: tuple[Item, ...]) -> tuple[Item, ...]:
    """The calls and answers, all of one id."""
    return tuple(evolve(item, id="same") if isinstance(item, Call | Given) else item for item in items)


def of(label: str) -> Callable[[Item], bool]:
    """Whether an item is the call of that label, or its answer."""
    return lambda item: isinstance(item, Call | Given) and item.id == f"call_{label}"


def answered(text: str) -> Callable[[tuple[Item, ...]], tuple[Item, ...]]:
    """Each answer with this text."""
    return lambda items: tuple(evolve(item, text=text) if isinstance(item, Given) else item for item in items)


def more(*effects: Effect) -> Fault:
    """More effects."""
    return lambda record: evolve(record, effects=(*record.effects, *effects))


def asked_at_once(record: Record) -> Record:
    """The requests without the time between them."""
    return evolve(record, exchanges=tuple(evolve(each, at_s=0.0, answered_s=0.0) for each in record.exchanges))


def goes_on(record: Record) -> Record:
    """A first life that does not end."""
    return evolve(record, lives=(evolve(record.lives[0], status=None), *record.lives[1:]))


def one_more_request(record: Record) -> Record:
    """A request of the first life after it was cancelled."""
    first = record.exchanges[0]
    renumbered = (evolve(each, number=each.number + 1) for each in record.exchanges[1:])
    return evolve(record, exchanges=(first, evolve(record.exchanges[1], number=2, life=0), *renumbered))


def said_twice(items: tuple[Item, ...]) -> tuple[Item, ...]:
    """The prompt of the second life twice."""
    return tuple(item for each in items for item in ([each, each] if _is_second_prompt(each) else [each]))


def _is_second_prompt(item: Item) -> bool:
    return isinstance(item, Text) and "say-2:" in item.text


FAULTS: tuple[tuple[str, str, str, Fault], ...] = (
    ("an answer is missing", "one-call", "PAIR", changing_items(without(lambda item: isinstance(item, Given)))),
    ("a call is missing", "one-call", "PAIR", changing_items(without(lambda item: isinstance(item, Call)))),
    ("one id for two", "parallel", "PAIR", changing_items(with_one_id)),
    ("answered twice", "one-call", "PAIR", changing_items(lambda items: (*items, items[-1]))),
    ("answers in reverse", "parallel", "ORDER", changing_items(answers_swapped)),
    ("a run is forgotten", "rounds", "SHOWN", changing_items(without(of("a")))),
    ("the answer of another", "id-reused", "RESULT", changing_items(answered(output_of("a")), since=3)),
    ("an answer of nothing", "one-call", "RESULT", changing_items(answered("fine"))),
    ("an answer changes", "rounds", "ONE-END", changing_items(answered("fine"), since=4)),
    ("a call of nothing is dropped", "unknown-tool", "ONE-END", changing_items(without(of("u")))),
    ("history moves", "rounds", "PREFIX", changing_items(lambda items: (*items[4:6], *items[:4], *items[6:]), since=4)),
    ("the task is lost", "one-call", "TASK", changing_items(without(lambda item: isinstance(item, Text)))),
    ("half a command runs", "half-call-clean-end", "FINAL-ARGS", more(Effect("part", "a"))),
    ("a cut reply runs", "whole-call-clean-end", "FINAL-ARGS", more(Effect("part", "a"))),
    ("run twice", "one-call", "AT-MOST-ONCE", more(Effect("part", "a"))),
    ("a sibling is lost", "sibling", "SIBLING", changing_items(answered("stopped"))),
    ("too early", "retry-after-6", "RETRY-LAW", asked_at_once),
    ("no end", "one-call", "PROGRESS", goes_on),
    ("a crash", "bad-arguments", "TOTAL", lambda record: evolve(record, exchanges=record.exchanges[:1])),
    ("too long again", "too-long", "CUT-SAFE", changing_items(lambda items: items, since=4)),
    ("a prompt is lost", "second-prompt", "CONSERVE", changing_items(without(_is_second_prompt))),
    ("a prompt stands twice", "second-prompt", "CONSERVE", changing_items(said_twice)),
    ("asks on", "cancel-within-command", "CANCEL-STOP", one_more_request),
    ("starts on", "cancel-within-command", "CANCEL-STOP", more(Effect("part", "a"))),
    ("runs on", "cancel-within-command", "CANCEL-STOP", more(Effect("end", "a"))),
    ("stays", "cancel-within-command", "CANCEL-STOP", goes_on),
    ("cancelled and forgotten", "cancel-within-command", "SHOWN", changing_items(without(of("a")))),
    ("killed and forgotten", "kill-within-command", "WRITE-AHEAD", changing_items(without(of("a")))),
    ("killed and repeated", "kill-within-command", "AT-MOST-ONCE", more(Effect("part", "a"))),
)


def _as_it_was_too_long(record: Record) -> Record:
    before, after = record.exchanges[2], record.exchanges[3]
    return evolve(record, exchanges=(*record.exchanges[:3], evolve(after, asked=before.asked)))


@pytest.mark.parametrize(("fault", "scenario", "law", "plant"), FAULTS, ids=[fault[0] for fault in FAULTS])
def test_a_planted_fault_is_named_by_its_law(fault: str, scenario: str, law: str, plant: Fault) -> None:
    record = record_of(scenario_named(scenario))
    changed = _as_it_was_too_long(record) if law == "CUT-SAFE" else plant(record)
    assert changed != record, fault
    assert law in breached(changed)


@pytest.mark.parametrize(("stop", "is_broken"), [(Stop.CALLS, True), (Stop.OUTPUT_LIMIT, False)])
def test_a_reply_that_met_the_output_limit_may_be_taken_back_with_its_calls(stop: Stop, is_broken: bool) -> None:
    answers = (calling(Called(label="a")), calling(Called(label="b"), stop=stop), said("done"))
    record = record_of(Scenario(name="drawn", about="", laws=(), answers=answers))
    never_ran = evolve(record, effects=tuple(each for each in record.effects if each.label == "a"))
    assert ("ONE-END" in breached(changing_items(without(of("b")), since=3)(never_ran))) is is_broken


CUT_LATER = Scenario(
    name="drawn", about="", laws=(), answers=(said("one"), TOO_LONG, said("done")), lives=(Life(), Life())
)


@pytest.mark.parametrize(
    ("lost", "is_broken"), [(["say-1:"], False), (["say-2:"], False), (["say-1:", "say-2:"], True)]
)
def test_behind_a_cut_the_message_of_the_turn_is_the_task(lost: tuple[str, ...], is_broken: bool) -> None:
    gone = without(lambda item: isinstance(item, Text) and any(prompt in item.text for prompt in lost))
    assert ("TASK" in breached(changing_items(gone, since=3)(record_of(CUT_LATER)))) is is_broken


def test_every_law_that_is_judged_has_a_planted_fault() -> None:
    judges = {each.law for scenario in SCENARIOS for each in judged(record_of(scenario))}
    assert judges == {law for _, _, law, _ in FAULTS}


def test_a_choice_is_seen_in_each_scenario_that_asks() -> None:
    seen = {name for scenario in SCENARIOS for name, _ in choices_seen(record_of(scenario))}
    assert seen == set(QUESTIONS)


@pytest.mark.parametrize("law", ["AT-MOST-ONCE", "FINAL-ARGS"])
def test_what_runs_wrongly_is_as_bad_as_can_be(law: str) -> None:
    record = more(Effect("part", "a"))(record_of(scenario_named("half-call-clean-end")))
    worst = {each.weight for each in judged(evolve(record, effects=record.effects * 2)) if each.law == law}
    assert Weight.MUST in worst


RUN_ANEW = (Effect("part", "a"), Effect("begin", "a"), Effect("end", "a"))


@pytest.mark.parametrize(
    ("later", "ran_on"), [(RUN_ANEW, False), ((RUN_ANEW[-1], *RUN_ANEW), True)], ids=["stopped", "not stopped"]
)
def test_the_end_of_a_command_that_is_run_anew_is_not_that_of_the_cancelled_one(
    later: tuple[Effect, ...], ran_on: bool
) -> None:
    record = more(*later)(record_of(scenario_named("cancel-within-command")))
    said_of_it = [each.detail for each in judged(record) if each.law == "CANCEL-STOP" and each.weight]
    assert "command a began after the cancel" in said_of_it
    assert ("command a was not stopped by the cancel, and ran to its end" in said_of_it) is ran_on
    assert "AT-MOST-ONCE" in breached(record)


def test_of_a_wrong_answer_both_ends_are_told_without_the_folder_of_the_box(tmp_path: Path) -> None:
    wrong = answered(f"Command: echo a > {tmp_path}/work/a; {'and so on; ' * 50}\nOutput: (empty, in {tmp_path})")
    found = found_in(changing_items(wrong)(record_of(scenario_named("one-call"))), tmp_path)
    breaches = [mapping(each) for each in listed(found["breaches"])]
    (detail,) = {word(each["detail"]) for each in breaches if each["law"] == "RESULT"}
    assert "Command: echo a > [box]/work/a" in detail and "Output: (empty, in [box])" in detail
    assert str(tmp_path) not in json.dumps(found)
