"""A rule about a resource holds for every tool that reaches it: with the shipped tools, on a real folder."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from attrs import frozen
from hypothesis import example, given, settings
from hypothesis import strategies as st
from loopkernel.data.blocks import text_of
from loopkernel.data.events import ApprovalAsked, Event, ToolEnded
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.policy import ApprovalRule, FieldPattern, Policy, ResourcePattern
from loopkernel.data.thread_deltas import Created
from loopkernel.data.tools import Decision
from loopkernel.data.words import CallStatus
from loopkernel_adapters.driver.asyncio_driver import Driver
from loopkernel_adapters.driver.clocks import ManualClock
from loopkernel_adapters.providers.scripted import ScriptedProvider, call_reply, text_reply
from loopkernel_adapters.stores.memory import MemoryStore
from loopkernel_adapters.tools.coding import coding_tools
from loopkernel_adapters.tools.files import Workspace
from loopkernel_adapters.tools.processes import without_namespace
from loopkernel_adapters.tools.registry import Registry

from tests.adapters.driver.driver_world import say

CANARY = "CANARY-7f3a"
HIDDEN = "unguessed.txt"
Given = tuple[str, dict[str, JsonValue]]


def filled(folder: Path) -> Path:
    """A folder with secrets, a link to them, and a file that is none."""
    (folder / "secrets" / "deep").mkdir(parents=True)
    (folder / "other").mkdir()
    (folder / "secrets" / "key.txt").write_text(CANARY)
    (folder / "secrets" / "deep" / HIDDEN).write_text(CANARY)
    (folder / "other" / "a.txt").write_text("nothing to hide")
    (folder / "other" / "link").symlink_to(folder / "secrets")
    return folder


def secrets_in(folder: Path) -> dict[str, bytes]:
    """All that lies below the secrets."""
    return {
        str(path.relative_to(folder)): path.read_bytes() for path in (folder / "secrets").rglob("*") if path.is_file()
    }


@frozen
class Outcome:
    """How calls ended, by their place, and which a person was asked about."""

    results: dict[int, tuple[CallStatus, str]]
    asked: set[int]

    def told(self) -> str:
        return "\n".join(text for _, text in self.results.values())


def outcome(folder: Path, calls: Sequence[Given], *rules: ApprovalRule) -> Outcome:
    """What becomes of the calls where the rules hold, and all else is allowed; nobody answers."""
    policy = Policy(approval_rules=(*rules, ApprovalRule(decision=Decision.ALLOW)), loop=None)
    events: list[Event] = []

    async def run() -> None:
        with Workspace(folder) as workspace:
            tools = Registry(coding_tools(workspace, confined=without_namespace()))
            reply = call_reply(*[(tool, Json.of(given)) for tool, given in calls])
            async with await Driver.open(
                store=MemoryStore(),
                created=Created(session_id="s", policy=policy, tools=tools.offered()),
                provider=ScriptedProvider([reply, text_reply("done")]),
                tools=tools,
                clock=ManualClock(1_000),
                observers=(events.append,),
            ) as driver:
                await driver.send(say("go"))
                await driver.rest()

    asyncio.run(run())
    ended = [event.result for event in events if isinstance(event, ToolEnded)]
    return Outcome(
        {result.call.position: (result.status, text_of(result.content)) for result in ended},
        {event.call.position for event in events if isinstance(event, ApprovalAsked)},
    )


def denying(pattern: str) -> ApprovalRule:
    return ApprovalRule(decision=Decision.DENY, input=(FieldPattern("path", pattern),))


def calls_with(path: str | None) -> list[Given]:
    """One call of each tool, with that path; None: left out where there is a default."""
    where: dict[str, JsonValue] = {} if path is None else {"path": path}
    searches: list[Given] = [
        ("grep", {"pattern": "CANARY", **where}),
        ("list_files", where),
        ("glob", {"pattern": "**/*.txt", **where}),
    ]
    if path is None:
        return searches
    return [
        *searches,
        ("read_file", where),
        ("write_file", {**where, "text": "mine"}),
        ("edit_file", {**where, "old_text": "CANARY", "new_text": "mine"}),
    ]


PATTERNS = ("secrets/*", "secrets", "secrets/", "./secrets/*", "secrets/**", "other/../secrets/*", "/*/secrets/*")
PATHS = (
    ".",
    "secrets",
    "secrets/",
    "secrets/deep",
    "secrets/key.txt",
    f"secrets/deep/{HIDDEN}",
    "./secrets/key.txt",
    "./secrets",
    "secrets//key.txt",
    "secrets/./key.txt",
    "secrets/new.txt",
    "other",
    "other/..",
    "other/../secrets/key.txt",
    "other/../secrets",
    "other/link",
    "other/link/key.txt",
    "other/link/deep",
    "/ROOT/secrets/key.txt",
    "/ROOT/secrets",
    "/ROOT",
    "SECRETS/key.txt",
    "..",
    "",
)
ALL_CALLS = [call for path in (None, *PATHS) for call in calls_with(path)]


def placed(call: Given, folder: Path) -> Given:
    tool, given = call
    path = given.get("path")
    return (tool, {**given, "path": path.replace("/ROOT", str(folder))}) if isinstance(path, str) else call


@pytest.mark.rule("ASK-1")
@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(ALL_CALLS), min_size=1, max_size=8), st.sampled_from(PATTERNS))
@example([*calls_with(None), *calls_with("."), *calls_with("secrets"), *calls_with("other")], "secrets/*")
@example([*calls_with("secrets/key.txt"), *calls_with("other/link"), *calls_with("secrets/new.txt")], "secrets")
def test_no_tool_shows_or_changes_what_a_rule_denies(calls: list[Given], pattern: str) -> None:
    with TemporaryDirectory() as name:
        folder = filled(Path(name))
        before = secrets_in(folder)
        found = outcome(
            folder,
            [*(placed(call, folder) for call in calls), ("shell", {"command": "cat secrets/*"})],
            denying(pattern),
        )
        assert CANARY not in found.told()
        assert HIDDEN not in found.told().replace(f"deep/{HIDDEN}", "")  # as a call itself may name it
        assert secrets_in(folder) == before
        assert found.asked == {len(calls) + 1}


@pytest.mark.rule("ASK-1")
def test_an_absolute_pattern_holds_too(tmp_path: Path) -> None:
    folder = filled(tmp_path)
    calls = [*calls_with(None), *calls_with("secrets/key.txt")]
    found = outcome(folder, calls, denying(f"{folder}/secrets/*"))
    assert {status for status, _ in found.results.values()} == {CallStatus.ERROR}
    assert CANARY not in found.told()


@pytest.mark.rule("ASK-1")
def test_what_lies_beside_is_found_read_and_written(tmp_path: Path) -> None:
    folder = filled(tmp_path)
    calls: list[Given] = [
        ("grep", {"pattern": "hide", "path": "other"}),
        ("list_files", {"path": "other"}),
        ("glob", {"pattern": "*", "path": "other"}),
        ("read_file", {"path": "other/a.txt"}),
        ("edit_file", {"path": "other/a.txt", "old_text": "nothing", "new_text": "a thing"}),
        ("write_file", {"path": "other/b.txt", "text": "mine"}),
        ("grep", {"pattern": "hide"}),
    ]
    found = outcome(folder, calls, denying("secrets/*"))
    *others, (status, told) = [found.results[place] for place in range(1, len(calls) + 1)]
    assert {one for one, _ in others} == {CallStatus.DONE}
    assert (folder / "other" / "a.txt").read_text() == "a thing to hide"
    assert status is CallStatus.ERROR
    assert '"secrets/*"' in told
    assert "narrower path" in told


@pytest.mark.rule("ASK-1")
def test_a_rule_about_resources_needs_no_field(tmp_path: Path) -> None:
    folder = filled(tmp_path)
    rule = ApprovalRule(decision=Decision.DENY, resources=(ResourcePattern("secrets"),))
    calls: list[Given] = [
        *calls_with(None),
        *calls_with("secrets/key.txt"),
        ("shell", {"command": "cat secrets/key.txt"}),
    ]
    found = outcome(folder, calls, rule)
    assert found.asked == {len(calls)}
    assert CANARY not in found.told()
    assert {found.results[place][0] for place in range(1, len(calls))} == {CallStatus.ERROR}
