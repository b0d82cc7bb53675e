"""Makes the picture in docs/view.md: a run of three turns with calls side by side, shown by a headless Chromium.

    python -m scripts.page_picture docs/view.png

Needs a Chromium on this machine. The run is made by hand here, so that the picture changes with the page alone.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from attrs import evolve
from loopkernel.data.json_text import Json
from loopkernel.data.records import LogRecord
from loopkernel.data.user_deltas import Approve, Say
from loopkernel.policy import ApprovalRule, Decision, Policy
from loopkernel_adapters.viewing.document import document_of
from loopkernel_adapters.viewing.page import page_of
from loopkernel_adapters.viewing.run import RunDocument

from tests.adapters.viewing.made_runs import ALLOWED, Making
from tests.browser.chromium import browser

POLICY: Policy = evolve(ALLOWED, approval_rules=(ApprovalRule(decision=Decision.ASK, tool="shell"),))
WIDTH, HEIGHT = 1010, 560  # small enough for a picture of less than 150 kB


def shown_run() -> list[LogRecord]:
    """A person asks for a report, a tool fails, and a command is approved."""
    made = Making(POLICY)
    made.send(Say("Which of the tests in tests/ is slow, and why?"), 1_200)
    reads = [("read_file", Json.of({"path": f"tests/test_{name}.py"})) for name in ("stores", "driver")]
    made.reply(["I look at the tests ", "and at what they import."], [*reads, ("search", Json.of({"text": "sleep("}))])
    made.run_calls(["def test_a_store(): ...", "def test_a_driver(): ...", "tests/test_driver.py:12: sleep(30)"])
    made.reply(["One of them sleeps. I run it."], [("shell", Json.of({"command": "pytest tests/test_driver.py"}))])
    made.run_calls([])
    (call,) = made.machine.state.ledger.entries  # type: ignore[union-attr]  # the state has calls, since one waits
    made.send(Approve(call=call.call.id), 2_600)
    made.run_calls(["1 passed in 30.02s"])
    made.reply(["tests/test_driver.py sleeps for ", "30 seconds: wait for the condition instead."], [])
    made.send(Say("Mend it."), 3_000)
    searches = [("read_file", Json.of({"path": "wait.py"})), ("search", Json.of({"text": "wait_for"}))]
    made.reply(["I take the sleep out."], searches)
    made.run_calls(["there is no such file", "nothing was found"], fails=0)
    made.reply(["It is mended."], [])
    return made.records


def main(target: Path) -> None:
    """Write the picture."""
    document = RunDocument(name="Which of the tests is slow?")
    document.take(shown_run())
    with TemporaryDirectory() as folder, browser() as page:
        file = Path(folder, "page.html")
        file.write_text(page_of(document_of("Which of the tests is slow?", [document])))
        page.resize(WIDTH, HEIGHT)
        page.open(f"{file.as_uri()}#step=22")
        page.until("document.querySelector('.where').textContent.startsWith('step 22 ')")
        target.write_bytes(page.picture())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
