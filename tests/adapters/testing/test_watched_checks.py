"""Checks of adapters end with a verdict, wherever the adapter stands or breaks, and quote what is due."""

import threading
from functools import partial
from pathlib import Path

import pytest
from loopkernel_adapters.testing.watched_checks import DUTIES, due, judged

PAGE = (Path(__file__).resolve().parents[3] / "specs" / "ports.md").read_text(encoding="utf-8")
SECTIONS = {
    "provider": "Provider: a model",
    "tools": "Tools",
    "store": "Store: the log of one session",
    "runs": "Many runs in one place",
    "driver": "The driver",
}
HERE = Path(__file__).name


@pytest.mark.parametrize("duty", DUTIES)
def test_what_is_due_is_said_in_the_words_of_the_page(duty: str) -> None:
    port, _, number = duty.partition(" ")
    section = PAGE.partition(f"# {SECTIONS[port]}\n")[2].partition("\n#")[0]
    words = section.partition(f"\n{number}. ")[2].partition(f"\n{int(number) + 1}. ")[0]
    assert DUTIES[duty] in " ".join(words.split())


def test_what_is_not_a_known_duty_is_told_as_it_is() -> None:
    assert due("the reply is late: 3 ms") == "the reply is late: 3 ms"


def test_what_is_returned_is_passed_on() -> None:
    assert judged("store 1", lambda: 7, patience_seconds=60) == 7


def test_what_is_raised_is_told_with_its_place() -> None:
    def breaks() -> None:
        raise LookupError("inside")

    with pytest.raises(AssertionError) as caught:
        judged("store 4", breaks, patience_seconds=60)
    first, second = str(caught.value).splitlines()
    assert first.startswith(f"store 4: it raised LookupError: inside (at {HERE}:")
    assert first.endswith(", in breaks)")
    assert second == f"    Due is (store 4 in specs/ports.md): {DUTIES['store 4']}"
    assert isinstance(caught.value.__cause__, LookupError)


def test_an_error_of_the_check_itself_has_no_place() -> None:
    with pytest.raises(AssertionError, match=r"^store 4: it raised ValueError: .* base 10: 'x'\n"):
        judged("store 4", partial(int, "x"), patience_seconds=60)


def test_an_interruption_is_no_verdict() -> None:
    def leaves() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        judged("store 1", leaves, patience_seconds=60)


def test_what_never_comes_back_is_told_with_its_place() -> None:
    free = threading.Event()

    def waits_for_ever() -> None:
        free.wait()

    try:
        with pytest.raises(
            AssertionError, match=rf"^tools 9: .* come back from {HERE}:\d+, in waits_for_ever\n    Due is"
        ):
            judged("tools 9", waits_for_ever, patience_seconds=0.05)
        with pytest.raises(AssertionError, match=r"^tools 9: .* come back; it waits for something that never comes\n"):
            judged("tools 9", free.wait, patience_seconds=0.05)
    finally:
        free.set()
