"""The page on the options of a policy is printed from the types, tells of each, and its examples can be built."""

from pathlib import Path
from typing import Any, get_type_hints

import pytest
from loopkernel import policy as names
from loopkernel.policy import Policy

from scripts.policy_reference import TEXTS, Text, lines, options, part_of, values, words_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "policy.md"
HINTS = options(Policy())
OPTIONS = {name: text for texts in TEXTS.values() for name, text in texts.items()}
WITH_PRICES = {"prices": names.Prices(input=1.0), "output_tool": "answer"}


def test_the_page_is_as_it_is_printed() -> None:
    assert PAGE.read_text(encoding="utf-8") == "\n".join(lines()) + "\n"


def test_every_option_is_told_of_once() -> None:
    assert sorted(OPTIONS) == sorted(HINTS)
    assert sum(map(len, TEXTS.values())) == len(OPTIONS)


@pytest.mark.parametrize("name", OPTIONS)
def test_an_example_can_be_built(name: str) -> None:
    text: Text = OPTIONS[name]
    if words := words_of(HINTS[name]):
        assert text.example in words
        value: object = text.example
    else:
        value = eval(text.example, vars(names).copy())  # our own page; the names are the public ones
    option, _, field = name.partition(".")
    if not field:
        built: Any = {option: value}  # Any: what a person may write for any option
    else:
        part = part_of(get_type_hints(Policy)[option])
        assert part is not None
        beside = {"keep_turns": None} if field in ("keep_messages", "keep_ratio") else {}
        room = {"chars": 20_000} if option == "result_limit" and field != "chars" else {}
        built = {option: part(**{**room, **beside, field: value})}
    assert values(Policy(**{**WITH_PRICES, **built}))[name] is not None
