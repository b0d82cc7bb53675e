"""`loopkernel worker` and `send`: what they refuse, in words. What they do is tried with a server in `tests/homes`."""

import pytest

from tests.adapters.cli.sessions import MODEL, CommandLine, says, script


@pytest.mark.parametrize("command", [("worker", *MODEL), ("send", "run-1", "Hello")])
@pytest.mark.parametrize("store", [(), ("--store", "sqlite:runs.sqlite")])
def test_workers_share_a_database_and_nothing_else(
    command: tuple[str, ...], store: tuple[str, ...], loopkernel: CommandLine
) -> None:
    script(says("Hello."))
    ended = loopkernel(*command, *store)
    assert "workers share a PostgreSQL database: name it with --store postgres:DSN" in ended.err


def test_nothing_is_not_sent(loopkernel: CommandLine) -> None:
    assert "there is nothing to send" in loopkernel("send", "run-1", " ", "--store", "postgres:dbname=x").err


@pytest.mark.parametrize("command", [("runs",), ("log", "last"), ("send", "run-1", "Hello")])
def test_a_database_that_is_not_there_is_told_without_its_password(
    command: tuple[str, ...], loopkernel: CommandLine
) -> None:
    ended = loopkernel(*command, "--store", "postgres:postgresql://me:hunter2@127.0.0.1:9/none")
    assert "cannot be reached" in ended.err and "hunter2" not in ended.err + ended.out
