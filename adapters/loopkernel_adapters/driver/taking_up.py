"""What a log is gone on with: the settings that are given now, and none of its own where nobody vouches for it."""

import secrets

from attrs import evolve, fields, frozen
from loopkernel.data.choices import ApprovalMode
from loopkernel.data.policy import Policy
from loopkernel.data.remembered import Remembered
from loopkernel.data.sessions import Settings
from loopkernel.data.states import State
from loopkernel.data.thread_deltas import Acquired, Created, Resumed
from loopkernel.data.tools import Tool
from loopkernel.replaying import START

NONCE_SIZE = 8  # bytes: no two runs of a user meet by chance


@frozen(kw_only=True)
class ResumeSettings:
    """What a run is to go by from its restart on, before anything of it goes on; None leaves what its log says.

    `mode` and `model` take the place of those of the policy, given or not. `remembered` are the approvals that hold.
    """

    policy: Policy | None = None
    mode: ApprovalMode | None = None
    model: str | None = None
    tools: tuple[Tool, ...] | None = None
    instructions: str | None = None
    remembered: tuple[Remembered, ...] | None = None
    must_agree: frozenset[str] = frozenset()  # of `policy`, `tools` and `instructions`: else SettingsDiffer

    def begin(self, session_id: str, policy: Policy) -> Created:
        """The first record of a run that begins with these; `policy` is that where none is given."""
        policy = policy if self.policy is None else self.policy
        return Created(
            session_id=session_id,
            policy=policy if self.mode is None else evolve(policy, approval_mode=self.mode),
            tools=self.tools or (),
            instructions=self.instructions or "",
            remembered=self.remembered or (),
        )


AS_IT_WAS = ResumeSettings()


class SettingsDiffer(Exception):
    """The settings in a log are others than those that are given. The message says which, and what can be done."""


def new_nonce() -> str:
    """A text that no other run has (see `Created`)."""
    return secrets.token_hex(NONCE_SIZE)


def opening_deltas(
    state: State, created: Created, given: ResumeSettings, nonce: str, clock_behind_ms: int, *, doubted: bool
) -> tuple[Created | Acquired | Resumed, ...]:
    """What a driver begins a log with, or goes on with from the state that the log leads to."""
    if state is START:
        return (evolve(created, nonce=created.nonce or nonce), Acquired())
    settings = Settings(session_id=created.session_id) if state.session is None else state.session.settings
    resumed = taken_up(settings, created, given, nonce, doubted=doubted)
    return (evolve(resumed, clock_behind_ms=clock_behind_ms),)


def taken_up(settings: Settings, created: Created, given: ResumeSettings, nonce: str, *, doubted: bool) -> Resumed:
    """The delta that a log under these settings goes on with: what is `given`, as far as it changes anything.

    Of a log that is doubted, what is not given is as in `created`, as if the run began now. `nonce` is what the keys of
    its further calls are made with.
    """
    before = (
        evolve(
            settings,
            policy=created.policy,
            tools=created.tools,
            instructions=created.instructions,
            remembered=created.remembered,
        )
        if doubted
        else settings
    )
    policy = before.policy if given.policy is None else given.policy
    if given.mode is not None:
        policy = evolve(policy, approval_mode=given.mode)
    if given.model is not None:
        policy = evolve(policy, model=given.model)
    tools = before.tools if given.tools is None else given.tools
    instructions = before.instructions if given.instructions is None else given.instructions
    remembered = before.remembered if given.remembered is None else given.remembered
    if not doubted:
        _demand_agreement(settings, given, policy, tools, instructions)
    return Resumed(
        policy=policy if doubted or policy != settings.policy else None,
        tools=tools if doubted or tools != settings.tools else None,
        instructions=instructions if doubted or instructions != settings.instructions else None,
        remembered=remembered if doubted or remembered != settings.remembered else None,
        doubted=doubted,
        nonce=nonce,
    )


def _demand_agreement(
    settings: Settings, given: ResumeSettings, policy: Policy, tools: tuple[Tool, ...], instructions: str
) -> None:
    asked = settings.policy if given.mode is None else evolve(settings.policy, approval_mode=given.mode)
    changes = {
        "policy": ", ".join(options_that_differ(asked, policy)),
        "tools": _told_tools(settings.tools, tools),
        "instructions": "" if instructions == settings.instructions else "another text",
    }
    told = [f"{what} ({change})" for what, change in changes.items() if change and what in given.must_agree]
    if told:
        raise SettingsDiffer(
            f"run {settings.session_id} was begun with other settings than are given now: {'; '.join(told)}. Say which "
            "shall hold: on_change='refresh' takes those of now, on_change='keep' those of the run"
        )


def options_that_differ(one: Policy, other: Policy) -> tuple[str, ...]:
    """The names of the options that differ."""
    return tuple(each.name for each in fields(Policy) if getattr(one, each.name) != getattr(other, each.name))


def _told_tools(before: tuple[Tool, ...], now: tuple[Tool, ...]) -> str:
    old, new = {tool.name: tool for tool in before}, {tool.name: tool for tool in now}
    changes = {
        "new": [name for name in new if name not in old],
        "gone": [name for name in old if name not in new],
        "changed": [name for name in new if name in old and new[name] != old[name]],
    }
    told = [f"{how}: {', '.join(names)}" for how, names in changes.items() if names]
    return "; ".join(told) or ("" if before == now else "in another order")
