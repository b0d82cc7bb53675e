"""The commands that serve others, as functions of what is typed: editors, programs, and the runs of a database."""

from typing import Annotated

from cyclopts import Parameter

from loopkernel_adapters.cli import argument_values as values
from loopkernel_adapters.cli.argument_values import each, one
from loopkernel_adapters.cli.options import EditorOptions, ServerOptions, Store, one_at_most
from loopkernel_adapters.cli.outcomes import ExitStatus
from loopkernel_adapters.cli.parameters import FLAT, NAME, OnScreen

_SENT = one_at_most()


def acp(*, options: Annotated[EditorOptions, FLAT] = EditorOptions(), screen: OnScreen) -> ExitStatus:
    """Serve an editor. Raises Unusable."""
    from loopkernel_adapters.cli.acp import serve_editor

    return serve_editor(options)


def serve(
    *,
    port: Annotated[
        int, Parameter(metavar="N", converter=one(values.port), help="on which port of 127.0.0.1 (one that is free)")
    ] = 0,
    origins: Annotated[
        tuple[str, ...],
        Parameter(
            name="--origin",
            metavar="URL",
            converter=each(values.url),
            help="pages of this origin may use the server from a browser, as http://localhost:3000; may be given "
            "several times",
        ),
    ] = (),
    options: Annotated[ServerOptions, FLAT] = ServerOptions(),
    screen: OnScreen,
) -> ExitStatus:
    """Serve runs over HTTP. Raises Unusable."""
    from loopkernel_adapters.cli.serve import serve

    return serve(options, port, origins, screen)


def mcp(*, options: Annotated[ServerOptions, FLAT] = ServerOptions(), screen: OnScreen) -> ExitStatus:
    """Serve a client of the Model Context Protocol. Raises Unusable."""
    from loopkernel_adapters.cli.mcp_server import serve_mcp

    return serve_mcp(options)


def worker(*, options: Annotated[ServerOptions, FLAT] = ServerOptions(), screen: OnScreen) -> ExitStatus:
    """Serve the runs of a database. Raises Unusable."""
    from loopkernel_adapters.cli.fleet import work

    return work(options, screen)


def send(
    run: Annotated[str, NAME, Parameter(help="the id of the run, new or not")],
    words: Annotated[str | None, Parameter(help="what to say, or to answer with --call")] = None,
    /,
    *,
    cancel: Annotated[bool, Parameter(group=_SENT, help="stop what is under way first")] = False,
    waiting: Annotated[
        bool, Parameter(group=_SENT, help="list the calls that wait for a person, and say nothing")
    ] = False,
    call: Annotated[
        str | None,
        NAME,
        Parameter(group=_SENT, metavar="CALL", help="answer this call, as --waiting names it: yes, no WHY, ..."),
    ] = None,
    store: Store = None,
    screen: OnScreen,
) -> ExitStatus:
    """Say something to a run that workers serve. Raises Unusable."""
    if call is not None:
        from loopkernel_adapters.cli.fleet_calls import answer_call

        return answer_call(run, call, words, store, screen)
    if waiting:
        from loopkernel_adapters.cli.fleet_calls import list_waiting

        return list_waiting(run, store, screen)
    from loopkernel_adapters.cli.fleet import inputs_of, send

    return send(run, inputs_of(words, cancel=cancel), store, screen)
