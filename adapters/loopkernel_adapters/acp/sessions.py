"""A session of an editor: a run of an agent in a folder, opened when the editor first says something in it.

Until then nothing of it is under way, and nothing but its folder is noted: an editor makes sessions that nobody uses,
and shows old ones that nobody wants to go on. What a loaded run had under way goes on with the first prompt, before
that is said.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, AsyncExitStack
from pathlib import Path

from acp import Client
from acp.schema import SessionInfoUpdate
from attrs import evolve, frozen
from loopkernel.data.blocks import UserBlock, text_of
from loopkernel.data.choices import ApprovalMode
from loopkernel.data.effects import CheckCall, StartTool
from loopkernel.data.events import Event
from loopkernel.data.policy import Policy
from loopkernel.data.remembered import Remembered
from loopkernel.data.states import Initial, State
from loopkernel.data.tools import Tool, ToolOutput, Verdict
from loopkernel.data.user_deltas import ChangeMode, ChangePolicy, Permit
from loopkernel.later_typing import override

from loopkernel_adapters.acp.calls import in_terminal
from loopkernel_adapters.acp.editor_tools import EditorTools, Offered
from loopkernel_adapters.acp.outbox import Outbox
from loopkernel_adapters.acp.questions import Questions
from loopkernel_adapters.acp.servers import keys_of_servers
from loopkernel_adapters.acp.settings import with_model
from loopkernel_adapters.acp.stored import LONGEST_TITLE, Found
from loopkernel_adapters.acp.updates import Update, Updates, notice, of_thread
from loopkernel_adapters.agent import Agent
from loopkernel_adapters.bounded_text import one_line
from loopkernel_adapters.driver.children import WITH_CALLS
from loopkernel_adapters.optional_ports import Address
from loopkernel_adapters.ports import Provider, RunContext, Runs, ToolError, Tools
from loopkernel_adapters.secrets import Secrets
from loopkernel_adapters.sessions.result import Result
from loopkernel_adapters.sessions.session import Session
from loopkernel_adapters.sessions.waiting_calls import WaitingCall
from loopkernel_adapters.tools.files import MOST_WRITTEN, Workspace, read_at_most
from loopkernel_adapters.tools.mcp import McpServer, open_servers
from loopkernel_adapters.tools.registry import CombinedTools


@frozen(kw_only=True)
class Surroundings:
    """What all sessions have in common.

    `policy` is that of a new session; `go_on` makes of an earlier one's what it goes by from now on. `tools` opens
    those for a folder; `servers` are given to every session. `note` keeps what a run was begun with, and `folder_of`
    knows the folder of one that was begun here.
    """

    runs: Runs
    provider: Provider
    models: tuple[str, ...]
    policy: Policy
    go_on: Callable[[Policy], Policy]
    tools: Callable[[Path], AbstractContextManager[Tools]]
    note: Callable[[str, Path], None]
    folder_of: Callable[[str], Path | None]
    servers: tuple[McpServer, ...]
    instructions: str | None
    secrets: Secrets
    terminals: bool  # whether commands may run in terminals of the editor


class NotNow(Exception):
    """The session cannot take a prompt. The message says why, and what to do."""


class EditorSession:
    """One session. Made by `opened_session`; `close` lets go of everything, and leaves open what is under way."""

    def __init__(
        self,
        run: str,
        folder: Path,
        surroundings: Surroundings,
        *,
        editor: Client,
        offered: Offered,
        send: Callable[[Update], Awaitable[None]],
        found: Found | None,
        own: Tools,
        servers: Tools | None,
        workspace: Workspace,
        secrets: Secrets,
        resources: AsyncExitStack,
    ) -> None:
        self.run = run
        self.folder = folder
        self._surroundings = surroundings
        self._found = found
        self._lasting = frozenset(tool.name for tool in own.offered())
        self._workspace = workspace
        self._resources = resources
        self._outbox = Outbox(send)
        self._updates = Updates(folder)
        self._policy = surroundings.policy
        if found is not None and found.doubt is None:
            self._policy = surroundings.go_on(found.session.settings.policy)
        self._session: Session | None = None
        self._turn: asyncio.Task[Result | None] | None = None
        self._cancelled = False
        self._questions = Questions(
            editor,
            run,
            folder,
            told=self._outbox.told,
            permit=self._permit,
            read=self._content_of,
            waiting=lambda: () if self._session is None else self._session.waiting,
            doubt=self._doubt_of,
        )
        through = EditorTools(own, workspace, folder, editor, run, offered, self._show_terminal)
        tools = through if servers is None else CombinedTools((through, servers))
        self._agent = Agent(
            surroundings.provider,
            WatchedTools(tools, self._look),
            instructions=surroundings.instructions,
            runs=surroundings.runs,
            secrets=secrets,
            approve=self._questions.ask,
            observers=(self._see,),
            child_observers=(self._see_of_child,),
        )

    @property
    def policy(self) -> Policy:
        """What it goes by now, or will when it is opened."""
        return self._policy if self._session is None else self._session.policy

    @property
    def busy(self) -> bool:
        """Whether a prompt is under way."""
        return self._turn is not None

    async def show(self) -> None:
        """Show the whole thread of a session that is loaded, and why it is not believed, if it is not."""
        if self._found is not None:
            self._outbox.put(of_thread(self._found.session.thread, self.folder))
            await self.take_up()

    async def take_up(self) -> None:
        """Go on from what a session that is loaded has left open; and say why it is not believed, if it is not."""
        if self._found is not None:
            self._updates.know(self._found.session.thread)
            if self._found.doubt is not None:
                self._outbox.put((notice(_doubted(self._found.doubt)),))
            await self._outbox.told()

    async def prompt(self, words: tuple[UserBlock, ...]) -> Result | None:
        """Say it, and wait for the end of the turn; None: it was cancelled before it began. Raises NotNow.

        All that happened is told when this returns. What ends this without ending the turn leaves the turn alone.
        """
        if self.busy:
            raise NotNow("a prompt is under way in this session; cancel it, or wait for its end")
        if self._found is not None and self._found.over is not None:
            raise NotNow(f"the run {self.run} is over ({self._found.over.value}): begin a new session")
        self._cancelled = False
        self._turn = asyncio.ensure_future(self._taken(words))
        self._turn.add_done_callback(self._turn_over)
        result = await asyncio.shield(self._turn)
        await self._outbox.told()
        return result

    async def cancel(self) -> None:
        """Stop the turn that is under way, if one is."""
        if self._turn is None:
            return
        self._cancelled = True
        if self._session is not None:
            await self._session.cancel()

    async def change_mode(self, mode: ApprovalMode) -> None:
        """From now on, also for the calls that wait."""
        if self._session is None:
            self._policy = evolve(self._policy, approval_mode=mode)
        else:
            await self._session.send(ChangeMode(mode))

    async def change_model(self, model: str) -> None:
        """From the next request on. Raises ValueError."""
        policy = with_model(self.policy, model, self._surroundings.models)
        if self._session is None:
            self._policy = policy
        else:
            await self._session.send(ChangePolicy(policy))

    async def tell(self, update: Update) -> None:
        """Tell the editor, after all that came before."""
        self._outbox.put((update,))
        await self._outbox.told()

    async def close(self) -> None:
        """Let go of everything. For its log it is as if the process had ended here."""
        await self._resources.aclose()
        self._questions.leave()
        if self._turn is not None:
            await asyncio.wait({self._turn})
        await self._outbox.told()

    # --- a turn ---

    async def _taken(self, words: tuple[UserBlock, ...]) -> Result | None:
        session = self._session
        if session is None:
            session = await self._opened(words)
            if self._found is not None and not self._cancelled:
                await session.go_on()
        return None if self._cancelled else await session.say(words)

    async def _opened(self, words: tuple[UserBlock, ...]) -> Session:
        """The run, open from now on."""
        if self._found is None:
            title = one_line(text_of(words), LONGEST_TITLE)
            self._outbox.put((SessionInfoUpdate(session_update="session_info_update", title=title),))
        opened = self._agent.session(self.run, policy=self._policy, remembered=self._remembered(), on_change="refresh")
        self._session = await self._resources.enter_async_context(opened)
        return self._session

    def _turn_over(self, turn: "asyncio.Task[Result | None]") -> None:
        self._turn = None
        if not turn.cancelled():
            turn.exception()  # looked at, also where nobody waits for the turn any more

    def _remembered(self) -> tuple[Remembered, ...] | None:
        """The approvals that hold on: none for tools of servers, which may be others by now.

        None: what the log says holds, or nothing where it is not believed.
        """
        if self._found is None or self._found.doubt is not None:
            return None
        return tuple(each for each in self._found.session.settings.remembered if each.tool in self._lasting)

    # --- what happens ---

    def _see(self, event: Event) -> None:
        self._outbox.put(self._updates.of(event, self._state))
        self._questions.look()

    def _look(self) -> None:
        """A tool begins to run."""
        self._outbox.put(self._updates.begun(self._state))

    @property
    def _state(self) -> State:
        return Initial() if self._session is None else self._session.state

    def _see_of_child(self, within: Address, event: Event) -> None:
        self._questions.look()

    def _show_terminal(self, command: StartTool, terminal: str) -> None:
        """Show the terminal in the call whose run it belongs to, where that is a call of this session itself."""
        session = self._state.session
        lineage = 1 if session is None else session.settings.lineage
        if command.key.startswith(f"{self.run}/{lineage}/{command.call}"):
            self._outbox.put((in_terminal(command.call, terminal),))

    # --- for questions ---

    async def _permit(self, rule: Permit) -> None:
        if self._session is not None:
            await self._session.send(rule)

    def _doubt_of(self, call: WaitingCall) -> str | None:
        """Why what was said of the call earlier does not count; None: nothing was, or it does."""
        if self._session is None or self._session.doubt is None:
            return None
        state = self._state
        entries = state.ledger.entries if isinstance(state, WITH_CALLS) else ()
        return next(
            (self._session.doubt for each in entries if each.call.id == call.path[0] and each.person.doubted), None
        )

    async def _content_of(self, path: str) -> str | None:
        """What a file of the folder holds; None: there is none, or it is not a text that can be shown."""
        try:
            return await asyncio.to_thread(_text_at, self._workspace, path)
        except (ToolError, UnicodeDecodeError):
            return None


class WatchedTools(Tools):
    """Tools that say when one of them begins to run, which no event does."""

    def __init__(self, tools: Tools, began: Callable[[], None]) -> None:
        self._tools = tools
        self._began = began

    @override
    def offered(self) -> tuple[Tool, ...]:
        return self._tools.offered()

    @override
    def check(self, command: CheckCall) -> Verdict:
        return self._tools.check(command)

    @override
    async def run(self, command: StartTool, context: RunContext) -> ToolOutput:
        self._began()
        return await self._tools.run(command, context)


def _text_at(workspace: Workspace, path: str) -> str | None:
    with workspace.opened_file(path) as descriptor:
        content = read_at_most(descriptor, MOST_WRITTEN + 1)
    return content.decode() if len(content) <= MOST_WRITTEN else None


def _doubted(doubt: str) -> str:
    return (
        f"What the log of this session says was allowed is not believed, since {doubt}. It goes on under what you say "
        "now, nothing is remembered, and each call that it left open asks you."
    )


async def opened_session(
    run: str,
    folder: Path,
    passed: Sequence[McpServer],
    surroundings: Surroundings,
    *,
    editor: Client,
    offered: Offered,
    send: Callable[[Update], Awaitable[None]],
    found: Found | None,
) -> EditorSession:
    """A session in that folder, whose tools and servers are open. `found`: it goes on with that run.

    Raises what `surroundings.tools` and `open_servers` raise, and OSError.
    """
    secrets = surroundings.secrets.with_keys(keys_of_servers(passed))
    async with AsyncExitStack() as resources:
        own = resources.enter_context(surroundings.tools(folder))
        workspace = resources.enter_context(Workspace(folder))
        all_servers, opened = (*surroundings.servers, *passed), None
        if all_servers:
            opened = await resources.enter_async_context(open_servers(all_servers, secrets=secrets))
            CombinedTools((own, opened))  # raises where two of their tools have one name
        return EditorSession(
            run,
            folder,
            surroundings,
            editor=editor,
            offered=offered if surroundings.terminals else evolve(offered, terminals=False),
            send=send,
            found=found,
            own=own,
            servers=opened,
            workspace=workspace,
            secrets=secrets,
            resources=resources.pop_all(),
        )
