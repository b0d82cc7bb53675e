"""The page on the options of a policy is printed from the types, tells of each, and its examples can be built."""

from pathlib import Path
from typing import Any

import attrs
import pytest
from loopkernel import policy as names
from loopkernel.policy import Policy

from scripts.policy_reference import Option, lines, options
from tests.specs.rule_documents import rules

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "policy.md"
OPTIONS = [option for option in options() if option.part is None]
WITH_PRICES = {"prices": names.Prices(input=1.0), "output_tool": "answer"}


def test_the_page_is_as_it_is_printed() -> None:
    printed = "\n".join(lines()) + "\n"
    assert PAGE.read_text(encoding="utf-8") == printed, "python -m scripts.policy_reference > docs/reference/policy.md"


def test_every_option_is_told_of_once_with_a_rule_that_there_is() -> None:
    told = [option.name for option in options()]
    rows = [line.split("`")[1] for line in lines() if line.startswith("| `")]
    parts = {option.name: option.part for option in options() if option.part}
    fields = [field.name for field in attrs.fields(Policy)]
    fields += [f"{name}.{field.name}" for name, part in parts.items() for field in attrs.fields(part)]
    assert sorted(rows) == sorted(told) == sorted(fields)
    assert {option.rule for option in options()} <= set(rules())


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_an_example_can_be_built(option: Option) -> None:
    # Our own page; the names are the public ones.
    value: object = eval(option.shown_example().strip("`"), vars(names).copy())
    given: Any = {option.field.name: value}  # Any: what a person may write for any option
    if option.home is not Policy:
        beside = {"keep_turns": None} if option.field.name in ("keep_messages", "keep_ratio") else {}
        given = {option.name.split(".")[0]: option.home(**{**beside, **given})}
    assert option.value_in(Policy(**{**WITH_PRICES, **given})) is not None
