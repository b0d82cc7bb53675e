"""Whatever was broken in a session: the repair leaves nothing harmful, keeps the rest, and changes nothing twice."""

import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.adapters.transcripts_repair.judging import judge
from tests.adapters.transcripts_repair.recorded import (
    chat_session,
    claude_session,
    codex_session,
    demand_shared,
    forked_session,
    shared_files,
)

Mutation = Callable[[list[bytes]], None]
IDS = (b"toolu_1", b"toolu_2", b"toolu_3", b"toolu_9", b"call_1", b"call_2", b"call_3", b"msg_1", b"msg_3", b"msg_9")


@st.composite
def mutations(draw: st.DrawFn) -> Mutation:
    """One way in which a list of records gets broken."""
    kind = draw(st.sampled_from(["drop", "repeat", "move", "cut", "rename", "copy"]))
    one, other = draw(st.integers(0, 40)), draw(st.integers(0, 40))
    old, new = draw(st.sampled_from(IDS)), draw(st.sampled_from(IDS))

    def mutate(records: list[bytes]) -> None:
        if len(records) < 4:
            return
        at = one % len(records)
        record = records[at]
        match kind:
            case "drop":
                del records[at]
            case "repeat":
                records.insert(other % len(records), record)
            case "move":
                records.insert(other % len(records), records.pop(at))
            case "cut":
                records[at] = record[: other % max(1, len(record) - 1)]
            case "rename":
                records[at] = record.replace(b'"' + old + b'"', b'"' + new + b'"')
            case _:
                copied = record.replace(b"00000000-0000-4000-8000", b"%08x-0000-4000-8000" % (other + 1))
                records.insert(other % len(records), copied)

    return mutate


BROKEN = st.lists(mutations(), max_size=4)


def judged(content: bytes, name: str) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(content)
        judge(path, Path(folder))


@pytest.mark.rule("RESUME-5")
@pytest.mark.parametrize("session", [claude_session, codex_session])
@given(broken=BROKEN, torn=st.integers(0, 60))
def test_sessions_of_lines(session: Callable[[], list[bytes]], broken: list[Mutation], torn: int) -> None:
    first, *records = session()
    for mutate in broken:
        mutate(records)
    lines = [record if record.endswith(b"\n") else record + b"\n" for record in (first, *records)]
    content = b"".join(lines)
    judged(content[: len(content) - torn] if torn < len(lines[-1]) else content, "session.jsonl")


@pytest.mark.rule("RESUME-5")
@given(
    broken=BROKEN,
    wrapped=st.sampled_from(["bare", "traj", "runs", "messages", "answered"]),
    indent=st.sampled_from([None, 2]),
)
def test_chat_messages(broken: list[Mutation], wrapped: str, indent: int | None) -> None:
    first, *records = [json.dumps(message).encode() for message in chat_session()]
    for mutate in broken:
        mutate(records)
    messages = [json.loads(first), *(json.loads(record) for record in records if _is_json(record))]
    other = [*chat_session()[1:3], *chat_session()[4:]]
    reply = {"choices": [{"finish_reason": "tool_calls", "message": chat_session()[2]}]}
    documents: dict[str, object] = {
        "bare": messages,
        "traj": [{"task_id": 1, "reward": 1.0, "traj": messages}],
        "runs": [{"task_id": 1, "traj": messages}, {"task_id": 2, "traj": other, "info": {"x": 1.50}}],
        "messages": {"model": "m", "messages": messages, "kwargs": {}},
        "answered": {"messages": messages, "response": {"id": "r", **reply}, "cost": 0.10},
    }
    judged(json.dumps(documents[wrapped], indent=indent).encode(), "session.json")


def _any_records(records: list[bytes]) -> st.SearchStrategy[list[bytes]]:
    """The records in any order, some of them gone and some there again."""
    few = st.lists(st.sampled_from(records), max_size=3)
    return st.builds(
        lambda shuffled, dropped, repeated: [*repeated, *shuffled[dropped:]],
        st.permutations(records),
        st.integers(0, len(records) // 2),
        few,
    )


@pytest.mark.rule("RESUME-5")
@pytest.mark.parametrize("session", [forked_session, codex_session])
@given(data=st.data())
def test_sessions_of_lines_in_any_order(session: Callable[[], list[bytes]], data: st.DataObject) -> None:
    first, *records = session()
    judged(b"".join([first, *data.draw(_any_records(records))]), "session.jsonl")


@pytest.mark.rule("RESUME-5")
@given(messages=_any_records([json.dumps(message).encode() for message in chat_session()]))
def test_chat_messages_in_any_order(messages: list[bytes]) -> None:
    judged(b"[" + b",".join(messages) + b"]", "session.json")


@pytest.mark.rule("RESUME-5")
@given(data=st.data())
def test_the_recordings_of_others_in_any_order(data: st.DataObject) -> None:
    demand_shared()
    small = [path for path in shared_files() if path.suffix == ".jsonl" and path.stat().st_size < 60_000]
    lines = data.draw(st.sampled_from(small)).read_bytes().rstrip(b"\n").split(b"\n")
    found = data.draw(_any_records(lines))
    if any(json.loads(found[0]).get(key) for key in ("sessionId", "leafUuid", "payload")):  # which tell its format
        judged(b"\n".join([*found, b""]), "session.jsonl")


def _is_json(record: bytes) -> bool:
    try:
        return isinstance(json.loads(record), dict)
    except ValueError:
        return False


@pytest.mark.rule("RESUME-5")
def test_the_recordings_of_others(tmp_path: Path) -> None:
    demand_shared()
    for path in shared_files():
        judge(path, tmp_path)


@pytest.mark.rule("RESUME-5")
def test_the_recordings_of_others_cut_anywhere(tmp_path: Path) -> None:
    """The last record is torn, and the records before it are left without what came behind them."""
    demand_shared()
    for path in shared_files():
        content = path.read_bytes()
        if path.suffix != ".jsonl" or len(content) > 400_000:
            continue
        for part in (3, 7):
            cut = tmp_path / "cut.jsonl"
            cut.write_bytes(content[: max(len(content) * part // 8, content.find(b"\n", content.find(b"\n") + 1))])
            judge(cut, tmp_path)
