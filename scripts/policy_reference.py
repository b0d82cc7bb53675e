"""Prints docs/reference/policy.md: each option of a policy, with its unit, default, words, an example, and who sets it.

    python -m scripts.policy_reference > docs/reference/policy.md

Fields, defaults, words and presets are read from the kernel; what an option is for stands here. A test compares the
page with what this prints, and demands words for every option.
"""

import enum
from collections.abc import Iterator
from types import UnionType
from typing import Union, get_args, get_origin, get_type_hints

import attrs
from attrs import frozen
from loopkernel.policy import PRESETS, Policy


@frozen
class Text:
    """What people are told of an option: what it decides, in which unit, an example, and the rules that define it."""

    decides: str
    unit: str
    example: str
    rules: str


TOKENS, MS, CHARACTERS, COUNT, USD = "tokens", "milliseconds", "characters", "a count", "US dollars"
A_WORD, YES_OR_NO, TEXT = "a word", "yes or no", "a text"
TEXTS: dict[str, dict[str, Text]] = {
    "The run": {
        "lifetime": Text(
            "Whether a run ends with its task, or rests after each turn and goes on.", A_WORD, "task", "STATE-8"
        ),
        "model": Text(
            "The name of the model that is asked; the provider knows what it means.", TEXT, '"large"', "INFER-1"
        ),
        "fallback_models": Text(
            "Models that are asked, in this order, when the one before has failed for good.",
            "texts",
            '("small",)',
            "RETRY-4",
        ),
        "max_output_tokens": Text(
            "How long a reply may be; none leaves it to the provider.", TOKENS, "16_384", "INFER-14"
        ),
        "seed": Text("What the jitter of retries is drawn from.", COUNT, "7", "RETRY-2"),
    },
    "Limits": {
        "max_turns": Text("How many replies a turn may have.", COUNT, "50", "LIMIT-1"),
        "turn_limit_counts": Text("Which replies count towards `max_turns`.", A_WORD, "tool_replies", "LIMIT-1"),
        "max_total_tokens": Text("What the whole run may use, input and output.", TOKENS, "1_000_000", "LIMIT-2"),
        "max_tool_calls": Text("How many calls the whole run may make.", COUNT, "200", "LIMIT-2"),
        "max_wall_ms": Text("How long a turn may take.", MS, "600_000", "LIMIT-2"),
        "max_cost_usd": Text("What the whole run may cost; it needs `prices`.", USD, "2.5", "LIMIT-2"),
        "prices.input": Text("What a million tokens of input cost.", USD, "3.0", "LIMIT-2"),
        "prices.output": Text("What a million tokens of output cost.", USD, "15.0", "LIMIT-2"),
        "max_reply_chars": Text(
            "How long a reply may be, by what has arrived of it.", CHARACTERS, "4_000_000", "LIMIT-4"
        ),
        "loop.note": Text(
            "After so many similar calls the model is told that it repeats itself.", COUNT, "3", "LIMIT-3"
        ),
        "loop.disable": Text("After so many the tool is taken away for a while.", COUNT, "5", "LIMIT-3"),
        "loop.disable_turns": Text("For how many replies it is taken away.", COUNT, "3", "LIMIT-3"),
        "loop.stop": Text("After so many the turn ends.", COUNT, "8", "LIMIT-3"),
        "loop.window": Text("Among how many of the last calls similar ones are counted.", COUNT, "24", "LIMIT-3"),
    },
    "Calls": {
        "run_calls": Text(
            "What decides that the calls of a reply run: that they are there, the stop reason, or either.",
            A_WORD,
            "stop_reason",
            "INFER-5",
        ),
        "schedule": Text("In which order calls start.", A_WORD, "batches", "TOOL-3"),
        "early_start": Text("Whether calls may start while the reply still streams.", A_WORD, "never", "TOOL-9"),
        "max_parallel": Text("How many calls run at once.", COUNT, "4", "TOOL-3"),
        "no_profile": Text("What a tool that nobody described conflicts with.", A_WORD, "no_conflict", "TOOL-1"),
        "no_profile_approval": Text("Whether a tool that nobody described needs a person.", A_WORD, "allow", "ASK-1"),
        "write_conflict": Text("What two calls do that write the same resource.", A_WORD, "last_write", "CALL-6"),
        "on_tool_failure": Text("What a failing call does to its siblings.", A_WORD, "cancel_siblings", "TOOL-6"),
        "tool_timeout_ms": Text("How long a call may run.", MS, "30_000", "TOOL-10"),
        "grace_ms": Text(
            "How long an aborted call keeps what it holds, if it does not say that it has stopped.",
            MS,
            "5_000",
            "TOOL-17",
        ),
        "result_limit.chars": Text("A longer result is made shorter.", CHARACTERS, "30_000", "TOOL-11"),
        "result_limit.head": Text("What is kept of its beginning.", CHARACTERS, "2_000", "TOOL-11"),
        "result_limit.tail": Text("What is kept of its end.", CHARACTERS, "2_000", "TOOL-11"),
        "result_limit.media_chars": Text(
            "An image or file with more data becomes a placeholder.", CHARACTERS, "1_000_000", "TOOL-11"
        ),
        "result_limit.oversize": Text(
            "Whether the long output of a command is cut, or goes to a file that the model can read.",
            A_WORD,
            "spill",
            "TOOL-11",
        ),
        "result_limit.preview": Text(
            "What the model sees of either end of such a file.", CHARACTERS, "2_000", "TOOL-11"
        ),
        "output_tool": Text(
            "The tool whose checked input is the output of the turn; it is not run.", TEXT, '"answer"', "CALL-5"
        ),
        "output_calls": Text("What the other calls of that reply do.", A_WORD, "skip", "CALL-5"),
        "output_required": Text("Whether a turn may not end without it.", YES_OR_NO, "True", "CALL-5"),
        "output_demand": Text("How long an output is demanded that does not come.", A_WORD, "until_given", "CALL-5"),
    },
    "People": {
        "approval_mode": Text("What becomes of decisions: asked, allowed, planned only.", A_WORD, "plan", "ASK-1"),
        "approval_rules": Text(
            "Rules for calls by tool, input and resource: deny, ask or allow; deny wins, then ask.",
            "`ApprovalRule`s",
            '(ApprovalRule(decision=Decision.DENY, tool="shell"),)',
            "ASK-1",
        ),
        "approval_timeout_ms": Text("After which silence is a rejection.", MS, "300_000", "ASK-6"),
        "on_reject": Text("What follows a rejection.", A_WORD, "halt", "ASK-7"),
        "on_busy": Text("What a message does while the loop is busy.", A_WORD, "reject", "INPUT-1"),
        "queue_limit": Text("How many messages wait at most.", COUNT, "20", "INPUT-1"),
    },
    "Replies": {
        "on_truncation.escalate_to": Text(
            "Output limits that a reply which was cut is tried with again.", TOKENS, "(64_000,)", "INFER-7"
        ),
        "on_truncation.continuations": Text("How often the model is then asked to continue.", COUNT, "3", "INFER-7"),
        "on_truncation.then": Text("How a turn ends whose reply stays cut.", A_WORD, "natural", "INFER-7"),
        "on_truncation.calls": Text("What becomes of the whole calls of a cut reply.", A_WORD, "run", "INFER-7"),
        "on_pause": Text("What a pause of the provider leads to.", A_WORD, "end", "INFER-4"),
        "empty_reply_nudges": Text("How often an empty reply is asked for again.", COUNT, "1", "INFER-13"),
        "still_empty": Text("How a turn ends that stays empty.", A_WORD, "natural", "INFER-13"),
        "nudges_count": Text(
            "Whether nudges are counted in the turn, or since the last calls.", A_WORD, "round", "INFER-13"
        ),
        "missing_call_retries": Text(
            "How often a reply that stopped for calls and has none is asked for again.", COUNT, "2", "INFER-13"
        ),
        "on_broken_stream": Text(
            "Whether what is whole of a reply whose stream broke is kept, or the reply taken back.",
            A_WORD,
            "keep",
            "INFER-11",
        ),
        "refusal_notes": Text("How often the model is told of a refusal and goes on.", COUNT, "1", "INFER-10"),
        "redacts": Text("Which message a guardrail's text takes the place of.", A_WORD, "last_message", "INFER-10"),
        "silence_ms": Text("How long a model may say nothing before it is asked again.", MS, "120_000", "INFER-11"),
    },
    "Failures": {
        "retry.base_ms": Text("The first wait.", MS, "500", "RETRY-1"),
        "retry.factor": Text("What each wait is multiplied with for the next.", "a factor", "2", "RETRY-1"),
        "retry.cap_ms": Text("The longest wait.", MS, "32_000", "RETRY-1"),
        "retry.retries": Text("How many attempts follow the first.", COUNT, "10", "RETRY-1"),
        "retry.jitter_ms": Text("What is added to a wait at most, drawn from `seed`.", MS, "250", "RETRY-2"),
        "retry.classes": Text("Which failures are tried again.", "words", '("overloaded", "network")', "RETRY-3"),
        "retry.unstreamed": Text(
            "After which failures within a stream the reply is asked for at once, and whole.",
            "words",
            '("server",)',
            "INFER-11",
        ),
        "retry_after_cap_ms": Text(
            "The longest wait that a server may ask for; beyond it the error is shown.", MS, "60_000", "RETRY-2"
        ),
        "errors": Text(
            "Whether an error is shown at once, or when nothing is left to try.", A_WORD, "shown", "INFER-9"
        ),
        "on_error": Text("What an error does that nothing recovers.", A_WORD, "end", "RETRY-7"),
    },
    "Context": {
        "compaction.strategy": Text("How a thread is made smaller.", A_WORD, "window", "COMPACT-2"),
        "compaction.window_tokens": Text("How large the model's window is.", TOKENS, "1_000_000", "COMPACT-1"),
        "compaction.trigger_ratio": Text(
            "At which part of the window it is made smaller.", "a ratio", "0.85", "COMPACT-1"
        ),
        "compaction.trigger_tokens": Text("Or at which size.", TOKENS, "150_000", "COMPACT-1"),
        "compaction.keep_turns": Text("How many turns are kept as they are.", COUNT, "6", "COMPACT-2"),
        "compaction.keep_messages": Text("Or how many messages.", COUNT, "4", "COMPACT-2"),
        "compaction.keep_ratio": Text("Or which part of the window.", "a ratio", "0.3", "COMPACT-2"),
        "compaction.when": Text("When the need is checked.", A_WORD, "turn_start", "COMPACT-1"),
        "compaction.failures": Text("After how many failed summaries it pauses.", COUNT, "3", "COMPACT-4"),
        "compaction.cooldown_ms": Text("For how long.", MS, "60_000", "COMPACT-4"),
        "compaction.shorten_results": Text(
            "What the oldest results keep at either end where a prompt is too long.", CHARACTERS, "200", "INFER-8"
        ),
        "clear_results.above": Text(
            "Above so many results in the thread, old ones lose their bodies.", COUNT, "15", "TOOL-11"
        ),
        "clear_results.keep": Text("How many of the latest keep theirs.", COUNT, "5", "TOOL-11"),
        "clear_results.when": Text(
            "Whether that waits until the window is nearly full.", A_WORD, "each_request", "TOOL-11"
        ),
    },
    "Hooks, sub-agents, restarts": {
        "hooks": Text(
            "Which hooks are asked or told, and at which point.",
            "`Hook`s",
            '(Hook(point=HookPoint.BEFORE_TOOL, name="guard", gated=True),)',
            "HOOK-1",
        ),
        "hook_failure": Text("What a gated hook that fails does.", A_WORD, "closed", "HOOK-4"),
        "hook_timeout_ms": Text("How long a hook may take.", MS, "30_000", "HOOK-4"),
        "stop_hook_limit": Text("How often a hook may keep a turn from ending.", COUNT, "8", "HOOK-2"),
        "course_correction.after_calls": Text(
            "After how many calls a corrector looks at the course.", COUNT, "5", "HOOK-3"
        ),
        "course_correction.after_writes": Text("And after how many of them that write.", COUNT, "1", "HOOK-3"),
        "child.max_turns": Text("How many replies a sub-agent may have.", COUNT, "10", "CHILD-1"),
        "child.max_output_tokens": Text("How long its replies may be.", TOKENS, "8_000", "CHILD-1"),
        "child.timeout_ms": Text("How long it may take.", MS, "60_000", "CHILD-1"),
        "child.depth": Text("How deep sub-agents may have sub-agents.", COUNT, "1", "CHILD-1"),
        "on_restart.read_only": Text("What a restart does with a run that only reads.", A_WORD, "cancel", "RESUME-3"),
        "on_restart.idempotent": Text("With one that may be repeated.", A_WORD, "cancel", "RESUME-3"),
        "on_restart.dangerous": Text(
            "With one that may have done harm: cancel it, ask a person, or fail.", A_WORD, "ask", "RESUME-3"
        ),
        "on_restart.child": Text("With a sub-agent.", A_WORD, "cancel", "RESUME-3"),
    },
}
HEAD = """# Policy, option by option

A policy is data: a `Policy` in Python, a JSON file for `--policy` (`loopkernel policy show PRESET` prints one, and
`loopkernel policy check FILE` judges it), the same names in scenarios. What is left out has its default. `none` means
that there is no such limit, step or feature. An option with a dot lies in a part of its own (`retry.base_ms` is
`Policy(retry=Retry(base_ms=...))`; `retry=None` leaves the whole part away).

Each rule stands in [the specification](../../specs/README.md), and each figure of a preset, with its reason, on
[the preset's page](../../specs/presets/README.md). What does not fit is refused where it is built, with the list of
what would.
"""


def main() -> None:
    """Print the page."""
    print("\n".join(lines()))


def lines() -> Iterator[str]:
    """The lines of the page."""
    yield HEAD
    hints, default = options(Policy()), values(Policy())
    for title, texts in TEXTS.items():
        yield f"## {title}\n"
        yield "| option | what it decides | unit, or words | default | example | set by | rule |"
        yield "|---|---|---|---|---|---|---|"
        for name, text in texts.items():
            words = " · ".join(f"`{word}`" for word in words_of(hints[name])) or text.unit
            cells = [
                f"`{name}`",
                text.decides,
                words,
                shown(default[name]),
                f"`{text.example}`",
                set_by(name),
                text.rules,
            ]
            yield f"| {' | '.join(cells)} |"
        yield ""


def options(policy: Policy) -> dict[str, object]:
    """The type of each option, by its name; of a part that may be left away, of each of its fields."""
    found: dict[str, object] = {}
    for name, hint in get_type_hints(Policy).items():
        part = part_of(hint)
        if part is None:
            found[name] = hint
        else:
            found |= {f"{name}.{field}": inner for field, inner in get_type_hints(part).items()}
    return found


def part_of(hint: object) -> type | None:
    """The class of a part of a policy, where the option is one."""
    for each in get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,):
        if isinstance(each, type) and attrs.has(each):
            return each
    return None


def words_of(hint: object) -> list[str]:
    """The words of a closed set."""
    return [member.value for member in hint] if isinstance(hint, type) and issubclass(hint, enum.Enum) else []


def values(policy: Policy) -> dict[str, object]:
    """What the policy says for each option; None where it leaves the whole part away."""
    found: dict[str, object] = {}
    for name, hint in get_type_hints(Policy).items():
        part, value = part_of(hint), getattr(policy, name)
        if part is None:
            found[name] = value
        else:
            found |= {f"{name}.{field}": getattr(value, field, None) for field in get_type_hints(part)}
    return found


def shown(value: object) -> str:
    """A value as a person writes it."""
    match value:
        case None | ():
            return "none"
        case enum.Enum():
            return f"`{value.value}`"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case tuple():
            return ", ".join(shown(each) for each in value)
        case _:
            return str(value)


def set_by(name: str) -> str:
    """Which presets say something else than the default does."""
    default = values(Policy())[name]
    said = {preset: values(policy)[name] for preset, policy in PRESETS.items()}
    return ", ".join(f"{preset}: {shown(value)}" for preset, value in said.items() if value != default)


if __name__ == "__main__":
    main()
