"""The agent as a server of the Model Context Protocol: a task is a tool, and what happens in it is its progress.

Who calls the tool is a program, often a model. So an approval is asked of the person behind it, by elicitation, and of
nobody else: there is no tool that answers. Where the client cannot ask a person, the call waits in the log.

Until version 2025-11-25 of the protocol the question is sent while the tool is under way. From 2026-07-28 on it is the
tool's answer, and the client calls again with what the person has said: each answer under the id of its question.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress

from attrs import frozen
from loopkernel.data.blocks import TextBlock
from loopkernel.data.states import State
from loopkernel.data.user_deltas import CancelAll, Say
from mcp.server import MCPServer
from mcp.server.mcpserver import AcceptedElicitation, Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitResult, InputRequests, InputRequiredResult
from mcp_types.version import is_version_at_least
from pydantic import BaseModel, Field
from starlette.routing import Route

from loopkernel_adapters.agent import new_run_id
from loopkernel_adapters.driver.asyncio_driver import AT_REST
from loopkernel_adapters.driver.children import last_said
from loopkernel_adapters.ports import NoSuchRun, StoreError
from loopkernel_adapters.server.feed import Feed
from loopkernel_adapters.server.mcp_progress import progress_of
from loopkernel_adapters.server.mcp_questions import answer_of, form_of, question_of, request_of
from loopkernel_adapters.server.open_runs import Changed, Full, OpenRuns
from loopkernel_adapters.server.operations import LONGEST_TEXT, RUN_NAME
from loopkernel_adapters.sessions.asked_calls import address_of, asked_id
from loopkernel_adapters.sessions.waiting_calls import WaitingCall

NAME = "loopkernel"
PATH = "/mcp"
LONGEST_ASKED = 20_000  # characters of a call that are put to a person; a longer one is left waiting
LOOK_EVERY_SECONDS = 60.0
ASKED_BY_ANSWERING = "2026-07-28"  # the version of the protocol from which on a tool asks by its answer
ABOUT = (
    "Give a task to an agent, which works on it with tools of its own and answers when it is done. To go on with an "
    "earlier task, name its run."
)


class Task(BaseModel):
    """What has come of a task."""

    run: str = Field(description="the id to go on with")
    text: str = Field(description="the last text of the agent")
    reason: str | None = Field(description="why it has ended; null: it waits for a person")
    waiting: list[str] = Field(description="the calls that wait for a person")


class Begun(BaseModel):
    """What a call of the tool has come to when it asks: given to the client, and given back with its answers."""

    run: str
    place: int
    asked: list[str]


# What a context holds beside the request is not used here.
TaskContext = Context[object, object]


def mcp_server_of(runs: OpenRuns, version: str = "") -> MCPServer:
    """A server with one tool, over these runs."""
    server = MCPServer(NAME, version=version, log_level="CRITICAL")

    @server.tool(name="run_task", description=ABOUT)
    async def run_task(task: str, context: TaskContext, run: str = "") -> Task | InputRequiredResult:
        """Gives the agent the task, and waits until it is done or waits for a person."""
        if not task.strip() or len(task) > LONGEST_TEXT:
            raise ToolError(f"the task is empty, or longer than {LONGEST_TEXT} characters")
        if run and not RUN_NAME.fullmatch(run):
            raise ToolError("run is the id that an earlier task has given, or empty for a new one")
        try:
            if context.request_state is not None:
                begun = Begun.model_validate_json(context.request_state)
                return await _Doing(runs, context, begun.run).go_on(begun)
            return await _Doing(runs, context, run or new_run_id()).do(task, new=not run)
        except NoSuchRun as error:
            raise ToolError(f"there is no run {run}; leave it out to begin a new one") from error
        except (StoreError, OSError) as error:
            raise ToolError(f"the run cannot be used now: {error}") from error
        except Full as error:
            raise ToolError("too many tasks are under way; try again when one of them is done") from error

    return server


def mcp_over_http(runs: OpenRuns, version: str = "") -> tuple[Route, StreamableHTTPSessionManager]:
    """The same over HTTP, at `PATH`: its route, and what has to run meanwhile. Who may come in is the app's to say."""
    server = mcp_server_of(runs, version)
    no_checks = TransportSecuritySettings(enable_dns_rebinding_protection=False)  # the guard of the app has made them
    app = server.streamable_http_app(streamable_http_path=PATH, transport_security=no_checks)
    (route,) = app.routes
    assert isinstance(route, Route)  # as the SDK makes it
    return route, server.session_manager


@frozen
class _Doing:
    """One call of the tool."""

    runs: OpenRuns
    context: TaskContext
    run: str

    async def do(self, task: str, *, new: bool) -> Task | InputRequiredResult:
        """Say it, tell how it goes, and ask what is to be asked."""
        if new:
            await self.runs.begin(self.run)
        feed = await self.runs.feed(self.run)
        place = len(feed.told)
        fate = await self.runs.say(self.run, Say(content=(TextBlock(task),), key=new_run_id()))
        if fate.refused is not None:
            raise ToolError(f"the task was not taken: {fate.refused.value}; the run may be over")
        return await self._followed(feed, place, frozenset())

    async def go_on(self, begun: Begun) -> Task | InputRequiredResult:
        """Take the answers to what was asked, and follow what comes of them."""
        given = self.context.input_responses or {}
        feed = await self.runs.feed(self.run)
        _, waiting = await self.runs.waiting(self.run)
        for call in waiting:
            said = given.get(asked_id(call, self.run))
            if isinstance(said, ElicitResult):
                await self._answer(call, said.content if said.action == "accept" else None)
        return await self._followed(feed, begun.place, frozenset(begun.asked))

    async def _followed(self, feed: Feed, place: int, asked: frozenset[str]) -> Task | InputRequiredResult:
        """Tell what happens until it rests; a client that cancels meanwhile cancels the turn."""
        try:
            return await self._to_rest(feed, place, asked)
        except asyncio.CancelledError:
            await asyncio.shield(asyncio.ensure_future(self._cancel()))
            raise

    async def _cancel(self) -> None:
        with suppress(StoreError, OSError):
            await self.runs.send(self.run, CancelAll())

    async def _to_rest(self, feed: Feed, place: int, asked: frozenset[str]) -> Task | InputRequiredResult:
        """`asked` are the questions that were put to the person already: none is put twice."""
        while True:
            place = await self._told(feed, place)
            state, waiting = await self.runs.waiting(self.run)
            if place < len(feed.told):
                continue
            if not (feed.over or isinstance(state, tuple(AT_REST))):
                await feed.more_than(place, LOOK_EVERY_SECONDS)
                continue
            to_ask = {asked_id(call, self.run): call for call in waiting if self._can_ask(call)}
            to_ask = {name: call for name, call in to_ask.items() if name not in asked}
            if not to_ask:
                return self._result(state, waiting)
            asked |= to_ask.keys()
            if is_version_at_least(self.context.protocol_version or "", ASKED_BY_ANSWERING):
                requests: InputRequests = {name: request_of(call) for name, call in to_ask.items()}
                begun = Begun(run=self.run, place=place, asked=sorted(asked))
                return InputRequiredResult(input_requests=requests, request_state=begun.model_dump_json())
            for call in to_ask.values():
                await self._ask(call)

    async def _told(self, feed: Feed, place: int) -> int:
        """Tell what has happened, but for the pieces of texts; the place behind it."""
        while place < len(feed.told):
            line = progress_of(feed.told[place].event)
            place += 1
            if line is not None:
                await self.context.report_progress(place, message=line)
        return place

    def _can_ask(self, call: WaitingCall) -> bool:
        """Whether there is a person behind the client, who would see all of the question."""
        capabilities = self.context.client_capabilities
        return (
            capabilities is not None
            and capabilities.elicitation is not None
            and len(question_of(call)) <= LONGEST_ASKED
        )

    async def _ask(self, call: WaitingCall) -> None:
        """Put exactly this call to the person. What fails is not an answer: the call waits on."""
        try:
            said = await self.context.elicit(question_of(call), form_of(call))
        except MCPError:
            return
        except ValueError:  # it answers in another form: nobody has said yes
            await self._answer(call, None)
            return
        await self._answer(call, said.data.model_dump() if isinstance(said, AcceptedElicitation) else None)

    async def _answer(self, call: WaitingCall, content: Mapping[str, object] | None) -> None:
        """Take what the person has said, unless the call has changed meanwhile."""
        with suppress(Changed):
            await self.runs.answer(self.run, call, answer_of(call, content))

    def _result(self, state: State, waiting: Sequence[WaitingCall]) -> Task:
        ended = None if state.session is None or waiting else state.session.last_end
        return Task(
            run=self.run,
            text=last_said(state),
            reason=None if ended is None else ended.value,
            waiting=[f"{address_of(call)} {call.tool}" for call in waiting],
        )
