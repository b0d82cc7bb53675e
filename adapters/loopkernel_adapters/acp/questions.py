"""Calls that wait for a person, asked by the editor: `session/request_permission`.

Only the exact option of the exact question lets a call run. The names of options are made anew for each question, so
that no answer to another one, and nothing that an editor makes up, can be taken for consent. Whatever else comes back,
or an error, is a no. Where the editor is gone, nobody has said no: the call goes on waiting, in the log.
"""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Literal, Protocol

from acp.exceptions import RequestError
from acp.schema import (
    AllowedOutcome,
    ContentToolCallContent,
    PermissionOption,
    RequestPermissionResponse,
    TextContentBlock,
    ToolCallUpdate,
)
from attrs import field, frozen
from loopkernel.data.blocks import RawInput
from loopkernel.data.json_text import Json
from loopkernel.data.policy import ApprovalRule
from loopkernel.data.tools import Decision
from loopkernel.data.user_deltas import (
    Approve,
    CallAnswer,
    Permit,
    Reject,
    RememberCall,
    RememberTool,
)

from loopkernel_adapters.acp.calls import (
    OURS,
    ShownCall,
    diff_of,
    exact_of,
    kind_of,
    locations_of,
    raw_input,
    title_of,
)
from loopkernel_adapters.sessions.waiting_calls import Answer, WaitingCall

OptionKind = Literal["allow_once", "allow_always", "reject_once", "reject_always"]
NO_ANSWER = "the editor gave no answer that lets it run"


class Editor(Protocol):
    """Who is asked: the connection to the editor."""

    async def request_permission(
        self, session_id: str, tool_call: ToolCallUpdate, options: list[PermissionOption]
    ) -> RequestPermissionResponse:
        """The answer to the question. Raises RequestError, ConnectionError, ValueError."""
        ...


@frozen(kw_only=True)
class Choice:
    """One thing that a person may say. `before` is what is to hold before the answer is given."""

    kind: OptionKind
    name: str
    answer: Answer
    before: Permit | None = None
    id: str = field(factory=lambda: secrets.token_hex(8))

    def option(self) -> PermissionOption:
        """As the editor is given it."""
        return PermissionOption(option_id=self.id, name=self.name, kind=self.kind)


def choices_for(call: WaitingCall) -> tuple[Choice, ...]:
    """What may be said to the call."""
    last, tool = call.path[-1], call.tool
    if call.after_crash:
        return (
            Choice(kind="allow_once", name="Run it again", answer=True),
            Choice(kind="reject_once", name="Do not run it again", answer=False),
        )

    def remembering(remember: RememberCall | RememberTool) -> CallAnswer:
        return Approve(call=last, remember=remember)

    exact, each = remembering(RememberCall()), remembering(RememberTool())
    never = Permit(ApprovalRule(decision=Decision.DENY, tool=tool))
    return (
        Choice(kind="allow_once", name="Allow once", answer=True),
        Choice(kind="allow_always", name="Always allow exactly this call, in this session", answer=exact),
        Choice(kind="allow_always", name=f"Always allow each call of {tool}, in this session", answer=each),
        Choice(kind="reject_once", name="Reject", answer=False),
        *(
            ()
            if "*" in tool or call.within  # a rule is for the session, and would name more tools than this one
            else (
                Choice(
                    kind="reject_always",
                    name=f"Never allow {tool}, in this session",
                    answer=Reject(call=last, why=f"{tool} is not allowed in this session"),
                    before=never,
                ),
            )
        ),
    )


class Questions:
    """Puts the calls of a session to its editor, one at a time.

    `told` waits until the editor has all that came before, `permit` has a rule hold, `read` gives what a file holds,
    and `doubt` says why an earlier approval of a call is not believed.
    """

    def __init__(
        self,
        editor: Editor,
        session: str,
        folder: Path,
        *,
        told: Callable[[], Awaitable[None]],
        permit: Callable[[Permit], Awaitable[None]],
        read: Callable[[str], Awaitable[str | None]],
        waiting: Callable[[], Sequence[WaitingCall]],
        doubt: Callable[[WaitingCall], str | None],
    ) -> None:
        self._editor = editor
        self._session = session
        self._folder = folder
        self._told = told
        self._permit = permit
        self._read = read
        self._waiting = waiting
        self._doubt = doubt
        self._open: tuple[WaitingCall, asyncio.Future[None]] | None = None  # until something else answers it

    def look(self) -> None:
        """Something has happened: a question whose call waits no more is not waited for."""
        if self._open is not None and not self._open[1].done() and self._open[0] not in self._waiting():
            self._open[1].set_result(None)

    def leave(self) -> None:
        """The session is closed: nobody answers any more, and nobody has said no."""
        if self._open is not None and not self._open[1].done():
            self._open[1].set_exception(ConnectionError("the session was closed while a call waited for an answer"))

    async def ask(self, call: WaitingCall) -> Answer:
        """The answer of a person, or a no; see `Approver`. Raises ConnectionError where nobody is there to ask."""
        if call.question is not None:
            return None  # a tool asks for words, and the protocol has no question for them: it is declined
        choices = choices_for(call)
        await self._told()
        gone = asyncio.get_running_loop().create_future()
        self._open = call, gone
        asking = asyncio.ensure_future(self._asked(call, choices))
        try:
            self.look()
            await asyncio.wait({asking, gone}, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                gone.result()
                return False  # it waits for no answer any more, and takes none
            chosen = asking.result()
        finally:
            self._open = None
            asking.cancel()
        if chosen is None:
            return False if call.after_crash else NO_ANSWER
        if chosen.before is not None:
            await self._permit(chosen.before)
        return chosen.answer

    async def _asked(self, call: WaitingCall, choices: tuple[Choice, ...]) -> Choice | None:
        """What the editor has chosen; None: nothing that was offered."""
        update = await self._shown(call)
        try:
            response = await self._editor.request_permission(
                self._session, update, [choice.option() for choice in choices]
            )
        except (RequestError, ValueError):  # it refuses to ask, or answers in another form
            return None
        outcome = response.outcome
        if not isinstance(outcome, AllowedOutcome):
            return None
        return next((choice for choice in choices if choice.id == outcome.option_id), None)

    async def _shown(self, call: WaitingCall) -> ToolCallUpdate:
        """The question: what runs, exactly, and why it is asked again where it is."""
        told = ShownCall(address=call.path, tool=call.tool, input=call.input)
        before = await self._read(_path(call.input)) if call.tool == "write_file" else None
        reasons = [_reason(text) for text in _reasons(call, self._doubt(call))]
        return ToolCallUpdate(
            tool_call_id=told.id,
            title=title_of(told),
            kind=kind_of(call.tool),
            status="pending",
            locations=locations_of(told, self._folder) or None,
            content=[*reasons, *exact_of(told), *diff_of(told, self._folder, before)],
            raw_input=raw_input(told),
            field_meta={OURS: {"name": call.tool}},
        )


def _reasons(call: WaitingCall, doubt: str | None) -> list[str]:
    reasons = []
    if doubt is not None:
        reasons.append(f"What the log of this session says was allowed is not believed, since {doubt}: you are asked.")
    if call.after_crash:
        reasons.append("It was running when the program ended, and nobody knows how far it came.")
    return reasons


def _reason(text: str) -> ContentToolCallContent:
    return ContentToolCallContent(type="content", content=TextContentBlock(type="text", text=text))


def _path(given: Json | RawInput) -> str:
    value = given.value() if isinstance(given, Json) else None
    path = value.get("path") if isinstance(value, dict) else None
    return path if isinstance(path, str) else ""
