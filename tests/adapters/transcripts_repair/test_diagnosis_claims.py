"""What a diagnosis says that a fault does: no more than the recording bears out."""

import json
from pathlib import Path

import pytest
from loopkernel_adapters.transcripts.diagnosing import REFUSED, diagnosed
from loopkernel_adapters.transcripts.entries import FindingKind
from loopkernel_adapters.transcripts.repairing_threads import repaired_conversations
from loopkernel_adapters.transcripts.source import Source

from tests.adapters.transcripts.recordings_world import EXAMPLES, examples
from tests.adapters.transcripts_repair.recorded import chat_session

pytestmark = pytest.mark.rule("RESUME-5")


def effects(path: Path) -> dict[FindingKind, str | None]:
    """Of each kind of fault, what it is said to do."""
    found = diagnosed(Source(path))
    return {fault.kind: found.effect(fault) for fault in found.faults}


@pytest.mark.parametrize(("kept", "goes_on"), [(5, False), (6, True)])
def test_a_fault_refuses_every_later_request_unless_the_model_answered_after_it(
    tmp_path: Path, kept: int, goes_on: bool
) -> None:
    path = tmp_path / "chat.json"
    path.write_text(json.dumps([*chat_session()[:4], *chat_session()[5:kept]]))  # without the result of call_2
    (effect,) = effects(path).values()
    assert effect is not None
    assert effect.startswith(REFUSED) is not goes_on
    assert ("a provider refuses a request" in effect) is goes_on


@pytest.mark.parametrize("name", examples())
def test_a_recording_is_said_to_go_on_where_a_conversation_is_left_of_it(name: str) -> None:
    source = Source(EXAMPLES / name)
    assert diagnosed(source).goes_on is (repaired_conversations(source).main is not None)


def test_a_reply_of_another_conversation_does_not_bear_it_out(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_text(json.dumps([{"messages": chat_session()[:4]}, {"messages": chat_session()}]))
    (effect,) = effects(path).values()
    assert effect is not None
    assert effect.startswith(REFUSED)


@pytest.mark.parametrize("name", [name for name in examples() if name.startswith("provider-stream/")])
def test_a_stream_misses_no_result(name: str) -> None:
    assert FindingKind.UNANSWERED not in effects(EXAMPLES / name)


def test_a_command_that_was_read_from_a_text_misses_no_result() -> None:
    assert FindingKind.UNANSWERED not in effects(EXAMPLES / "swe-agent" / "text-protocol.traj")
    assert FindingKind.UNANSWERED in effects(EXAMPLES / "swe-agent" / "function-calling.traj")
