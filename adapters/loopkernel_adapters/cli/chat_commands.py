"""What begins with a slash in a chat: commands, each turned into what it asks of the kernel, or of the screen."""

import re
import textwrap

from attrs import frozen
from loopkernel.data.blocks import TextBlock, text_of
from loopkernel.data.choices import ApprovalMode
from loopkernel.data.ids import MessageId, QueueNumber
from loopkernel.data.messages import UserMessage
from loopkernel.data.states import State
from loopkernel.data.user_deltas import (
    CancelAll,
    ChangeMode,
    CompactNow,
    Discard,
    DismissError,
    EditMessage,
    Forget,
    RetryNow,
    Steer,
    UserDelta,
)

from loopkernel_adapters.cli.approvals import NONE, standing_lines
from loopkernel_adapters.cli.screen import in_one_line
from loopkernel_adapters.cli.words import counted, queue_lines, queue_told, used_told
from loopkernel_adapters.driver.asyncio_driver import Driver
from loopkernel_adapters.optional_ports import NoSuchAgent
from loopkernel_adapters.sessions.standing_approvals import standing_approvals

HELP = """\
Type a message, and Enter; a text that is pasted is one. While the agent is busy, it waits in the queue.
  /steer TEXT       a message for the agent's next step, without waiting for the end of the turn
  /cancel           stop what is under way (as Ctrl-C does)
  /retry            ask the model again now
  /dismiss          give up a retry that counts down, or take a shown error away
  /compact          make the conversation shorter
  /mode MODE        plan (nothing is changed), default, accept_edits, or bypass (nothing is asked)
  /approvals        what runs unasked, since you have said so; /approvals drop N and /approvals drop all take it back
  /model            which model answers, and how to go on with another one
  /usage            how many tokens were used
  /queue            show the queue; /queue drop N and /queue drop all take messages out
  /edit TEXT        replace your last message, and drop what followed it; /edit #N TEXT another one, /edit lists them
  /later            keep a line that was not an answer to a question as a message for the end of the turn
  /help             this
  /quit             leave (as Ctrl-D does); the session can be gone on with
Where the prompt can be edited, Tab completes commands and paths, Alt-Enter begins another line, Up brings back what \
was said (also in earlier sessions), and a text that is pasted waits for Enter.
When a call asks: yes, no WHY, always, edit JSON or show, each alone in a line that was begun after the question \
(behind a pipe: that came after it). Nothing else is an answer. Ctrl-C cancels the turn; a second one leaves."""
ABOUT_COLUMN, NARROW = 20, 60  # where it stands what a command is for; and in fewer columns than that, it does not

MODES = tuple(mode.value for mode in ApprovalMode)
_NUMBERED = re.compile(r"#(\d{1,9})(?:\s+(.*))?", re.DOTALL)


class Leave(Exception):
    """The person leaves."""


@frozen
class Lines:
    """What is to be shown."""

    lines: tuple[str, ...]


@frozen
class NoCommand:
    """What was typed is not a command."""


COMMANDS = frozenset(re.findall(r"^  (/[a-z]+)", HELP, re.MULTILINE)) | {"/exit"}

Meant = UserDelta | Lines | NoCommand


def folded(line: str, columns: int) -> list[str]:
    """The line in lines of so many columns at the most, broken between words; what a command is for in its column."""
    indent = 0 if not line.startswith("  /") else 4 if columns < NARROW else ABOUT_COLUMN
    return textwrap.wrap(line, columns, subsequent_indent=" " * indent, break_on_hyphens=False) or [line]


def is_command(line: str) -> bool:
    """Whether the line is a command, and no part of a text: in one that is pasted, a path begins with a slash too."""
    return line.split(" ", 1)[0].rstrip() in COMMANDS


def meant(line: str, state: State) -> Meant:
    """What a line that begins with a slash asks for. Raises Leave."""
    word, _, rest = line.strip().partition(" ")
    rest = rest.strip()
    match word:
        case "/quit" | "/exit":
            raise Leave
        case "/help":
            return Lines(tuple(HELP.splitlines()))
        case "/cancel":
            return CancelAll()
        case "/retry":
            return RetryNow()
        case "/dismiss":
            return DismissError()
        case "/compact":
            return CompactNow()
        case "/steer":
            return Steer(content=(TextBlock(rest),)) if rest else Lines(("say what: /steer TEXT",))
        case "/mode":
            return _mode(rest, state)
        case "/model":
            return _model(state)
        case "/usage":
            return _usage(state)
        case "/queue":
            return _queue(rest, state)
        case "/edit":
            return _edit(rest, state)
        case "/later":
            return Lines(("there is no line to keep: type a message as it is, and it waits for the end of the turn",))
        case _:
            return NoCommand()


def _mode(name: str, state: State) -> Meant:
    if name in MODES:
        return ChangeMode(ApprovalMode(name))
    now = state.session.settings.policy.approval_mode.value if state.session is not None else "not known"
    return Lines((f"the mode is {now}; choose one with /mode {'|'.join(MODES)}",))


def _model(state: State) -> Lines:
    if state.session is None:
        return Lines(("the session has not begun yet",))
    policy = state.session.settings.policy
    models = ", then ".join((policy.model, *policy.fallback_models))
    return Lines((f"the model is {models}; to go on with another one, /quit, then resume with --model NAME",))


def _usage(state: State) -> Lines:
    if state.session is None:
        return Lines(("the session has not begun yet",))
    most = state.session.settings.policy.max_total_tokens
    limit = "" if most is None else f"; at most {counted(most, 'token')} in all"
    return Lines((f"{used_told(state.session)} so far{limit}",))


def _queue(rest: str, state: State) -> Meant:
    word, _, number = rest.partition(" ")
    if word == "drop" and number.strip() == "all":
        return Discard()
    if word == "drop" and number.strip().isascii() and number.strip().isdigit() and len(number) < 10:
        return Discard(QueueNumber(int(number)))
    if rest:
        return Lines(("/queue shows it; /queue drop N takes message N out, /queue drop all every one",))
    return Lines(tuple(queue_lines(state)) or (queue_told(state),))


def _edit(rest: str, state: State) -> Meant:
    own = own_messages(state)
    if not rest:
        listed = tuple(f"#{message.id} {in_one_line(text_of(message.content), 80)}" for message in own[-10:])
        return Lines((*listed, "replace one with /edit #N TEXT, the last one with /edit TEXT"))
    numbered = _NUMBERED.fullmatch(rest)
    if numbered is not None and not numbered[2]:
        return Lines(("say what it shall be: /edit #N TEXT",))
    if numbered is not None:
        return EditMessage(message=MessageId(int(numbered[1])), content=(TextBlock(numbered[2]),))
    if not own:
        return Lines(("there is no message of yours yet",))
    return EditMessage(message=own[-1].id, content=(TextBlock(rest),))


def own_messages(state: State) -> list[UserMessage]:
    """The person's messages that are in the thread, oldest first."""
    if state.session is None:
        return []
    return [message for message in state.session.thread.messages if isinstance(message, UserMessage)]


# --- `/approvals` ----------------------------------------------------------------------------------------

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
