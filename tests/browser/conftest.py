"""The browser that all of these tests share, or the word that there is none."""

from collections.abc import Iterator

import pytest

from tests.browser.chromium import NOT_THERE, PROGRAM, Browser, browser


@pytest.fixture(scope="session")
def shared_browser() -> Iterator[Browser]:
    if PROGRAM is None:
        pytest.skip(NOT_THERE)
    with browser() as opened:
        yield opened


@pytest.fixture
def page(shared_browser: Browser) -> Iterator[Browser]:
    """The browser, of which no script has failed and nothing was refused when the test ends."""
    shared_browser.open("about:blank")
    shared_browser.resize(1400, 900)
    shared_browser.faults.clear()
    yield shared_browser
    assert shared_browser.faults == []
