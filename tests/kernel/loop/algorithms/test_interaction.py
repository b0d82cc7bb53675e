"""The label of what the user can do: the first line of the table that applies."""

import itertools

import pytest
from loopkernel.loop.algorithms.interaction import Interaction, interaction

CONDITIONS = ("handing_off", "inferring", "empty", "resting", "asking", "running")
LABELS = (
    Interaction.HANDOFF,
    Interaction.BUSY,
    Interaction.USER_MESSAGE_INITIAL,
    Interaction.USER_MESSAGE_REPLY,
    Interaction.USER_TOOL_APPROVAL,
    Interaction.TOOL_RUNNING,
)


@pytest.mark.rule("STATE-6")
@pytest.mark.parametrize("holding", list(itertools.product((False, True), repeat=len(CONDITIONS))))
def test_the_first_line_that_applies_gives_the_label(holding: tuple[bool, ...]) -> None:
    expected = next((label for label, holds in zip(LABELS, holding, strict=True) if holds), Interaction.BUSY)
    handing_off, inferring, empty, resting, asking, running = holding
    found = interaction(
        handing_off=handing_off, inferring=inferring, empty=empty, resting=resting, asking=asking, running=running
    )
    assert found is expected
