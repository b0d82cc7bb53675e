"""What the kernel says to the model: another text for each reason, and the particulars in it."""

import pytest
from loopkernel.data.words import CallStatus, CancelReason, ErrorClass
from loopkernel.loop.algorithms import wording


@pytest.mark.rule("CANCEL-1")
@pytest.mark.rule("CANCEL-4")
def test_the_model_sees_another_text_for_each_reason() -> None:
    texts = {wording.cancelled_text(reason) for reason in CancelReason}
    assert len(texts) == len(CancelReason)
    assert all(text.strip() for text in texts)


def test_whatever_is_said_in_fixed_words_is_said_in_other_words_than_all_else() -> None:
    said = {name: text for name, text in vars(wording).items() if name.isupper() and isinstance(text, str)}
    assert len(said) > 10
    assert all(len(text.split()) > 2 or name == "UNSAFE_NAME" for name, text in said.items())
    assert len(set(said.values())) == len(said)


@pytest.mark.rule("TOOL-5")
def test_an_error_names_the_tool_and_what_is_wrong() -> None:
    told = (
        wording.unknown_tool_text("raed"),
        wording.invalid_call_text("raed", "no path"),
        wording.denied_text("raed"),
        wording.too_deep_text("raed"),
        wording.blocked_text("raed", "no path"),
        wording.background_text("raed"),
        wording.background_end_text("raed", "1.1", "has ended"),
        wording.demand_text("raed"),
        wording.edited_text("raed", "{}", True),
        wording.cut_call_text("raed"),
        wording.call_note("raed", ran=False),
        wording.call_note("raed", ran=True),
        wording.repetition_text("raed"),
        wording.disabled_text("raed"),
    )
    assert all('"raed"' in text for text in told)
    assert all("no path" in text for text in (told[1], told[4]))
    assert len(set(told)) == len(told)


@pytest.mark.rule("ASK-3")
def test_a_note_on_an_edit_says_what_ran_and_whether_the_tool_is_another() -> None:
    corrected, swapped = (wording.edited_text("write", '{"path":"b"}', swap) for swap in (False, True))
    assert all('{"path":"b"}' in text for text in (corrected, swapped))
    assert '"write"' in swapped
    assert '"write"' not in corrected


@pytest.mark.rule("ASK-3")
def test_a_rejection_passes_on_what_the_person_said_if_they_said_anything() -> None:
    assert "not that one" in wording.rejected_text("not that one")
    assert wording.rejected_text(" \n") == wording.rejected_text("")
    assert len({wording.rejected_text(""), wording.rejected_text("no"), wording.REJECTED_BY_TIME}) == 3


@pytest.mark.rule("TOOL-20")
def test_the_end_of_a_background_run_says_which_call_began_it_and_how_it_ended() -> None:
    told = wording.background_end_text("build", "2.1", "has failed")
    assert all(part in told for part in ('"build"', "2.1", "has failed"))


@pytest.mark.rule("CALL-3")
def test_an_unreachable_call_is_told_which_call_did_not_succeed() -> None:
    for status in (CallStatus.ERROR, CallStatus.REJECTED_BY_USER):
        told = wording.unreachable_text("c1", status)
        assert 'call "c1"' in told
        assert status.value in told
        assert ("Mend" in told) == (status is CallStatus.ERROR)


@pytest.mark.rule("RESUME-1")
def test_a_text_is_the_same_under_every_python() -> None:
    assert wording.unknown_tool_text("\U00031350").startswith('There is no tool named "\\ud884\\udf50"')


@pytest.mark.rule("RETRY-7")
def test_a_failure_that_is_fed_back_names_its_class_and_what_was_said_of_it() -> None:
    for error in ErrorClass:
        assert error.value in wording.failure_text(error, "")
        assert "no key" in wording.failure_text(error, "no key")
        assert wording.failure_text(error, " \n") == wording.failure_text(error, "")


@pytest.mark.rule("INFER-7")
@pytest.mark.rule("INFER-13")
def test_each_prompt_in_the_users_place_is_another() -> None:
    prompts = {wording.NUDGE, wording.CONTINUE, wording.demand_text("t"), wording.repetition_text("t")}
    assert len(prompts) == 4
    assert all(prompt.strip() for prompt in prompts)
