"""What the kernel says to the model: another text for each reason, and the particulars in it."""

import pytest
from loopkernel.data.words import CancelReason
from loopkernel.planning import wording


@pytest.mark.rule("CANCEL-1")
@pytest.mark.rule("CANCEL-4")
def test_the_model_sees_another_text_for_each_reason() -> None:
    texts = {wording.cancelled_text(reason) for reason in CancelReason}
    assert len(texts) == len(CancelReason)
    assert all(text.strip() for text in texts)


@pytest.mark.rule("TOOL-5")
def test_an_error_names_the_tool_and_what_is_wrong() -> None:
    told = (
        wording.unknown_tool_text("raed"),
        wording.invalid_call_text("raed", "no path"),
        wording.denied_text("raed"),
        wording.not_supported_text("raed", "no path"),
        wording.stopped_to_ask_text("raed", "no path"),
    )
    assert all('"raed"' in text for text in told)
    assert all("no path" in text for text in (told[1], told[3], told[4]))
    assert len(set(told)) == len(told)


@pytest.mark.rule("RESUME-1")
def test_a_text_is_the_same_under_every_python() -> None:
    assert wording.unknown_tool_text("\U00031350").startswith('There is no tool named "\\ud884\\udf50"')
