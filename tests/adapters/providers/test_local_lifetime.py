"""The real embedded model, if it is installed: it may be closed right after loading, and Ctrl-C ends a loading."""

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from loopkernel_adapters.providers.local import provider as local

pytestmark = pytest.mark.skipif(
    not all(importlib.util.find_spec(name) is not None for name in ("xllamacpp", local.MODEL_PACKAGE)),
    reason="the embedded model is NOT installed, so its loading and closing was not tried: `make model` installs it, "
    "and `make slow` then tries it",
)

PATIENCE = 60  # seconds, after which a process hangs for certain
OPEN_AND_CLOSE = """
from loopkernel_adapters.providers.local.provider import LocalProvider
for _ in range(6):
    LocalProvider.load().close()
print("closed")
"""
LOAD_AND_BE_INTERRUPTED = """
import sys
from loopkernel_adapters.cli.main import main
from loopkernel_adapters.providers.local import provider as local
load = local.load_engine
def told(settings):
    print("loading", flush=True)
    engine = load(settings)
    print("loaded", flush=True)
    return engine
local.load_engine = told
sys.exit(main(["run", "x", "--workspace", ".", "--log", "log.jsonl"]))
"""


def test_the_real_model_may_be_closed_as_soon_as_it_is_loaded() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", OPEN_AND_CLOSE], capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    assert ended.stdout.splitlines()[-1] == "closed"


def test_ctrl_c_while_the_real_model_is_loaded_ends_the_process(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", LOAD_AND_BE_INTERRUPTED],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "loading\n"
            os.kill(process.pid, signal.SIGINT)
            output, errors = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
    assert process.returncode == 1
    assert "loaded" in output  # it was not torn off in the middle
    assert "interrupted" in errors
    assert "Traceback" not in errors
