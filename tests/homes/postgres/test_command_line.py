"""`loopkernel worker` in a process of its own, and what is said to it by `loopkernel send`, over a real server."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.homes.postgres.server import PostgresServer
from tests.homes.postgres.test_workers import PATIENCE_SECONDS

ANSWER = "Hello, too."


def test_a_worker_serves_what_is_sent(server: PostgresServer, tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text(json.dumps([{"text": ANSWER}]))
    where = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path / "configuration")}
    store = ("--store", f"postgres:{server.dsn}")
    command = (sys.executable, "-m", "loopkernel_adapters")

    def said(*arguments: str) -> str:
        done = subprocess.run([*command, *arguments, *store], cwd=tmp_path, env=where, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    worker = subprocess.Popen([*command, "worker", "--model", "scripted:script.json", *store], cwd=tmp_path, env=where)
    try:
        assert "input 1" in said("send", "greeting", "Hello")
        for _ in range(int(PATIENCE_SECONDS)):  # each command takes about a second
            if "greeting" in said("runs") and ANSWER in said("log", "greeting"):
                break
        assert ANSWER in said("log", "greeting")
    finally:
        worker.terminate()
        assert worker.wait(PATIENCE_SECONDS) == 0
