"""The agent as the protocol sees it: its requests, each answered by a session; and what cannot be, in words.

Whatever an editor sends that is not as it should be is an error of the protocol, and stops nothing.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, assert_never

from acp import PROTOCOL_VERSION, Client, RequestError
from acp.schema import (
    AgentCapabilities,
    AuthenticateResponse,
    ClientCapabilities,
    CloseSessionResponse,
    ConfigOptionUpdate,
    CurrentModeUpdate,
    ForkSessionResponse,
    Implementation,
    InitializeResponse,
    ListSessionsResponse,
    LoadSessionResponse,
    McpCapabilities,
    NewSessionResponse,
    PromptCapabilities,
    PromptResponse,
    ResumeSessionResponse,
    SessionCapabilities,
    SessionCloseCapabilities,
    SessionInfo,
    SessionListCapabilities,
    SessionResumeCapabilities,
    SetSessionConfigOptionResponse,
    SetSessionModeResponse,
)
from loopkernel.data.errors import OtherRules
from loopkernel.data.words import TurnEndReason

from loopkernel_adapters.acp.calls import OURS
from loopkernel_adapters.acp.content import ContentBlock, said
from loopkernel_adapters.acp.editor_tools import Offered
from loopkernel_adapters.acp.servers import PassedServer, servers_of
from loopkernel_adapters.acp.sessions import EditorSession, NotNow, Surroundings, opened_session
from loopkernel_adapters.acp.settings import MODE, MODEL, mode_named, modes_of, options_of
from loopkernel_adapters.acp.stored import StoredSessions
from loopkernel_adapters.acp.updates import Update
from loopkernel_adapters.agent import new_run_id
from loopkernel_adapters.ports import RunFailed, StoreError
from loopkernel_adapters.sessions.result import Result
from loopkernel_adapters.tools.mcp import McpUnavailable
from loopkernel_adapters.tools.sent_media import NotTaken

NAME = "loopkernel"
REFUSED, INTERNAL, NOT_FOUND = -32602, -32603, -32002  # of JSON-RPC, and of the protocol
StopReason = Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"]

# Any: a request may carry fields of any kind beside those of the protocol, which mean nothing here.


class EditorAgent:
    """What `acp.run_agent` serves: any number of sessions, for one editor."""

    # Any: whatever a later version of the protocol adds to a request; it is not looked at.

    def __init__(self, surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        self._stored = StoredSessions(surroundings.runs, surroundings.folder_of)
        self._sessions: dict[str, EditorSession] = {}
        self._opening = asyncio.Lock()  # so that no run is opened twice
        self._client: Client | None = None
        self._offered = Offered()

    def on_connect(self, conn: Client) -> None:
        """The editor is there."""
        self._client = conn

    async def close(self) -> None:
        """Let go of every session; what is under way in one is left as it is."""
        sessions, self._sessions = list(self._sessions.values()), {}
        await asyncio.gather(*(session.close() for session in sessions), return_exceptions=True)

    async def initialize(
        self,
        protocol_version: int,
        client_capabilities: ClientCapabilities | None = None,
        *more: Any,
        **_: Any,
    ) -> InitializeResponse:
        """Say what is spoken here, and learn what the editor offers."""
        files = None if client_capabilities is None else client_capabilities.fs
        self._offered = Offered(
            reads=files is not None and files.read_text_file is True,
            writes=files is not None and files.write_text_file is True,
            terminals=client_capabilities is not None and client_capabilities.terminal is True,
        )
        return InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_info=Implementation(name=NAME, title=NAME, version=_version()),
            agent_capabilities=AgentCapabilities(
                load_session=True,
                prompt_capabilities=PromptCapabilities(image=True, audio=False, embedded_context=True),
                mcp_capabilities=McpCapabilities(http=True, sse=False),
                session_capabilities=SessionCapabilities(
                    list=SessionListCapabilities(), resume=SessionResumeCapabilities(), close=SessionCloseCapabilities()
                ),
            ),
            auth_methods=[],
        )

    async def authenticate(self, method_id: str, **_: Any) -> AuthenticateResponse | None:
        """Nobody has to: keys are those of the environment."""
        raise RequestError.method_not_found("authenticate")

    # --- sessions ---

    async def new_session(
        self,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[PassedServer] | None = None,
        **_: Any,
    ) -> NewSessionResponse:
        """A session in that folder."""
        with _told():
            session = await self._opened(new_run_id(), cwd, additional_directories, mcp_servers, earlier=False)
            self._surroundings.note(session.run, session.folder)
        return NewSessionResponse(
            session_id=session.run, modes=modes_of(session.policy), config_options=self._options(session)
        )

    async def load_session(
        self,
        cwd: str,
        session_id: str,
        mcp_servers: list[PassedServer] | None = None,
        additional_directories: list[str] | None = None,
        **_: Any,
    ) -> LoadSessionResponse:
        """An earlier session, whose thread is shown before this is answered."""
        with _told():
            session = await self._opened(session_id, cwd, additional_directories, mcp_servers, earlier=True)
            await session.show()
        return LoadSessionResponse(modes=modes_of(session.policy), config_options=self._options(session))

    async def resume_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[PassedServer] | None = None,
        **_: Any,
    ) -> ResumeSessionResponse:
        """An earlier session, whose thread the editor has."""
        with _told():
            session = await self._opened(session_id, cwd, additional_directories, mcp_servers, earlier=True)
            await session.take_up()
        return ResumeSessionResponse(modes=modes_of(session.policy), config_options=self._options(session))

    async def fork_session(
        self,
        session_id: str,
        cwd: str,
        additional_directories: list[str] | None = None,
        mcp_servers: list[PassedServer] | None = None,
        **_: Any,
    ) -> ForkSessionResponse:
        """Not offered: `loopkernel fork` does it."""
        raise RequestError.method_not_found("session/fork")

    async def list_sessions(self, cwd: str | None = None, cursor: str | None = None, **_: Any) -> ListSessionsResponse:
        """The runs that were begun here, the latest first."""
        if cursor is not None and not (cursor.isascii() and cursor.isdigit() and len(cursor) < 10):
            raise RequestError(REFUSED, "the cursor is none that was given here; leave it out to begin anew")
        with _told():
            listed, following = await self._stored.listed(None if cwd is None else Path(cwd), int(cursor or 0))
        sessions = [
            SessionInfo(session_id=each.run, cwd=str(each.folder), title=each.title, updated_at=each.last.isoformat())
            for each in listed
        ]
        return ListSessionsResponse(sessions=sessions, next_cursor=None if following is None else str(following))

    async def close_session(self, session_id: str, **_: Any) -> CloseSessionResponse | None:
        """Stop what is under way, and let go of the session; it can be loaded again."""
        session = self._session(session_id)
        del self._sessions[session_id]
        with _told():
            await session.cancel()
            await session.close()
        return CloseSessionResponse()

    # --- in a session ---

    async def prompt(self, session_id: str, prompt: list[ContentBlock], **_: Any) -> PromptResponse:
        """Say it, and answer when the turn is over."""
        session = self._session(session_id)
        with _told():
            result = await session.prompt(said(prompt, session.folder))
        return _ended(result)

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Stop the turn that is under way."""
        session = self._sessions.get(session_id)
        if session is not None:
            with _told():
                await session.cancel()

    async def set_session_mode(self, session_id: str, mode_id: str, **_: Any) -> SetSessionModeResponse | None:
        """Another mode, at once."""
        session = self._session(session_id)
        with _told():
            await session.change_mode(mode_named(mode_id))
            options = self._options(session)
            await session.tell(ConfigOptionUpdate(session_update="config_option_update", config_options=options))
        return SetSessionModeResponse()

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_: Any
    ) -> SetSessionConfigOptionResponse | None:
        """Another mode or model, at once."""
        session = self._session(session_id)
        with _told():
            if config_id == MODE:
                mode = mode_named(str(value))
                await session.change_mode(mode)
                await session.tell(CurrentModeUpdate(session_update="current_mode_update", current_mode_id=mode.value))
            elif config_id == MODEL:
                await session.change_model(str(value))
            else:
                raise NotTaken(f"there is no option {config_id}; there are {MODE} and {MODEL}")
        return SetSessionConfigOptionResponse(config_options=self._options(session))

    async def ext_method(self, method: str, *more: Any, **_: Any) -> dict[str, Any]:
        """There are none beside those of the protocol."""
        raise RequestError.method_not_found(f"_{method}")

    async def ext_notification(self, method: str, *more: Any, **_: Any) -> None:
        """There are none beside those of the protocol, and nobody waits for an answer."""

    # --- how ---

    async def _opened(
        self,
        run: str,
        cwd: str,
        more_folders: Sequence[str] | None,
        passed: Sequence[PassedServer] | None,
        *,
        earlier: bool,
    ) -> EditorSession:
        folder, client = _folder(cwd, more_folders), self._connected()
        servers = servers_of(passed or (), folder)
        async with self._opening:
            if run in self._sessions:  # loaded once more, perhaps into another window: it is opened anew
                if self._sessions[run].busy:
                    raise NotTaken(f"a prompt is under way in the session {run}; cancel it, or wait for its end")
                await self._sessions.pop(run).close()
            found = await self._stored.found(run) if earlier else None
            if earlier and found is None and self._surroundings.folder_of(run) is None:  # not even begun and unused
                raise RequestError(NOT_FOUND, f"there is no session {run} here; session/list tells which there are")

            async def send(update: Update) -> None:
                await client.session_update(session_id=run, update=update)

            session = await opened_session(
                run,
                folder,
                servers,
                self._surroundings,
                editor=client,
                offered=self._offered,
                send=send,
                found=found,
            )
            self._sessions[run] = session
            return session

    def _session(self, name: str) -> EditorSession:
        session = self._sessions.get(name)
        if session is None:
            raise RequestError(NOT_FOUND, f"the session {name} is not open; load it, or begin a new one")
        return session

    def _options(self, session: EditorSession) -> Any:
        """Any: a list of one kind of option, where the protocol's is of several, and lists are not read-only."""
        return options_of(session.policy, self._surroundings.models)

    def _connected(self) -> Client:
        assert self._client is not None  # no request comes before the connection
        return self._client


def _folder(cwd: str, more: Sequence[str] | None) -> Path:
    """The folder of a session. Raises NotTaken."""
    if more:
        raise NotTaken("a session has one folder here; open another session for the others")
    if not Path(cwd).is_absolute() or "\0" in cwd:
        raise NotTaken(f"the folder {cwd!r} is not an absolute path; give one")
    return Path(cwd)


def _ended(result: Result | None) -> PromptResponse:
    """How the turn has ended. Raises RequestError where that is not an end that the protocol knows."""
    if result is None:
        return PromptResponse(stop_reason="cancelled")
    if result.refused is not None:
        raise RequestError(REFUSED, f"the prompt was not taken: {result.refused.value}; wait, or begin anew")
    if result.reason is TurnEndReason.ERROR:
        error = result.error
        words = "the model failed" if error is None else f"{error.error.value}: {error.message}"
        raise RequestError(INTERNAL, words)
    reason = result.reason
    if reason is None:
        raise RequestError(INTERNAL, "the turn waits for an answer that nobody gave; say something to go on")
    return PromptResponse(stop_reason=stop_reason(reason), field_meta={OURS: {"reason": reason.value}})


def stop_reason(reason: TurnEndReason) -> StopReason:
    """The nearest word of the protocol. Its `refusal` would have editors take back what the thread keeps."""
    match reason:
        case (
            TurnEndReason.MODEL_STOP
            | TurnEndReason.STOP_SEQUENCE
            | TurnEndReason.TOOL_FINAL
            | TurnEndReason.OUTPUT
            | TurnEndReason.TOOL_REJECTED
            | TurnEndReason.HANDED_OFF
            | TurnEndReason.REFUSAL
            | TurnEndReason.CONTENT_FILTERED
            | TurnEndReason.GUARDRAIL
            | TurnEndReason.ERROR
        ):
            return "end_turn"
        case TurnEndReason.MAX_TOKENS:
            return "max_tokens"
        case (
            TurnEndReason.MAX_TURNS | TurnEndReason.BUDGET_EXCEEDED | TurnEndReason.LOOP_DETECTED | TurnEndReason.STUCK
        ):
            return "max_turn_requests"
        case TurnEndReason.USER_ABORT | TurnEndReason.INTERRUPTED | TurnEndReason.EDITED | TurnEndReason.DISPOSED:
            return "cancelled"
        case _:
            assert_never(reason)


@contextmanager
def _told() -> Iterator[None]:
    """What goes wrong, as an error of the protocol that says what."""
    try:
        yield
    except (NotTaken, NotNow, McpUnavailable, OtherRules, ValueError) as error:
        raise RequestError(REFUSED, str(error)) from error
    except (StoreError, RunFailed) as error:
        raise RequestError(INTERNAL, str(error)) from error
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        raise RequestError(INTERNAL, f"{error.strerror or error}{where}") from error


def _version() -> str:
    try:
        return version(NAME)
    except PackageNotFoundError:  # run from the sources alone
        return "unknown"
