"""What a log is gone on with: the settings that are given now, and none of its own where nobody vouches for it."""

import secrets

from attrs import evolve, frozen
from loopkernel.data.choices import ApprovalMode
from loopkernel.data.policy import Policy
from loopkernel.data.remembered import Remembered
from loopkernel.data.sessions import Settings
from loopkernel.data.thread_deltas import Created, Resumed
from loopkernel.data.tools import Tool

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


AS_IT_WAS = ResumeSettings()


def new_nonce() -> str:
    """A text that no other run has (see `Created`)."""
    return secrets.token_hex(NONCE_SIZE)


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
    return Resumed(
        policy=policy if doubted or policy != settings.policy else None,
        tools=tools if doubted or tools != settings.tools else None,
        instructions=instructions if doubted or instructions != settings.instructions else None,
        remembered=remembered if doubted or remembered != settings.remembered else None,
        doubted=doubted,
        nonce=nonce,
    )
