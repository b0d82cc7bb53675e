"""What the six presets answer to each question that tells loops apart: a table of cells, each the fields that it fixes.

The table was written from the requirements, not from the code nor from specs/rules/presets.md: each holds the others.
"""

from collections.abc import Iterator

import pytest
from loopkernel.presets import PRESET_NAMES, preset

from tests.specs.preset_pages import differences, values_of

Cells = tuple[str, str, str, str, str, str]  # in the order of PRESET_NAMES; fields are parted by semicolons


def each(field: str, *values: str) -> Cells:
    """One field, with its value in each preset."""
    default, amp, amodal, claude, strands, calls = (f"{field} = {value}" for value in values)
    return default, amp, amodal, claude, strands, calls


def after_crash(safe: str) -> str:
    """What a restart does with the two classes of runs that may be repeated."""
    return f"on_restart.read_only = {safe}; on_restart.idempotent = {safe}"


def cut(escalate_to: str, continuations: int, then: str, calls: str) -> str:
    """What follows a truncated reply."""
    steps = f"on_truncation.escalate_to = {escalate_to}; on_truncation.continuations = {continuations}"
    return f"{steps}; on_truncation.then = {then}; on_truncation.calls = {calls}"


def waits(base_ms: str, cap_ms: str, retries: int, jitter_ms: str = "0") -> str:
    """A schedule that doubles from its base up to its cap."""
    bounds = f"retry.base_ms = {base_ms}; retry.factor = 2; retry.cap_ms = {cap_ms}"
    return f"{bounds}; retry.retries = {retries}; retry.jitter_ms = {jitter_ms}"


def limit(chars: str, side: str) -> str:
    """A result limit with a head and a tail of one length."""
    return f"result_limit.chars = {chars}; result_limit.head = {side}; result_limit.tail = {side}"


SIX_TURNS = "compaction.keep_turns = 6; compaction.keep_messages = none; compaction.keep_ratio = none"
LAST_MESSAGES = "compaction.keep_turns = none; compaction.keep_messages = 4; compaction.keep_ratio = none"


def summary(trigger: str, when: str = "any", kept: str = SIX_TURNS) -> str:
    """A summary, and what it keeps."""
    other = "trigger_tokens" if trigger.startswith("trigger_ratio") else "trigger_ratio"
    triggers = f"compaction.{trigger}; compaction.{other} = none"
    return f"compaction.strategy = summarise; {triggers}; {kept}; compaction.when = {when}"


WINDOW = (
    "compaction.strategy = window; compaction.trigger_ratio = none; compaction.trigger_tokens = none;"
    " compaction.keep_messages = 40; compaction.keep_turns = none; compaction.keep_ratio = none;"
    " compaction.when = turn_end; compaction.shorten_results = 200"
)
UNDER_PRESSURE = "clear_results.when = on_pressure"
TIERS = "loop.note = 3; loop.disable = 5; loop.stop = 8"
FIVE_TO_SIXTY = waits("5,000", "60,000", 5)
NO_RETRY = "retry = none"
SIX_CLASSES = "retry.classes = overloaded, rate_limited, server, network, stalled, invalid_output"
FIVE_CLASSES = "retry.classes = overloaded, rate_limited, server, network, stalled"
TWO_CLASSES = "retry.classes = overloaded, rate_limited"
FAILS = cut("none", 0, "fail", "error")
RECOVERS = cut("64,000", 3, "fail", "error")
SHOWN_AND_RESTS = "errors = shown; on_error = rest"
WITHHELD_AND_RESTS = "errors = withheld; on_error = rest"
NO_TURN_LIMIT = "max_turns = none"
NO_LOOP = "loop = none"
NO_LIMIT = "result_limit = none"
NO_CORRECTION = "course_correction = none"

TABLE: dict[str, Cells] = {
    "lifetime": each("lifetime", "session", "session", "task", "session", "task", "task"),
    "output limit": each("max_output_tokens", "32,000", "32,000", "16,384", "32,000", "none", "none"),
    "truncated output": (
        RECOVERS,
        FAILS,
        cut("none", 0, "natural", "error"),
        cut("none", 3, "fail", "run"),
        cut("none", 0, "fail", "note"),
        FAILS,
    ),
    "calls run by": each("run_calls", "content", "stop_reason", "content", "content", "either", "content"),
    "schedule": each("schedule", "graph", "batches", "read_runs", "read_runs", "all", "graph"),
    "early start": each("early_start", "gated", "never", "gated", "gated", "never", "gated"),
    "max parallel": each("max_parallel", "10", "none", "none", "10", "none", "none"),
    "no profile": each("no_profile", *["conflict"] * 4, "no_conflict", "no_conflict"),
    "writers of one resource": each("write_conflict", *["serialise"] * 5, "last_write"),
    "after rejection": each("on_reject", "continue", "halt", "skip_rest", "continue", "continue", "continue"),
    "failing call": each("on_tool_failure", *["continue"] * 6),
    "turn limit": (
        "max_turns = 100; turn_limit_counts = replies",
        NO_TURN_LIMIT,
        "max_turns = 50; turn_limit_counts = replies",
        "max_turns = none; turn_limit_counts = tool_replies",
        NO_TURN_LIMIT,
        NO_TURN_LIMIT,
    ),
    "retry": (
        FIVE_TO_SIXTY,
        FIVE_TO_SIXTY,
        NO_RETRY,
        waits("500", "32,000", 10, jitter_ms="125"),
        waits("4,000", "240,000", 5),
        NO_RETRY,
    ),
    "errors": (
        WITHHELD_AND_RESTS,
        SHOWN_AND_RESTS,
        "errors = shown; on_error = end",
        WITHHELD_AND_RESTS,
        "errors = shown; on_error = raise",
        "errors = withheld; on_error = feed_back",
    ),
    "compaction": (
        summary("trigger_ratio = 0.7"),
        summary("trigger_tokens = 100,000"),
        summary("trigger_ratio = 0.7"),
        summary("trigger_ratio = 0.85", when="turn_start", kept=LAST_MESSAGES),
        WINDOW,
        "compaction = none",
    ),
    "clear results": (
        UNDER_PRESSURE,
        "clear_results = none",
        "clear_results.above = 15; clear_results.keep = 5; clear_results.when = each_request",
        "clear_results = none",
        "clear_results = none",
        "clear_results = none",
    ),
    "loop tiers": (TIERS, NO_LOOP, TIERS, NO_LOOP, NO_LOOP, NO_LOOP),
    "input while busy": each("on_busy", "queue", "queue", "reject", "queue", "reject", "reject"),
    "output demanded": each("output_demand", "once", "once", "once", "once", "until_given", "once"),
    "redaction": each("redacts", "input", "input", "input", "input", "last_message", "input"),
    "empty reply": each("empty_reply_nudges", "1", "0", "0", "1", "0", "1"),
    "still empty": each("still_empty", "stuck", "stuck", "stuck", "natural", "stuck", "stuck"),
    "nudges": each("nudges_count", "turn", "turn", "turn", "round", "turn", "turn"),
    "missing calls": each("missing_call_retries", "none", "none", "none", "2", "none", "none"),
    "refusal": each("refusal_notes", "0", "0", "0", "1", "0", "0"),
    "broken stream": each("on_broken_stream", "retract", "retract", "retract", "keep", "retract", "retract"),
    "not streamed": (
        "retry.unstreamed = none",
        "retry.unstreamed = none",
        NO_RETRY,
        "retry.unstreamed = overloaded, rate_limited, server",
        "retry.unstreamed = none",
        NO_RETRY,
    ),
    "pause": each("on_pause", "continue", "continue", "continue", "end", "continue", "continue"),
    "longest wait asked for": each("retry_after_cap_ms", *["300,000"] * 3, "60,000", "300,000", "300,000"),
    "stop hook": each("stop_hook_limit", "10", "10", "10", "8", "10", "10"),
    "after a crash, dangerous": each("on_restart.dangerous", *["cancel"] * 4, "unknown", "unknown"),
    "after a crash, others": (
        after_crash("rerun"),
        after_crash("rerun"),
        after_crash("cancel"),
        after_crash("cancel"),
        after_crash("error"),
        after_crash("rerun"),
    ),
    "approval timeout": each("approval_timeout_ms", "none", "none", "300,000", "none", "none", "none"),
    "tool timeout": each("tool_timeout_ms", "120,000", "none", "30,000", "120,000", "none", "none"),
    "silence": each("silence_ms", "120,000", "120,000", "none", "120,000", "none", "none"),
    "result limit": (
        limit("20,000", "2,000"),
        NO_LIMIT,
        limit("20,000", "2,000"),
        f"{limit('30,000', '15,000')}; result_limit.oversize = spill",
        NO_LIMIT,
        NO_LIMIT,
    ),
    "course correction": (
        NO_CORRECTION,
        "course_correction.after_calls = 5; course_correction.after_writes = 1",
        NO_CORRECTION,
        NO_CORRECTION,
        NO_CORRECTION,
        NO_CORRECTION,
    ),
    "error classes retried": (SIX_CLASSES, SIX_CLASSES, NO_RETRY, FIVE_CLASSES, TWO_CLASSES, NO_RETRY),
}
# What a preset has for a rule that this table has no line for: sub-agents after a crash (rule RESUME-3).
BEYOND_THE_TABLE = {"on_restart.child"}

CELLS = [
    (question, name, cell) for question, cells in TABLE.items() for name, cell in zip(PRESET_NAMES, cells, strict=True)
]


def fixed(cell: str) -> Iterator[tuple[str, str]]:
    """The fields that a cell fixes: path and value."""
    for assignment in cell.split("; "):
        path, _, value = assignment.partition(" = ")
        yield path, value


@pytest.mark.parametrize(("question", "name", "cell"), CELLS)
def test_a_preset_answers_as_its_cell_says(question: str, name: str, cell: str) -> None:
    found = values_of(preset(name))
    assert {path: found.get(path) for path, _ in fixed(cell)} == dict(fixed(cell)), question


@pytest.mark.parametrize("name", PRESET_NAMES)
def test_nothing_but_the_cells_makes_a_preset_differ(name: str) -> None:
    told = {path for _, owner, cell in CELLS if owner == name for path, _ in fixed(cell)}
    assert differences(preset(name), preset("default")).keys() - told <= BEYOND_THE_TABLE


def test_the_table_is_whole() -> None:
    assert PRESET_NAMES == ("default", "amp", "amodal", "claude", "strands", "calls")
    assert len(TABLE) == 38
    assert len(CELLS) == 228
