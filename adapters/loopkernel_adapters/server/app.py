"""The ASGI app: each operation carried out over the runs that are open here, and what cannot be, in words."""

import re
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, nullcontext
from importlib.metadata import PackageNotFoundError, version
from typing import TypeAlias

from loopkernel.data.blocks import TextBlock
from loopkernel.data.errors import CodecError, OtherRules
from loopkernel.data.ids import CallId, MessageId, ModelOperation
from loopkernel.data.usage import NO_USAGE
from loopkernel.data.user_deltas import CancelAll, CancelCall, EditMessage, Enqueue, Say, Steer
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from loopkernel_adapters.agent import Agent
from loopkernel_adapters.driver.children import last_said
from loopkernel_adapters.driver.taking_up import SettingsDiffer
from loopkernel_adapters.optional_ports import Address, NoSuchAgent
from loopkernel_adapters.ports import NoSuchRun, StoreError, StoreLocked
from loopkernel_adapters.server.ag_ui import ag_ui_run
from loopkernel_adapters.server.bodies import Object, Wrong, body_of, number_in, text_in
from loopkernel_adapters.server.event_stream import event_stream
from loopkernel_adapters.server.guard import Guard, refusal
from loopkernel_adapters.server.open_runs import MOST_OPEN, AlreadyThere, Changed, Full, Message, OpenRuns
from loopkernel_adapters.server.openapi import openapi_document
from loopkernel_adapters.server.operations import MOST_LISTED, OPERATIONS, Operation
from loopkernel_adapters.sessions.asked_calls import NoAnswer, answer_to, asked_as_json, call_asked
from loopkernel_adapters.tools.input_schema import InputSchema

Handler: TypeAlias = Callable[[Request, Object], Awaitable[Response]]
_CALL = re.compile(r"([0-9]{1,9})\.([0-9]{1,9})")
_MOST = re.compile(r"[0-9]{1,4}")
_RUN = re.compile(r"[^/\0]{1,300}")


def app_of(
    agent: Agent,
    *,
    token: str | None,
    hosts: Callable[[], Collection[str]],
    origins: Collection[str] = (),
    most_open: int = MOST_OPEN,
    lasting: frozenset[str] | None = None,
    note: Callable[[str], None] | None = None,
    mcp: bool = False,
) -> Starlette:
    """An app over the runs of the agent, for any ASGI server. `token` None: whatever stands before it asks for one.

    `hosts` gives the names, with their ports, that it is called by; `origins` are those of pages of other sites that
    may use it. `lasting` and `note`: see `OpenRuns`. With `mcp` it is a server of the
    Model Context Protocol as well, which needs the extra `mcp`.
    """
    runs = OpenRuns(agent, most_open=most_open, lasting=lasting, note=note)
    handlers = Handlers(runs)
    routes = [_route(operation, handlers.by_name[operation.name]) for operation in OPERATIONS]
    resources = AsyncExitStack()
    resources.push_async_callback(runs.close)
    meanwhile: AbstractAsyncContextManager[None] = nullcontext()
    if mcp:
        from loopkernel_adapters.server.mcp_server import mcp_over_http

        route, sessions = mcp_over_http(runs, _version())
        routes.append(route)
        meanwhile = sessions.run()

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with resources, meanwhile:
            yield

    guard = Middleware(Guard, token=token, hosts=hosts, origins=frozenset(origins))
    app = Starlette(
        routes=routes,
        middleware=[guard],
        lifespan=lifespan,
        exception_handlers={404: _no_such_path, 405: _no_such_path},
    )
    app.state.runs = runs
    return app


def _route(operation: Operation, handler: Handler) -> Route:
    schema = None if operation.body is None else InputSchema(operation.body)

    async def endpoint(request: Request) -> Response:
        try:
            body = {} if schema is None else await body_of(request, schema, operation.most_bytes)
            return await handler(request, body)
        except Wrong as error:
            return refusal(error.status, error.error, str(error))
        except NoSuchRun:
            return refusal(404, "no-such-run", "there is no such run; GET /runs lists those that are there")
        except NoSuchAgent as error:
            return refusal(404, "no-such-agent", str(error))
        except StoreLocked as error:
            return refusal(409, "in-use", f"the run is open elsewhere: {error}")
        except OtherRules as error:
            return refusal(409, "other-rules", str(error))
        except SettingsDiffer as error:
            return refusal(409, "settings-differ", str(error))
        except Changed:
            return refusal(409, "changed", "nothing waits that was asked so; look at what is waiting now")
        except Full:
            return refusal(503, "full", "too many runs are under way here; try again when one of them rests")
        except (StoreError, OSError) as error:
            return refusal(503, "store", f"the log cannot be used now: {error}")

    return Route(operation.path, endpoint, methods=[operation.method], name=operation.name)


async def _no_such_path(request: Request, error: Exception) -> Response:
    return refusal(404, "no-such-path", "there is nothing here; GET /openapi.json tells what there is")


class Handlers:
    """Each operation, by its name."""

    def __init__(self, runs: OpenRuns) -> None:
        self._runs = runs
        self.by_name: Mapping[str, Handler] = {
            "list_runs": self._list_runs,
            "start": self._start,
            "status": self._status,
            "events": self._events,
            "say": self._say,
            "steer": self._steer,
            "enqueue": self._enqueue,
            "edit": self._edit,
            "cancel": self._cancel,
            "answer": self._answer,
            "fork": self._fork,
            "ag_ui": self._ag_ui,
            "openapi": self._openapi,
        }

    async def _list_runs(self, request: Request, _: Object) -> Response:
        most = request.query_params.get("most", "30")
        if not _MOST.fullmatch(most) or not 1 <= int(most) <= MOST_LISTED:
            raise Wrong(400, "query", f"most is a number from 1 to {MOST_LISTED}")
        page = await self._runs.latest(int(most))
        listed = [
            {"run": each.run, "records": each.records, "first_ms": each.first_ms, "last_ms": each.last_ms}
            for each in page.entries
        ]
        return JSONResponse({"runs": listed, "total": page.total})

    async def _start(self, _: Request, body: Object) -> Response:
        given = text_in(body, "run") or None
        try:
            run = await self._runs.begin(given)
        except AlreadyThere:
            raise Wrong(409, "already-there", f"there is a run {given} already; say something to it") from None
        if "text" in body:
            await self._said(run, Say(content=_content(body), key=_key(body)))
        return JSONResponse({"run": run}, status_code=201)

    async def _status(self, request: Request, _: Object) -> Response:
        run = _run(request)
        feed = await self._runs.feed(run)
        state, waiting = await self._runs.waiting(run)
        usage, ended = NO_USAGE, None
        if state.session is not None:
            usage, ended = state.session.usage, state.session.last_end
        return JSONResponse(
            {
                "run": run,
                "state": type(state).__name__,
                "reason": None if ended is None else ended.value,
                "text": last_said(state),
                "usage": {"input": usage.input, "output": usage.output},
                "waiting": [asked_as_json(call, run) for call in waiting],
                "last_event": feed.last_id,
            }
        )

    async def _events(self, request: Request, _: Object) -> Response:
        last, within = request.headers.get("last-event-id"), _address(request.query_params.get("within"))
        return event_stream(await self._runs.feed_within(_run(request), within), last)

    async def _say(self, request: Request, body: Object) -> Response:
        return await self._said(_run(request), Say(content=_content(body), key=_key(body)))

    async def _steer(self, request: Request, body: Object) -> Response:
        return await self._said(_run(request), Steer(content=_content(body), key=_key(body)))

    async def _enqueue(self, request: Request, body: Object) -> Response:
        return await self._said(_run(request), Enqueue(content=_content(body), key=_key(body)))

    async def _edit(self, request: Request, body: Object) -> Response:
        message = MessageId(number_in(body, "message"))
        return await self._said(_run(request), EditMessage(message=message, content=_content(body), key=_key(body)))

    async def _said(self, run: str, delta: Message) -> Response:
        fate = await self._runs.say(run, delta)
        if fate.refused is not None:
            reason = fate.refused.value
            raise Wrong(409, reason, f"it was not taken: {reason} (specs/rules/deltas.md, DELTA-2)")
        return JSONResponse({"run": run, "fate": None if fate.fate is None else fate.fate.value})

    async def _cancel(self, request: Request, body: Object) -> Response:
        run, call = _run(request), text_in(body, "call")
        found = _CALL.fullmatch(call)
        if call and found is None:
            raise Wrong(400, "body", "call is the id of a call of the run itself, as 2.1")
        await self._runs.send(run, CancelAll() if found is None else CancelCall(_call_id(found)))
        return JSONResponse({"run": run})

    async def _answer(self, request: Request, body: Object) -> Response:
        run = _run(request)
        _, waiting = await self._runs.waiting(run)
        call = call_asked(waiting, run, body.get("asked"))
        if call is None:
            raise Changed
        try:
            answer = answer_to(call, body)
        except (NoAnswer, CodecError) as error:
            raise Wrong(400, "answer", str(error)) from error
        await self._runs.answer(run, call, answer)
        return JSONResponse({"run": run})

    async def _fork(self, request: Request, body: Object) -> Response:
        try:
            run = await self._runs.fork(_run(request), number_in(body, "at"))
        except ValueError as error:
            raise Wrong(409, "fork", str(error)) from error
        return JSONResponse({"run": run}, status_code=201)

    async def _ag_ui(self, _: Request, body: Object) -> Response:
        return await ag_ui_run(self._runs, body)

    async def _openapi(self, _: Request, __: Object) -> Response:
        return JSONResponse(openapi_document(_version()))


def _run(request: Request) -> str:
    run = request.path_params["run"]
    assert isinstance(run, str)  # as the path says
    if not _RUN.fullmatch(run):
        raise NoSuchRun(run)
    return run


def _address(text: str | None) -> Address:
    """Raises Wrong."""
    found = [_CALL.fullmatch(part) for part in ("" if text is None else text).split("/")]
    if text is not None and None in found:
        raise Wrong(400, "query", "within is the id of a call, as 2.1, or a path of such, as 2.1/1.1")
    return tuple(_call_id(each) for each in found if each is not None)


def _content(body: Object) -> tuple[TextBlock, ...]:
    return (TextBlock(text_in(body, "text")),)


def _key(body: Object) -> str:
    """What tells this message from all others, so that what becomes of it can be told."""
    return text_in(body, "key") or uuid.uuid4().hex


def _call_id(found: re.Match[str]) -> CallId:
    return CallId(ModelOperation(int(found[1])), int(found[2]))


def _version() -> str:
    try:
        return version("loopkernel")
    except PackageNotFoundError:  # run from the sources alone
        return "0"
