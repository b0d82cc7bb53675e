"""What a session goes by, told when it begins or goes on: models, tools, folder, policy, and where its log lies."""

from loopkernel.data.choices import ApprovalMode
from loopkernel.data.json_text import JsonValue
from loopkernel.data.policy import Policy

from loopkernel_adapters.cli.options import NameOrFile
from loopkernel_adapters.cli.places import resumption
from loopkernel_adapters.cli.session import Workbench
from loopkernel_adapters.cli.toolbox import isolation_told
from loopkernel_adapters.cli.words import counted

MODES = {
    ApprovalMode.PLAN: "nothing is changed",
    ApprovalMode.DEFAULT: "what changes something asks you first",
    ApprovalMode.ACCEPT_EDITS: "edits are not asked about",
    ApprovalMode.BYPASS: "nothing is asked about",
    ApprovalMode.HEADLESS: "what asks is denied",
}


def introduction(bench: Workbench) -> tuple[str, ...]:
    """A line for each of them."""
    models = (bench.policy.model, *bench.policy.fallback_models)
    names = ", ".join(tool.name for tool in bench.offered)
    tools = f"{counted(len(bench.offered), 'tool')} in {bench.options.folder.absolute()}"
    return (
        *(() if bench.doubt is None else (f"not believed: {doubt_told(bench.doubt)}",)),
        f"model {', then '.join(models)}",
        f"{tools}{f': {names}' if names else ''}",
        *isolation_told(bench.options, bench.offered),
        rules_told(bench.policy, bench.options.policy),
        f"log: {bench.place.described(bench.run)}",
    )


def doubt_told(doubt: str) -> str:
    """Why a log is not believed, and what that means."""
    return (
        f"what this log says was allowed, since {doubt}. It goes on under what you say now, nothing is remembered, and "
        "each call that it left open asks you"
    )


def rules_told(policy: Policy, name: NameOrFile | None = None) -> str:
    """What a person wants to know of a policy; `name` is what it was asked for by."""
    mode = policy.approval_mode
    parts = [f"mode {mode.value} ({MODES[mode]})"]
    if name is not None:
        parts.insert(0, f"policy {name}")
    if policy.max_turns is not None:
        parts.append(f"at most {policy.max_turns} {'reply' if policy.max_turns == 1 else 'replies'} in a turn")
    if policy.max_total_tokens is not None:
        parts.append(f"at most {counted(policy.max_total_tokens, 'token')} in all")
    return ", ".join(parts)


def introduction_as_json(bench: Workbench) -> dict[str, JsonValue]:
    """The same for a program; `resume` is null where the run cannot be gone on with, since it is in memory."""
    return {
        "run": bench.run,
        "log": bench.place.described(bench.run),
        "resume": resumption(bench.place, bench.run),
        "models": [bench.policy.model, *bench.policy.fallback_models],
        "tools": [tool.name for tool in bench.offered],
        "shell": None if bench.options.isolation is None else bench.options.isolation.value,
        "workspace": str(bench.options.folder.absolute()),
        "mode": bench.policy.approval_mode.value,
        "doubt": bench.doubt,
    }
