"""The presets, each field against the tables of specs/rules/presets.md."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import fields
from loopkernel.codec import policy_from_text, policy_to_text
from loopkernel.data import choices
from loopkernel.data.policy import Compaction, Policy, ResultLimit, Retry
from loopkernel.data.words import ErrorClass
from loopkernel.loop.algorithms.replies import MAX_PAUSES
from loopkernel.presets import PRESET_NAMES, VARIANTS, preset

PAGE = (Path(__file__).resolve().parents[3] / "specs" / "rules" / "presets.md").read_text(encoding="utf-8")
DEFAULT = Policy()


def rows_of(page: str) -> Iterator[tuple[str, list[str]]]:
    """The rows of the tables that have a column for each preset: the option, and its cells in their order."""
    for line in page.splitlines():
        option, *cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) == len(PRESET_NAMES) + 1 and option.startswith("`"):
            yield option.replace("`", ""), cells[:-1]


# --- what a cell says -------------------------------------------------------------------------------------

Reading = Callable[[str], Any]  # Any: a value of whatever type the option has


def plain(cell: str) -> str:
    """The cell without what is in brackets, which is for the reader."""
    return re.sub(r"\s*\(.*\)", "", cell)


def number(cell: str) -> int | None:
    count = plain(cell).removesuffix(", then `stuck`").replace(",", "")
    return None if count == "none" else int(count)


def milliseconds(cell: str) -> int | None:
    return None if cell == "none" else round(float(cell.removesuffix(" s").replace(",", "")) * 1_000)


def word(kind: Any) -> Reading:  # Any: an enum class, called with a word
    return lambda cell: kind(plain(cell))


def error_classes(cell: str) -> tuple[ErrorClass, ...]:
    if cell == "as default":
        return Retry().classes
    return tuple(ErrorClass(name) for name in plain(cell).split(", "))


def retry(name: str, reading: Reading) -> Callable[[Policy, str], None]:
    """A row of the schedule of retries: a value where there are retries, nothing where there are none."""

    def check(policy: Policy, cell: str) -> None:
        if cell in ("none", ""):
            assert policy.retry is None
        else:
            assert policy.retry is not None
            assert getattr(policy.retry, name) == reading(cell)

    return check


def unstreamed(policy: Policy, cell: str) -> None:
    """The classes after which the whole reply is asked for: none where nothing is retried."""
    found = () if policy.retry is None else policy.retry.unstreamed
    assert found == (() if cell in ("none", "") else error_classes(cell))


def field(name: str, reading: Reading) -> Callable[[Policy, str], None]:
    """A row of an option of the policy itself."""

    def check(policy: Policy, cell: str) -> None:
        assert getattr(policy, name) == reading(cell)

    return check


def base_and_factor(policy: Policy, cell: str) -> None:
    if cell == "none":
        assert policy.retry is None
    else:
        base, factor = cell.split(", ")
        assert policy.retry is not None
        assert (policy.retry.base_ms, policy.retry.factor) == (milliseconds(base), float(factor))


def waits(policy: Policy, cell: str) -> None:
    """The waits follow from base, factor, cap and the number of retries."""
    if policy.retry is None:
        assert cell == ""
        return
    given = policy.retry
    computed = [min(given.base_ms * given.factor**attempt, given.cap_ms) for attempt in range(given.retries)]
    assert computed == [float(seconds) * 1_000 for seconds in cell.removesuffix(" s").split(", ")]


def escalation(policy: Policy, cell: str) -> None:
    assert policy.on_truncation.escalate_to == (() if cell == "none" else (number(cell),))


def result_characters(policy: Policy, cell: str) -> None:
    assert (policy.result_limit.chars if policy.result_limit else None) == number(cell)


def head_and_tail(policy: Policy, cell: str) -> None:
    if policy.result_limit is None:
        assert cell == ""
    else:
        head, tail = cell.split(", ")
        assert (policy.result_limit.head, policy.result_limit.tail) == (number(head), number(tail))


def oversize(policy: Policy, cell: str) -> None:
    assert ("" if policy.result_limit is None else policy.result_limit.oversize.value) == cell


def strategy(policy: Policy, cell: str) -> None:
    told = cell.split(" ")[0]
    assert (policy.compaction.strategy.value if policy.compaction else "none") == told


def trigger(policy: Policy, cell: str) -> None:
    found = policy.compaction
    if cell == "":
        assert found is None
        return
    assert found is not None
    told = {
        "ratio": (float(cell.split()[-1]) if cell.startswith("ratio") else None, None),
        "tokens": (None, int(cell.split()[0].replace(",", "")) if cell.endswith("tokens") else None),
        "messages": (None, None),
    }["ratio" if cell.startswith("ratio") else cell.split()[-1]]
    assert (found.trigger_ratio, found.trigger_tokens) == told


def keep(policy: Policy, cell: str) -> None:
    found = policy.compaction
    if found is None:
        assert cell == ""
    elif cell.endswith("messages"):
        assert (found.keep_messages, found.keep_turns) == (int(cell.split()[0]), None)
    else:
        turns = int(cell.split()[0]) if cell else Compaction().keep_turns
        assert (found.keep_turns, found.keep_messages, found.keep_ratio) == (turns, None, None)


def moment(policy: Policy, cell: str) -> None:
    assert (policy.compaction.when.value if policy.compaction else "") == cell.partition(",")[0]


def shortening(policy: Policy, cell: str) -> None:
    found = None if policy.compaction is None else policy.compaction.shorten_results
    assert ("none" if found is None else str(found)) == (cell or "none")


def clear_results(policy: Policy, cell: str) -> None:
    found = policy.clear_results
    if cell == "none":
        assert found is None
        return
    assert found is not None
    counts = re.findall(r"\d+", cell) or ["15", "5"]
    assert (found.above, found.keep) == tuple(map(int, counts))
    assert found.when.value == cell.rpartition(" ")[2]


def loop(policy: Policy, cell: str) -> None:
    found = policy.loop
    tiers = "none" if found is None else f"{found.note}, {found.disable}, {found.stop}"
    assert tiers == cell


def course_correction(policy: Policy, cell: str) -> None:
    found = policy.course_correction
    assert ("none" if found is None else f"{found.after_calls} calls, {found.after_writes} write") == cell


def on_restart(policy: Policy, cell: str) -> None:
    assert policy.on_restart.dangerous.value == plain(cell)


def safe_restart(policy: Policy, cell: str) -> None:
    assert policy.on_restart.read_only.value == policy.on_restart.idempotent.value == cell


def restarted_child(policy: Policy, cell: str) -> None:
    assert policy.on_restart.child.value == plain(cell)


CHECKS: dict[str, Callable[[Policy, str], None]] = {
    "lifetime": field("lifetime", word(choices.Lifetime)),
    "max_output_tokens": field("max_output_tokens", number),
    "max_reply_chars": field("max_reply_chars", number),
    "on_truncation: escalate to": escalation,
    "on_truncation: continuations": lambda policy, cell: _same(policy.on_truncation.continuations, number(cell)),
    "on_truncation: then": lambda policy, cell: _same(policy.on_truncation.then.value, cell),
    "on_truncation: calls": lambda policy, cell: _same(policy.on_truncation.calls.value, cell),
    "max_turns": field("max_turns", number),
    "turn_limit_counts": field("turn_limit_counts", word(choices.TurnLimitCounts)),
    "empty_reply_nudges": field("empty_reply_nudges", number),
    "still_empty": field("still_empty", word(choices.StillEmpty)),
    "nudges_count": field("nudges_count", word(choices.NudgesCount)),
    "missing_call_retries": field("missing_call_retries", number),
    "refusal_notes": field("refusal_notes", number),
    "on_broken_stream": field("on_broken_stream", word(choices.OnBrokenStream)),
    "on_pause": field("on_pause", word(choices.OnPause)),
    "retry_after_cap_ms": field("retry_after_cap_ms", milliseconds),
    "stop_hook_limit": field("stop_hook_limit", number),
    "on_busy": field("on_busy", word(choices.OnBusy)),
    "run_calls": field("run_calls", word(choices.RunCalls)),
    "schedule": field("schedule", word(choices.Schedule)),
    "early_start": field("early_start", word(choices.EarlyStart)),
    "max_parallel": field("max_parallel", number),
    "no_profile": field("no_profile", word(choices.NoProfile)),
    "write_conflict": field("write_conflict", word(choices.WriteConflict)),
    "on_reject": field("on_reject", word(choices.OnReject)),
    "on_tool_failure": field("on_tool_failure", word(choices.OnToolFailure)),
    "approval_timeout_ms": field("approval_timeout_ms", milliseconds),
    "tool_timeout_ms": field("tool_timeout_ms", milliseconds),
    "result_limit: characters": result_characters,
    "result_limit: head, tail": head_and_tail,
    "result_limit: oversize": oversize,
    "retry: base, factor": base_and_factor,
    "retry: cap": retry("cap_ms", milliseconds),
    "retry: retries": retry("retries", number),
    "retry: waits": waits,
    "retry: jitter, up to": retry("jitter_ms", lambda cell: milliseconds(cell)),
    "retry: classes": retry("classes", error_classes),
    "retry: unstreamed": unstreamed,
    "errors": field("errors", word(choices.ErrorDisplay)),
    "on_error": field("on_error", word(choices.OnError)),
    "silence_ms": field("silence_ms", milliseconds),
    "compaction: strategy": strategy,
    "compaction: trigger": trigger,
    "compaction: keep": keep,
    "compaction: when": moment,
    "compaction: shorten_results": shortening,
    "output_demand": field("output_demand", word(choices.OutputDemand)),
    "redacts": field("redacts", word(choices.Redacts)),
    "clear_results": clear_results,
    "loop: note, disable, stop": loop,
    "course_correction": course_correction,
    "on_restart: dangerous": on_restart,
    "on_restart: read_only, idempotent": safe_restart,
    "on_restart: child": restarted_child,
}


def _same(found: object, told: object) -> None:
    assert found == told


ROWS = dict(rows_of(PAGE))
CASES = [(option, name, cell) for option, cells in ROWS.items() for name, cell in zip(PRESET_NAMES, cells, strict=True)]


@pytest.mark.parametrize(("option", "name", "cell"), CASES)
def test_a_preset_is_what_the_page_says(option: str, name: str, cell: str) -> None:
    CHECKS[option](preset(name), cell)


def test_every_row_is_checked_and_every_option_that_a_preset_varies_has_a_row() -> None:
    assert ROWS.keys() == CHECKS.keys()
    told = {option.partition(":")[0] for option in ROWS}
    varied = {
        option.name
        for option in fields(Policy)
        if any(getattr(preset(name), option.name) != getattr(DEFAULT, option.name) for name in PRESET_NAMES)
    }
    assert varied <= told


@pytest.mark.rule("INFER-14")
@pytest.mark.rule("INFER-4")
def test_what_no_preset_varies() -> None:
    for name in PRESET_NAMES:
        policy = preset(name)
        child = policy.child
        assert (child.max_output_tokens, child.max_turns, child.timeout_ms, child.depth) == (8_000, 10, 60_000, 1)
        assert (policy.grace_ms, policy.hook_timeout_ms) == (5_000, 30_000)
        assert (policy.no_profile_approval.value, MAX_PAUSES) == ("ask", 10)
        if policy.compaction is not None:
            found = policy.compaction
            assert (found.failures, found.cooldown_ms, found.window_tokens) == (3, 60_000, 200_000)
        if policy.loop is not None:
            assert (policy.loop.window, policy.loop.disable_turns) == (24, 3)


def test_the_default_is_the_policy_that_says_nothing() -> None:
    assert preset("default") == DEFAULT
    assert DEFAULT.result_limit == ResultLimit()


def test_a_preset_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(KeyError, match="default, amp, amodal, claude, strands, calls, claude-document"):
        preset("gpt")


@pytest.mark.rule("RESUME-1")
@pytest.mark.parametrize("name", [*PRESET_NAMES, *VARIANTS])
def test_a_preset_comes_back_from_its_document(name: str) -> None:
    assert policy_from_text(policy_to_text(preset(name))) == preset(name)
