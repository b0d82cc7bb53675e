"""The page in a real browser: it shows what the document says, goes by keys and links, and is light when it is long."""

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from loopkernel.data.json_text import JsonValue
from loopkernel.data.records import LogRecord
from loopkernel.replaying import fold
from loopkernel_adapters.viewing.document import Sides, document_of
from loopkernel_adapters.viewing.live import LiveRun, Looking
from loopkernel_adapters.viewing.page import page_of
from loopkernel_adapters.viewing.plain import SHORT, plain
from loopkernel_adapters.viewing.run import Note, RunDocument
from loopkernel_adapters.viewing.serving import ViewServer

from tests.adapters.viewing.made_runs import HOSTILE, hostile_run, long_run
from tests.adapters.viewing.shown_runs import logs
from tests.browser.chromium import Browser, BrowserError

NOW = "Number(document.querySelector('.where').textContent.match(/step (\\d+) of/)?.[1])"


def document(records: Sequence[LogRecord], name: str = "a run", *notes: Note) -> RunDocument:
    made = RunDocument(name=name, notes=[*notes])
    made.take(records)
    return made


def show(page: Browser, folder: Path, *runs: RunDocument, sides: Sides | None = None, link: str = "") -> None:
    file = folder / "page.html"
    file.write_text(page_of(document_of("the title", runs, sides)))
    page.open(f"{file.as_uri()}{link}")
    page.until("globalThis.page !== undefined && document.querySelector('.where').textContent !== ''")


def at_step(page: Browser, step: int) -> None:
    page.until(f"{NOW} === {step}")


# --- what is shown ----------------------------------------------------------------------------------------


def test_the_states_of_the_page_are_those_of_the_run(page: Browser, tmp_path: Path) -> None:
    chosen = logs()[::11]
    show(page, tmp_path, *(document(records, name) for name, records in chosen))
    for number, (name, records) in enumerate(chosen):
        steps = fold(records)
        for at in sorted({1, len(steps) // 2, len(steps)} - {0}):
            told = page.evaluate(f"globalThis.page.runs[{number}].stateAfter({at})")
            assert told == plain(steps[at - 1].after, SHORT), f"{name} after step {at}"


def test_a_link_leads_to_its_step_and_the_keys_lead_on(page: Browser, tmp_path: Path) -> None:
    note = Note(kind="law ONE-END is broken", text="the turn ended twice", step=150)
    show(page, tmp_path, document(long_run(200), "a run", note), link="#step=123")
    at_step(page, 123)
    for key, shift, step in (
        ("ArrowRight", False, 124),
        ("ArrowLeft", True, 114),
        ("Home", False, 1),
        ("f", False, 150),
    ):
        page.press(key, shift=shift)
        at_step(page, step)
    assert page.evaluate("location.hash") == "#step=150"
    assert "the turn ended twice" in page.evaluate("document.querySelector('.details').textContent")
    page.evaluate("location.hash = '#step=7'")
    at_step(page, 7)
    assert page.evaluate("document.querySelector('.row.now .n').textContent") in ("7", "6", "5", "4", "3")
    page.evaluate(
        "document.querySelector('input[type=range]').value = 60; document.querySelector('input[type=range]')"
        ".dispatchEvent(new Event('input'))"
    )
    at_step(page, 60)


def test_each_message_is_in_the_thread_and_leads_to_its_step(page: Browser, tmp_path: Path) -> None:
    run = document(long_run(120))
    show(page, tmp_path, run)
    page.evaluate(
        "for (const article of document.querySelectorAll('article')) globalThis.page.open[0].thread.fill(article)"
    )
    texts = page.evaluate("[...document.querySelectorAll('article')].map((article) => article.textContent)")
    assert len(texts) == page.evaluate("globalThis.page.runs[0].messages.length")
    assert "Task 1: look at part 1 of the house" in texts[0]
    assert "what search found in part 1" in texts[2]
    page.evaluate("document.querySelectorAll('article a')[2].click()")
    at_step(page, page.evaluate("globalThis.page.runs[0].messages[2].step"))


def test_the_state_that_is_lit_and_the_reasons_are_those_of_the_step(page: Browser, tmp_path: Path) -> None:
    show(page, tmp_path, document(long_run(100)), link="#step=5")
    at_step(page, 5)
    page.until("document.querySelector('.diagram .now').textContent === 'Streaming'")
    page.press("Home")
    page.until("document.querySelector('.diagram .now').textContent === 'Initial'")
    assert "STATE-8" in page.evaluate("document.querySelector('.details').textContent")


def test_a_click_on_the_time_line_leads_to_the_bar(page: Browser, tmp_path: Path) -> None:
    run = document(long_run(100))
    show(page, tmp_path, run)
    bar = page.evaluate("globalThis.page.runs[0].bars.findIndex((bar) => bar.kind === 'model')")
    first = page.evaluate(f"globalThis.page.runs[0].bars[{bar}].first")
    x, y = page.evaluate(
        "(() => { const line = globalThis.page.open[0].timeline, box = line.canvas.getBoundingClientRect(); "
        f"const lane = line.lanes.findIndex((places) => places.includes({bar})), bar = line.run.bars[{bar}]; "
        "const share = (line.shareOf(bar.first) + line.shareOf(bar.last)) / 2; "
        "return [box.left + 12 + share * (box.width - 24), box.top + 4 + lane * 15 + 6]; })()"
    )
    page.click(x, y)
    at_step(page, first)


@pytest.mark.parametrize("dark", [False, True])
def test_light_and_dark_are_as_the_browser_likes_and_can_be_turned(page: Browser, tmp_path: Path, dark: bool) -> None:
    page.resize(1400, 900, dark=dark)
    show(page, tmp_path, document(long_run(50)))
    theme = "document.documentElement.dataset.theme"
    assert page.evaluate(theme) == ("dark" if dark else "light")
    page.press("d")
    assert page.evaluate(theme) == ("light" if dark else "dark")


def test_a_narrow_page_shows_one_part_at_a_time_and_never_scrolls_sideways(page: Browser, tmp_path: Path) -> None:
    page.resize(640, 800)  # 40 em
    show(page, tmp_path, document(long_run(50)))
    shown = "[...document.querySelectorAll('.part')].filter((part) => part.offsetParent !== null).length"
    assert page.evaluate(shown) == 1
    assert page.evaluate("document.documentElement.scrollWidth <= 640")


# --- two side by side -------------------------------------------------------------------------------------


def test_two_runs_stand_side_by_side_where_they_part(page: Browser, tmp_path: Path) -> None:
    records = long_run(80)
    sides = Sides(left=0, right=1, steps=(31, 32), text="they part at step 31")
    show(page, tmp_path, document(records[:60], "one"), document(records, "other"), sides=sides)
    page.until("document.querySelectorAll('.pane').length === 2")
    told = page.evaluate("[...document.querySelectorAll('.where')].map((where) => where.textContent)")
    assert [text.split(",")[0] for text in told] == ["step 31 of 60", f"step 32 of {len(records)}"]
    assert "they part at step 31" in page.evaluate("document.querySelector('header').textContent")
    page.press("s")
    page.until("document.querySelectorAll('.pane').length === 1")


# --- ten thousand steps -----------------------------------------------------------------------------------


def test_ten_thousand_steps_are_a_few_rows_of_the_page(page: Browser, tmp_path: Path) -> None:
    run = document(long_run(10_000))
    show(page, tmp_path, run)
    for step in (9_999, 17, 5_000, run.length):
        page.evaluate(f"globalThis.page.open[0].show({step})")
        at_step(page, step)
        assert page.evaluate("document.querySelectorAll('.row').length") < 100
    assert page.evaluate("document.querySelectorAll('*').length") < 6_000
    page.evaluate("document.querySelector('.part input[type=checkbox]').click()")
    assert page.evaluate("globalThis.page.open[0].list.listed.length") == run.length


# --- texts that attack the page ---------------------------------------------------------------------------


def test_no_text_of_a_run_is_more_than_a_text(page: Browser, tmp_path: Path) -> None:
    notes = [Note(kind=text, text=text, effect=text, remedy=text, step=3, place=text) for text in HOSTILE]
    run = document(hostile_run(), HOSTILE[1], *notes)
    run.kind = HOSTILE[0]
    show(page, tmp_path, run, document(hostile_run(), HOSTILE[2]))
    page.evaluate("document.querySelector('.bar-of-pane button:last-child').click()")
    for step in range(1, run.length + 1):
        page.evaluate(f"globalThis.page.open[0].show({step})")
        at_step(page, step)
        page.evaluate("for (const fold of document.querySelectorAll('details')) fold.open = true")
    page.evaluate(
        "for (const article of document.querySelectorAll('article')) globalThis.page.open[0].thread.fill(article)"
    )
    page.until("document.querySelectorAll('article .who').length === document.querySelectorAll('article').length")
    shown = page.evaluate("document.body.textContent")
    for text in HOSTILE[:6]:
        assert text in shown
    assert page.evaluate("typeof globalThis.attacked") == "undefined"
    assert page.evaluate("document.querySelectorAll('script').length") == 2
    assert (
        page.evaluate(
            "document.querySelectorAll('img, iframe, base, object, embed, link, plaintext, style ~ style').length"
        )
        == 0
    )
    links = page.evaluate("[...document.querySelectorAll('a')].map((link) => link.getAttribute('href'))")
    assert links
    assert all(link.startswith("#run=") for link in links)
    names = page.evaluate("[...document.querySelectorAll('*')].flatMap((one) => one.getAttributeNames())")
    assert not [name for name in names if name.startswith("on")]
    assert page.evaluate("({}).attacked") is None


def test_the_browser_holds_the_page_to_its_policy(shared_browser: Browser, tmp_path: Path) -> None:
    show(shared_browser, tmp_path, document(hostile_run()))
    with pytest.raises(BrowserError, match="TrustedHTML"):
        shared_browser.evaluate("document.body.innerHTML = '<b>bold</b>'")
    shared_browser.evaluate(
        "{ const image = document.createElement('img'); image.src = 'data:image/gif;base64,R0lGODlhAQABAAAAACw='; "
        "document.body.append(image); globalThis.refused = new Promise((told) => { image.onerror = () => told(true); "
        "image.onload = () => told(false); }); }"
    )
    assert shared_browser.evaluate("globalThis.refused") is True
    shared_browser.faults.clear()


# --- a run that goes on, and figures ----------------------------------------------------------------------


def test_a_run_that_goes_on_is_followed(page: Browser) -> None:
    log = long_run(120)
    whole = log.copy()
    del log[50:]
    with ViewServer(LiveRun("a run", Looking(read=lambda: log))) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            page.open(server.address)
            page.until("globalThis.page !== undefined && document.querySelector('.where').textContent !== ''")
            at_step(page, 50)
            log.extend(whole[50:])
            at_step(page, len(whole))
            assert page.evaluate("globalThis.page.runs[0].length") == len(whole)
            told = page.evaluate(f"globalThis.page.runs[0].stateAfter({len(whole)})")
            assert told == plain(fold(whole)[-1].after, SHORT)
            assert page.evaluate("document.querySelector('.live').textContent") == "live"
            page.evaluate("globalThis.page.open[0].show(3)")
            at_step(page, 3)
            assert page.evaluate("globalThis.page.followBox.checked") is False
        finally:
            page.open("about:blank")
            server.shutdown()
            thread.join()


def test_figures_are_a_table_and_charts(page: Browser, tmp_path: Path) -> None:
    figures: JsonValue = {
        "title": "Figures",
        "about": [HOSTILE[0]],
        "charts": [["What they took", [[HOSTILE[1], 100, 200, 400, HOSTILE[2]]]]],
        "columns": ["recording", "saved"],
        "rows": [[HOSTILE[1], "0.2 s"]],
    }
    file = tmp_path / "page.html"
    file.write_text(page_of(document_of("what if", [], figures=figures)))
    page.open(file.as_uri())
    page.until("document.querySelector('table') !== null")
    assert page.evaluate("[...document.querySelectorAll('td')].map((cell) => cell.textContent)") == [
        HOSTILE[1],
        "0.2 s",
    ]
    widths = page.evaluate(
        "[...document.querySelectorAll('.figures rect')].map((bar) => Number(bar.getAttribute('width')))"
    )
    assert widths == [400, 200, 100]
    assert page.evaluate("typeof globalThis.attacked") == "undefined"
