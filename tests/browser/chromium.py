"""A headless Chromium, driven by the protocol of its own developer tools over a pair of pipes: no port, no library."""

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
PROGRAM = next((found for name in NAMES if (found := shutil.which(name))), None)
NOT_THERE = "THE PAGE WAS NOT TESTED IN A BROWSER: there is no Chromium on this machine; install the package chromium"
OPTIONS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-pipe"),
)
# The browser reads from descriptor 3 and writes to 4.
PIPES_IN_PLACE = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
os.dup2(ends[0], 3), os.dup2(ends[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
PATIENCE = 120  # seconds for an answer, on a machine that is busy with other things
Answer = dict[str, Any]  # what the protocol says is JSON of many shapes


class BrowserError(Exception):
    """The browser, or a script in the page, has failed; the message is the browser's."""


class Browser:
    """One page of a browser. `faults` are the errors of scripts, and what the page's policy has refused."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from = to_browser, from_browser
        self._numbers = itertools.count(1)
        self._read = b""
        self._session: str | None = None
        self.faults: list[str] = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.ask(f"{domain}.enable")

    def ask(self, method: str, **parameters: object) -> Answer:
        """One command, and what the browser answers. Raises BrowserError."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        self._write(json.dumps(message).encode() + b"\0")
        while True:
            said = self._next()
            if said.get("id") != number:
                self._note(said)
                continue
            if "error" in said:
                raise BrowserError(f"{method}: {said['error']['message']}")
            answer: Answer = said["result"]
            return answer

    def open(self, url: str) -> None:
        """Go to the page, and wait until it has begun."""
        self.ask("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")

    def resize(self, width: int, height: int, *, dark: bool = False) -> None:
        """The size of what is seen, and whether the browser likes it dark."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])

    def evaluate(self, script: str) -> Any:  # Any: whatever the script gives
        """What the script gives, in the page but not under its policy. Raises BrowserError where it fails."""
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise BrowserError(json.dumps(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def until(self, condition: str) -> None:
        """Wait until the condition holds in the page."""
        end = time.monotonic() + PATIENCE
        while not self.evaluate(condition):
            if time.monotonic() > end:
                raise BrowserError(f"{condition} never held; {self.faults}")
            select.select([self._from], [], [], 0.05)

    def press(self, key: str, *, shift: bool = False) -> None:
        """Press a key, and let it go."""
        text = {"text": key} if len(key) == 1 else {}
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, modifiers=8 if shift else 0, **text)

    def click(self, x: float, y: float) -> None:
        """Click with the left button."""
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def picture(self) -> bytes:
        """What is seen now, as a PNG."""
        return base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"])

    def _note(self, said: Answer) -> None:
        match said.get("method"):
            case "Runtime.exceptionThrown":
                self.faults.append(json.dumps(said["params"]["exceptionDetails"])[:2_000])
            case "Log.entryAdded" if said["params"]["entry"]["level"] in ("error", "warning"):
                self.faults.append(said["params"]["entry"]["text"])
            case "Runtime.consoleAPICalled" | "Page.javascriptDialogOpening":
                self.faults.append(json.dumps(said["params"])[:2_000])
            case _:
                pass

    def _write(self, message: bytes) -> None:
        while message:
            message = message[os.write(self._to, message) :]

    def _next(self) -> Answer:
        while b"\0" not in self._read:
            if not select.select([self._from], [], [], PATIENCE)[0]:
                raise BrowserError(f"the browser has said nothing for {PATIENCE} s")
            piece = os.read(self._from, 1 << 20)
            if not piece:
                raise BrowserError("the browser has ended")
            self._read += piece
        message, _, self._read = self._read.partition(b"\0")
        said: Answer = json.loads(message)
        return said


@contextmanager
def browser() -> Iterator[Browser]:
    """A browser with nothing of anybody's in it, which ends with the block."""
    assert PROGRAM is not None, NOT_THERE
    their_in, to_browser = os.pipe()
    from_browser, their_out = os.pipe()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        command = [sys.executable, "-c", PIPES_IN_PLACE, str(their_in), str(their_out), PROGRAM, *OPTIONS]
        command.append(f"--user-data-dir={Path(folder)}")
        process = subprocess.Popen(
            command, pass_fds=(their_in, their_out), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        os.close(their_in)
        os.close(their_out)
        try:
            yield Browser(to_browser, from_browser)
        finally:
            os.close(to_browser)
            os.close(from_browser)
            process.kill()
            process.wait()
