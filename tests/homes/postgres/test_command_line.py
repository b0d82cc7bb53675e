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


SCRIPT: tuple[dict[str, object], ...] = (
    {"calls": [{"tool": "delegate", "input": {"prompt": "write it"}}]},
    {"calls": [{"tool": "write_file", "input": {"path": "note.txt", "text": "tea"}}]},
    {"text": "It is written."},
    {"text": ANSWER},
)


def test_a_call_of_a_sub_agent_is_listed_and_answered(server: PostgresServer, tmp_path: Path) -> None:
    (tmp_path / "script.json").write_text(json.dumps(SCRIPT))
    where = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path / "configuration")}
    store = ("--store", f"postgres:{server.dsn}")
    command = (sys.executable, "-m", "loopkernel_adapters")

    def said(*arguments: str, status: int = 0) -> str:
        done = subprocess.run([*command, *arguments, *store], cwd=tmp_path, env=where, capture_output=True, text=True)
        assert done.returncode == status, done.stderr
        return done.stdout + done.stderr

    serves = [*command, "worker", "--model", "scripted:script.json", "--sub-agents", *store]
    worker = subprocess.Popen(serves, cwd=tmp_path, env=where)
    try:
        said("send", "note", "Have a note written.")
        for _ in range(int(PATIENCE_SECONDS)):  # each command takes about a second
            if "note" in said("runs") and "write_file" in said("send", "note", "--waiting"):
                break
        assert "call 1.1/1.1, write_file" in said("send", "note", "--waiting")
        assert "is not an answer" in said("send", "note", "yes please", "--call", "1.1/1.1", status=2)
        assert "no call 7.1 of run note waits: there is 1.1/1.1" in said(
            "send", "note", "yes", "--call", "7.1", status=2
        )
        assert "'yes' to call 1.1/1.1, write_file" in said("send", "note", "yes", "--call", "1.1/1.1")
        for _ in range(int(PATIENCE_SECONDS)):
            if ANSWER in said("log", "note"):
                break
        assert (tmp_path / "note.txt").read_text() == "tea"
        assert "no call waits" in said("send", "note", "--waiting")
    finally:
        worker.terminate()
        assert worker.wait(PATIENCE_SECONDS) == 0
