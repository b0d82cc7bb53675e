"""`/approvals` in a chat: what runs unasked, listed, and taken back; and what a change of the mode leaves of it."""

from loopkernel.data.choices import ApprovalMode
from loopkernel.data.user_deltas import Forget

from loopkernel_adapters.cli.standing_words import NONE, standing_lines
from loopkernel_adapters.driver.asyncio_driver import Driver
from loopkernel_adapters.optional_ports import NoSuchAgent
from loopkernel_adapters.standing_approvals import standing_approvals

APPROVALS = "/approvals"
HOW = f"{APPROVALS} drop N takes one back, {APPROVALS} drop all every one"


async def approvals_command(line: str, driver: Driver) -> tuple[str, ...]:
    """Do what the line asks for, and say what is not told by an event."""
    session = driver.state.session
    if session is None:
        return ("the session has not begun yet",)
    standing = standing_approvals(driver.state_of)
    words = line.split()[1:]
    if not words:
        return (*standing_lines(standing, session.settings.policy), HOW if standing else NONE)
    if len(words) != 2 or words[0] != "drop":
        return (f"{APPROVALS} lists what runs unasked; {HOW}",)
    if not standing:
        return (NONE,)
    if words[1] == "all":
        await driver.send(Forget())
        return ()
    number = int(words[1]) if words[1].isascii() and words[1].isdigit() and len(words[1]) < 10 else 0
    if not 1 <= number <= len(standing):
        return (f"there is no approval {words[1]}: {APPROVALS} lists them by their numbers",)
    chosen = standing[number - 1]
    try:
        await driver.send(Forget(chosen.remembered), chosen.within)
    except NoSuchAgent:
        return ("the sub-agent that remembered it has ended, and the approval with it",)
    return ()


def left_by_mode(driver: Driver) -> tuple[str, ...]:
    """What still runs unasked when the mode has changed, whatever the mode is for."""
    session = driver.state.session
    if session is None:
        return ()
    policy, standing = session.settings.policy, standing_approvals(driver.state_of)
    lines = standing_lines(standing, policy)
    if policy.approval_mode is ApprovalMode.BYPASS or not lines:
        return ()
    but = ", if it only reads" if policy.approval_mode is ApprovalMode.PLAN else ""
    return (f"this still runs unasked{but}:", *lines, *((HOW,) if standing else ()))
