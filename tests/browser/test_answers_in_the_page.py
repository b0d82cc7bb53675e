"""What waits for a person is asked above all that a run holds, and answered by a click on exactly that question."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from loopkernel.data.json_text import Json
from loopkernel.data.records import LogRecord
from loopkernel.data.user_deltas import Approve, CallAnswer, Correct, Reject, RememberTool
from loopkernel_adapters.sessions.waiting_calls import WaitingCall
from loopkernel_adapters.viewing.live import LiveRun, Looking, NotAnswered
from loopkernel_adapters.viewing.serving import ViewServer

from tests.adapters.viewing.asking_runs import INPUT, asking_run
from tests.adapters.viewing.made_runs import HOSTILE, long_run
from tests.browser.chromium import Browser

ASKED = "document.querySelector('.asking')"


class Person:
    """Where the answers of the page go; each takes the question away."""

    def __init__(self, log: list[LogRecord]) -> None:
        self.log = log
        self.given: list[tuple[WaitingCall, CallAnswer]] = []
        self.refuses = False
        self.sub_agents: dict[str, list[LogRecord]] = {}

    def __call__(self, call: WaitingCall, answer: CallAnswer) -> None:
        if self.refuses:
            raise NotAnswered("the run is open elsewhere")
        self.given.append((call, answer))

    @contextmanager
    def served(self) -> Iterator[str]:
        looking = Looking(read=lambda: self.log, read_sub_agents=lambda: self.sub_agents, answer=self)
        with ViewServer(LiveRun("a run", looking)) as server:
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
            thread.start()
            try:
                yield server.address
            finally:
                server.shutdown()
                thread.join()


def opened(page: Browser, address: str) -> None:
    page.open(address)
    page.until("globalThis.page !== undefined && document.querySelector('.where').textContent !== ''")


def click(page: Browser, selector: str) -> None:
    """A real click, where the button is seen, once it takes one."""
    page.until(f"document.querySelector({json.dumps(selector)})?.disabled === false")
    place = page.evaluate(
        f"(() => {{ const button = document.querySelector({json.dumps(selector)});"
        " button.scrollIntoView({ block: 'nearest' }); const box = button.getBoundingClientRect();"
        " return [box.x + box.width / 2, box.y + box.height / 2]; })()"
    )
    page.click(*place)


def test_a_call_is_let_run_by_its_button_alone(page: Browser, tmp_path: Path) -> None:
    person = Person(asking_run())
    with person.served() as address:
        opened(page, address)
        assert page.evaluate("document.querySelectorAll('.asking .answers button').length") == 3
        shown = page.evaluate(f"{ASKED}.textContent")
        assert "call 1.1 of the tool pay" in shown
        assert '"amount": 5' in shown and "\u27e8U+202E\u27e9" in shown and "\u202e" not in shown
        # What the model has written stands in the run, as text, and nowhere near the question.
        assert page.evaluate("document.querySelectorAll('button.answer-yes').length") == 1
        assert page.evaluate("document.querySelectorAll('.asking').length") == 1
        assert "it only reads notes.txt" not in shown
        below = "document.getElementById('panes').getBoundingClientRect().top"
        assert page.evaluate(f"{ASKED}.getBoundingClientRect().bottom <= {below}")
        click(page, ".answer-yes")
        page.until("document.querySelector('.said').textContent === 'answered'")
        ((call, answer),) = person.given
        assert json.loads(call.input.text) == INPUT
        assert answer == Approve(call=call.path[-1])


def test_a_call_is_denied_with_a_reason_and_a_refusal_is_shown(page: Browser) -> None:
    person = Person(asking_run())
    with person.served() as address:
        opened(page, address)
        person.refuses = True
        page.evaluate("document.querySelector('.asking input').value = 'too much'")
        click(page, ".answer-no")
        page.until("document.querySelector('.said').textContent.includes('open elsewhere')")
        page.faults.clear()  # the browser tells of the status
        person.refuses = False
        click(page, ".answer-no")
        page.until("document.querySelector('.said').textContent === 'answered'")
        ((call, answer),) = person.given
        assert answer == Reject(call=call.path[-1], why="too much")


def test_another_input_is_let_run_exactly_as_it_is_shown(page: Browser) -> None:
    person = Person(asking_run())
    with person.served() as address:
        opened(page, address)
        page.evaluate("document.querySelector('.editing').open = true")
        for text, said in (("{", "not JSON"), ("[1]", "an object of JSON")):
            type_in(page, text)
            click(page, ".show-edited")
            page.until(f"document.querySelector('.said').textContent.includes({json.dumps(said)})")
            assert page.evaluate("document.querySelector('.answer-edit')") is None
        page.faults.clear()  # the browser tells of the status
        hostile = {text: text for text in HOSTILE}
        for given in ({"amount": 1}, hostile):
            type_in(page, json.dumps(given, ensure_ascii=False))
            assert page.evaluate("document.querySelector('.answer-edit')") is None  # what was shown is gone
            click(page, ".show-edited")
            page.until("document.querySelector('.answer-edit') !== null")
        shown = page.evaluate("document.querySelector('.edited pre').textContent")
        assert "\u27e8U+202E\u27e9" in shown and "\u202e" not in shown
        assert page.evaluate("document.querySelector('.asking').querySelector('img, iframe, script, svg')") is None
        assert page.evaluate("document.querySelector('.answer-edit').disabled")
        click(page, ".answer-edit")
        page.until("document.querySelector('.said').textContent === 'answered'")
        assert page.evaluate("globalThis.attacked") is None
        ((call, answer),) = person.given
        assert answer == Correct(call=call.path[-1], input=Json.of(dict(hostile)))


def test_always_is_a_word_of_its_own(page: Browser) -> None:
    person = Person(asking_run())
    with person.served() as address:
        opened(page, address)
        click(page, ".answer-always")
        page.until("document.querySelector('.said').textContent === 'answered'")
        ((call, answer),) = person.given
        assert answer == Approve(call=call.path[-1], remember=RememberTool())


def type_in(page: Browser, text: str) -> None:
    """Put the text into the field for another input, as typing it does."""
    page.evaluate(
        f"(() => {{ const field = document.querySelector('.editing textarea'); field.value = {json.dumps(text)};"
        " field.dispatchEvent(new Event('input')); })()"
    )


def test_a_question_that_takes_the_place_of_another_takes_no_click_at_once(page: Browser) -> None:
    person = Person(asking_run())
    with person.served() as address:
        opened(page, address)
        page.until("document.querySelector('.answer-yes').disabled === false")
        script = """(() => {
          const other = { ...globalThis.page.told.live.asked[0], asked: "another", tool: "erase" };
          globalThis.page.asking.show([other]);
          const button = document.querySelector(".answer-yes");
          button.click();
          return [button.disabled, document.querySelector(".said").textContent];
        })()"""
        assert page.evaluate(script) == [True, ""]


def test_keys_answer_nothing(page: Browser) -> None:
    person = Person(asking_run())
    with person.served() as address:
        opened(page, address)
        page.until("document.querySelector('.answer-yes').disabled === false")
        for key in ("Enter", " ", "y", "a", "n"):
            page.press(key)
        page.until(f"{ASKED}.hidden === false")
        assert person.given == []


def test_a_sub_agent_appears_when_it_begins(page: Browser) -> None:
    person = Person(long_run(30))
    with person.served() as address:
        opened(page, address)
        assert page.evaluate("globalThis.page.picker.hidden")
        assert page.evaluate(f"{ASKED}.hidden")
        whole = long_run(20)
        person.sub_agents["a run: sub-agent 1.1"] = whole[:12]
        page.until("globalThis.page.runs.length === 2")
        assert page.evaluate("globalThis.page.picker.hidden") is False
        page.evaluate("globalThis.page.goTo(1, 5)")
        page.until("document.querySelector('.where').textContent.includes('step 5 of 12')")
        person.sub_agents["a run: sub-agent 1.1"] = whole
        page.until(f"globalThis.page.runs[1].length === {len(whole)}")
