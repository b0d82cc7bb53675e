"""What a sub-agent is given by its parent: policy, tools, task, and a share of the budgets (section CHILD)."""

import math
from fractions import Fraction

from attrs import evolve

from loopkernel.data.children import Reservation, Taken
from loopkernel.data.choices import Lifetime
from loopkernel.data.json_text import Json
from loopkernel.data.policy import Policy
from loopkernel.data.tools import Tool
from loopkernel.data.usage import Usage
from loopkernel.data.words import CancelReason, TurnEndReason
from loopkernel.loop.algorithms.budget import cost_usd, exact

_TASK_FIELDS = ("prompt", "task")


def child_tools(policy: Policy, tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
    """What a sub-agent under that policy of its own is offered of its parent's tools (rule CHILD-1)."""
    return tuple(tool for tool in tools if policy.child.depth > 0 or not starts_child(tool))


def child_policy(policy: Policy, reserved: Reservation) -> Policy:
    """The parent's policy for a task of its own, within the limits of a sub-agent and what is reserved for it."""
    limits = policy.child
    return evolve(
        policy,
        lifetime=Lifetime.TASK,
        max_turns=limits.max_turns,
        max_output_tokens=limits.max_output_tokens,
        max_total_tokens=reserved.tokens,
        max_cost_usd=reserved.cost_usd if policy.prices.known else None,  # a policy of later may have none
        max_tool_calls=reserved.tool_calls,
        max_wall_ms=None,  # its time is the parent's timer
        output_tool=None,
        output_required=False,
        course_correction=None,
        child=evolve(limits, depth=max(limits.depth - 1, 0)),
    )


def starts_child(tool: Tool) -> bool:
    """Whether a call of the tool starts a sub-agent."""
    return tool.profile is not None and tool.profile.child


def task_of(given: Json) -> str:
    """What a sub-agent is told to do: the text that its call names so, else the whole input as JSON."""
    parsed = given.value()
    if isinstance(parsed, dict):
        for field in _TASK_FIELDS:
            task = parsed.get(field)
            if isinstance(task, str):
                return task
    return given.text


def end_of(reason: CancelReason) -> TurnEndReason:
    """How a sub-agent is told to have ended that its parent has cut short."""
    if reason is CancelReason.TIMEOUT:
        return TurnEndReason.BUDGET_EXCEEDED
    if reason is CancelReason.USER_INTERRUPTED:
        return TurnEndReason.INTERRUPTED
    if reason is CancelReason.EDITED:
        return TurnEndReason.EDITED
    return TurnEndReason.DISPOSED if reason is CancelReason.DISPOSED else TurnEndReason.USER_ABORT


def shares_budgets(policy: Policy) -> bool:
    """Whether there is a budget that sub-agents have shares of."""
    return not (policy.max_total_tokens is None and policy.max_cost_usd is None and policy.max_tool_calls is None)


def with_share(taken: Taken, share: Reservation, times: int = 1) -> Taken:
    """What is reserved with so many more shares like this one; -1 gives it back."""
    return Taken(
        shares=taken.shares + times,
        tokens=taken.tokens + times * (share.tokens or 0),
        cost_usd=taken.cost_usd + times * exact(share.cost_usd or 0),
        tool_calls=taken.tool_calls + times * (share.tool_calls or 0),
    )


def share(policy: Policy, usage: Usage, started: int, taken: Taken, among: int) -> Reservation | None:
    """What one of so many sub-agents may spend of what is left, where others have `taken` theirs (rule LIMIT-2).

    `started` counts the tool calls of the parent so far. None: nothing is left before one of the others has ended.
    """
    tokens: int | None = None
    if policy.max_total_tokens is not None:
        left = policy.max_total_tokens - usage.total - taken.tokens
        if left < 1:
            return None
        tokens = max(left // among, 1)
    cost: float | None = None
    if policy.max_cost_usd is not None:
        spent = cost_usd(usage, policy.prices) + taken.cost_usd
        part = (exact(policy.max_cost_usd) - spent) / among
        if part <= 0:
            return None
        cost = _at_most(part)
    calls: int | None = None
    if policy.max_tool_calls is not None:
        unused = calls_left(policy, started, taken)
        if unused < 1:
            return None
        calls = (unused - 1) // among  # the call of the sub-agent is one itself
    return Reservation(tokens=tokens, cost_usd=cost, tool_calls=calls)


def calls_left(policy: Policy, started: int, taken: Taken) -> int:
    """How many tool calls are neither made nor reserved; only where they are limited."""
    return (policy.max_tool_calls or 0) - started - taken.tool_calls


def _at_most(number: Fraction) -> float:
    """The largest number, as a price is written, that is not beyond the given one."""
    near = float(number)
    return near if exact(near) <= number else math.nextafter(near, 0)
