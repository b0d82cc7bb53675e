"""Where a play under another policy parts from what was recorded: at which record, in what, and how often."""

from pathlib import Path

import pytest
from attrs import evolve
from loopkernel.data import events
from loopkernel.data.choices import NoProfileApproval, Schedule
from loopkernel.data.policy import Policy
from loopkernel.presets import PRESETS
from loopkernel_adapters.transcripts.comparing import Comparison, Difference, NotAskedFor, TurningPoint, played_under
from loopkernel_adapters.transcripts.replaying import AS_RECORDED
from loopkernel_adapters.transcripts.source import Source

from tests.adapters.transcripts.recordings_world import EXAMPLES, QUICK, examples
from tests.adapters.transcripts_repair.recorded import answers, asks, chat_session, claude, line, results, text, use


def compared(folder: Path, records: list[bytes], policy: Policy) -> Comparison:
    """The session, under the policy, against the same as it was recorded."""
    path = folder / "session.jsonl"
    path.write_bytes(b"".join(records))
    return played_under(Source(path), policy, AS_RECORDED)[1]


def of(found: Comparison, kind: type[TurningPoint]) -> Difference:
    """The one difference of that kind."""
    (difference,) = (difference for difference in found.differences if isinstance(difference.event, kind))
    return difference


def session(*seconds: int) -> list[bytes]:
    """Two rounds with a call each, and a last reply; the time of each of the six records, in seconds."""
    at = [{"timestamp": f"2026-01-02T03:{second // 60:02}:{second % 60:02}.000Z"} for second in seconds or range(6)]
    return [
        claude(1, None, "user", asks("Look around."), **at[0]),
        claude(2, 1, "assistant", answers("msg_1", use("toolu_1")), **at[1]),
        claude(3, 2, "user", results("toolu_1"), **at[2]),
        claude(4, 3, "assistant", answers("msg_2", use("toolu_2")), **at[3]),
        claude(5, 4, "user", results("toolu_2"), **at[4]),
        claude(6, 5, "assistant", answers("msg_3", text("Done.")), **at[5]),
    ]


@pytest.mark.parametrize("name", examples())
def test_under_the_policy_that_it_was_recorded_under_nothing_goes_otherwise(name: str) -> None:
    _, found = played_under(Source(EXAMPLES / name), AS_RECORDED, AS_RECORDED)
    assert found.differences == ()
    assert found.not_asked_for == ()


@pytest.mark.parametrize(("number", "name"), list(enumerate(examples()))[:: 3 if QUICK else 1])
def test_what_is_not_reached_has_a_reason(number: int, name: str) -> None:
    """A third of the examples, each under one preset; all under each when there is more time."""
    presets = list(PRESETS.values())
    for policy in [presets[number % len(presets)]] if QUICK else presets:
        played, found = played_under(Source(EXAMPLES / name), policy, AS_RECORDED)
        places = {place for conversation in played.conversations for place in conversation.places}
        assert {difference.place for difference in found.differences} <= places
        assert not found.not_asked_for or found.differences, "parts are not reached, and nothing says why"


def test_a_limit_parts_the_two_at_the_reply_that_reaches_it(tmp_path: Path) -> None:
    found = compared(tmp_path, session(), evolve(AS_RECORDED, max_turns=1))
    limit, ended = of(found, events.LimitReached), of(found, events.TurnEnded)
    assert (limit.place.record if limit.place else 0) == 3
    assert isinstance(ended.event, events.TurnEnded)
    assert ended.event.reason.value == "max_turns"
    assert found.differences[0].place == limit.place
    assert found.ends.turns == {"model_stop": 1}
    assert of(found, NotAskedFor).times == 2  # the second reply, and the third


def test_a_call_that_takes_longer_than_it_may(tmp_path: Path) -> None:
    found = compared(tmp_path, session(0, 1, 100, 101, 102, 103), evolve(AS_RECORDED, tool_timeout_ms=60_000))
    (difference,) = found.differences
    assert isinstance(difference.event, events.ToolEnded)
    assert (difference.event.result.provider_id, difference.recorded, difference.times) == ("toolu_1", "done", 1)
    assert difference.place is not None
    assert difference.place.record == 3


def test_a_call_that_asks_because_of_the_policy_is_allowed_at_once(tmp_path: Path) -> None:
    """Nobody is known to have been asked, so what passes until the result is the time of the tool."""
    asks_first = evolve(AS_RECORDED, no_profile_approval=NoProfileApproval.ASK, tool_timeout_ms=60_000)
    found = compared(tmp_path, session(0, 1, 100, 101, 102, 103), asks_first)
    assert of(found, events.ApprovalAsked).times == 2
    assert of(found, events.ToolEnded).recorded == "done"


def test_silence_is_not_judged_where_no_pieces_are_recorded(tmp_path: Path) -> None:
    found = compared(tmp_path, session(0, 600, 601, 1_300, 1_301, 1_302), evolve(AS_RECORDED, silence_ms=60_000))
    assert found.differences == ()


def test_calls_that_wait_for_each_other_end_as_they_did(tmp_path: Path) -> None:
    parallel = [
        claude(1, None, "user", asks("Look around.")),
        claude(2, 1, "assistant", answers("msg_1", use("toolu_1"), use("toolu_2"))),
        claude(3, 2, "user", results("toolu_2")),
        claude(4, 3, "user", results("toolu_1")),
        claude(5, 4, "assistant", answers("msg_2", text("Done."))),
    ]
    found = compared(tmp_path, parallel, evolve(AS_RECORDED, schedule=Schedule.SERIAL))
    assert found.differences == ()


def test_what_is_refused_is_not_asked_for(tmp_path: Path) -> None:
    """Under a policy for one task, what the user says behind its end is refused, and the reply to it is not reached."""
    again = [
        claude(7, 6, "user", asks("Once more.")),
        claude(8, 7, "assistant", answers("msg_4", text("Done again."))),
    ]
    found = compared(tmp_path, [*session(), *again], evolve(AS_RECORDED, lifetime=PRESETS["calls"].lifetime))
    refused = of(found, events.Refused)
    assert (refused.times, refused.place.record if refused.place else 0) == (1, 7)
    assert [place.record for place in found.not_asked_for] == [8]


def test_conversations_are_compared_one_by_one(tmp_path: Path) -> None:
    messages = [message for message in chat_session() if message["role"] != "system"]
    path = tmp_path / "runs.json"
    path.write_bytes(line([{"traj": messages}, {"traj": messages}]))
    _, found = played_under(Source(path), evolve(AS_RECORDED, max_turns=1), AS_RECORDED)
    limits = [difference for difference in found.differences if isinstance(difference.event, events.LimitReached)]
    assert [limit.conversation for limit in limits] == ["run 1", "run 2"]
