"""What an editor is told of a run gives its conversation back: over every scenario, and over any run."""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import assume, given
from loopkernel.codec import record_to_text
from loopkernel.data.events import Event, MessageAdded
from loopkernel.data.messages import SENT_BY_USER, Message, UserMessage
from loopkernel.data.records import LogRecord
from loopkernel.data.states import State
from loopkernel.data.user_deltas import CancelAll
from loopkernel.replaying import fold, replay
from loopkernel.testing.run import Run
from loopkernel.testing.strategies.walks import runs
from loopkernel_adapters.acp.updates import Updates, of_thread
from loopkernel_adapters.driver.asyncio_driver import is_event

from tests.adapters.acp.seen import Line, Seen, line_of, prompt_line, said_in, seen_by_client
from tests.kernel.scenario_logs import FILES, logs_of

FOLDER = Path("/workspace")


def events_of(log: Sequence[LogRecord]) -> Iterator[tuple[Event, State]]:
    for step in fold(log):
        for effect in step.effects:
            if is_event(effect):
                yield effect, step.after


def told(happened: Sequence[tuple[Event, State]]) -> Iterator[Line]:
    """The lines of a client: what the user says is sent by it, everything else is told to it."""
    updates = Updates(FOLDER)
    for number, (event, state) in enumerate(happened):
        added = event.message if isinstance(event, MessageAdded) else None
        if isinstance(added, UserMessage) and added.origin in SENT_BY_USER:
            yield prompt_line(added.content, number)
        yield from map(line_of, updates.of(event, state))
        yield from map(line_of, updates.begun(state))


def messages_of(happened: Sequence[tuple[Event, State]]) -> list[Message]:
    """All that was ever added, as a client has seen it: the protocol cannot take a message out again."""
    return [event.message for event, _ in happened if isinstance(event, MessageAdded)]


def both(log: Sequence[LogRecord], folder: Path) -> tuple[Seen, Seen]:
    happened = list(events_of(log))
    return seen_by_client(told(happened), folder), said_in(messages_of(happened))


# Of a reply that is kept after it was told to be void, and of calls that a provider runs, which nothing announces, a
# client is told when its other parts have been.
LATE = frozenset(
    [
        "a-failing-stream-keeps-a-reply-that-has-written",
        "retry-keeps-a-reply-that-has-written",
        "a-broken-stream-runs-its-whole-calls",
        "a-call-beside-one-run-by-the-provider",
    ]
)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_client_has_the_conversation_of_every_scenario(file: Path, tmp_path: Path) -> None:
    for name, log in logs_of(file).items():
        client, thread = both(log, tmp_path)
        if name in LATE:
            assert client.parts != thread.parts
            client, thread = client.in_any_order(), thread.in_any_order()
        assert client.parts == thread.parts, name
        answers = {each[0]: each for each in client.results}
        assert {each[0]: answers.get(each[0]) for each in thread.results} == {each[0]: each for each in thread.results}


@given(run=runs())
def test_a_client_has_the_conversation_of_any_run(run: Run) -> None:
    log = (*run.log, LogRecord(CancelAll(), run.log[-1].now_ms))  # so that no reply is on its way at the end
    assume(not any('"data":""' in record_to_text(record) for record in log))  # to a reader, no content is no image
    with tempfile.TemporaryDirectory() as folder:
        client, thread = both(log, Path(folder))
    assert client.in_any_order() == thread.in_any_order()


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_loaded_thread_is_shown_whole(file: Path, tmp_path: Path) -> None:
    for log in logs_of(file).values():
        session = replay(log).session
        thread = () if session is None else tuple(session.thread)
        shown = seen_by_client(map(line_of, of_thread(thread, FOLDER)), tmp_path)
        assert shown.in_any_order() == said_in(thread).in_any_order()
