"""What a turn costs in calls of Python functions, held to the record: no other work on the machine moves it."""

import sys

import pytest

from bench.agent_table import counted, kernel_form, read_released, tolerated_by
from bench.call_counts import COUNTED_ON


@pytest.mark.skipif(sys.version_info[:2] != COUNTED_ON, reason="another Python enters other functions of its own")
def test_a_turn_and_a_parallel_call_enter_no_more_functions_than_is_recorded() -> None:
    """What is worth more calls has them recorded: `python -m bench.agent_table --counts --record`."""
    most, found = tolerated_by(read_released()[kernel_form()]), counted()
    assert found
    assert {name: figure for name, figure in found.items() if figure > most[name]} == {}
