"""The commands that tell about runs, policies and this machine, as functions of what is typed."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from loopkernel_adapters.cli import argument_values as values
from loopkernel_adapters.cli.argument_values import one
from loopkernel_adapters.cli.options import RUNS_SHOWN, Json, NameOrFile, Store, one_at_most
from loopkernel_adapters.cli.outcomes import ExitStatus
from loopkernel_adapters.cli.parameters import ABOUT_RUN, FILE, NAME, POLICIES, NamedPolicy, OnScreen, Run

_PAGE = one_at_most()
_KIND = one_at_most()
_PLACE = one_at_most()


def runs(
    *,
    json: Annotated[bool, Parameter(help="one JSON object a line, for each run")] = False,
    limit: Annotated[
        int | None,
        Parameter(
            group=_PAGE,
            metavar="N",
            converter=one(values.count),
            help=f"the latest N runs ({RUNS_SHOWN}; with --json: all of them)",
        ),
    ] = None,
    everything: Annotated[bool, Parameter(name="--all", group=_PAGE, help="all of them")] = False,
    store: Store = None,
    screen: OnScreen,
) -> ExitStatus:
    """List the runs that were recorded. Raises Unusable."""
    from loopkernel_adapters.cli.listing import list_runs

    usual = None if everything or json else RUNS_SHOWN
    return list_runs(store, screen, as_json=json, most=usual if limit is None else limit)


def approvals(
    run: Run,
    /,
    *,
    drop: Annotated[
        int | str | None,
        Parameter(metavar="N|all", converter=one(values.count_or_all), help="take back this one, or every one"),
    ] = None,
    json: Json = False,
    store: Store = None,
    screen: OnScreen,
) -> ExitStatus:
    """List what runs unasked in a run. Raises Unusable."""
    from loopkernel_adapters.cli.approvals import drop_approval, list_approvals

    if drop is not None:
        return drop_approval(run, store, drop, screen, as_json=json)
    return list_approvals(run, store, screen, as_json=json)


def log(
    run: Run,
    /,
    *,
    json: Annotated[bool, Parameter(group=_KIND, help="one JSON object a line, for each record")] = False,
    steps: Annotated[
        bool, Parameter(group=_KIND, help="list its records by the numbers that `fork --at` takes")
    ] = False,
    store: Store = None,
    screen: OnScreen,
) -> ExitStatus:
    """Show the events of a run. Raises Unusable."""
    if steps:
        from loopkernel_adapters.cli.why import show_steps

        return show_steps(run, store, screen)
    from loopkernel_adapters.cli.replay import show_log

    return show_log(run, store, screen, as_json=json)


def why(
    run: Run,
    step: Annotated[
        int | None, Parameter(converter=one(values.count), help="a record of it, as `log --steps` counts them (all)")
    ] = None,
    /,
    *,
    store: Store = None,
    screen: OnScreen,
) -> ExitStatus:
    """Say why each thing in a run happened. Raises Unusable."""
    from loopkernel_adapters.cli.why import why

    return why(run, step, store, screen)


def view(
    *run: Annotated[
        NameOrFile, NAME, Parameter(required=True, help=f"{ABOUT_RUN}; or a recording of another agent; or two of them")
    ],
    html: Annotated[
        Path | None, FILE, Parameter(group=_PLACE, help="where to write the page, which must not be there (RUN.html)")
    ] = None,
    serve: Annotated[
        bool, Parameter(group=_PLACE, help="show it to a browser of this machine while it goes on; Ctrl-C ends it")
    ] = False,
    policies: Annotated[
        tuple[NameOrFile, ...],
        POLICIES,
        Parameter(
            help="show it as recorded beside what it would have been under this policy, or given twice, under both"
        ),
    ] = (),
    store: Store = None,
    screen: OnScreen,
) -> ExitStatus:
    """Make a page of a run or a recording. Raises Unusable."""
    from loopkernel_adapters.cli.view import view

    return view([*map(str, run)], store, [*map(str, policies)], html, screen, serves=serve)


def fork(
    log: Annotated[NameOrFile, NAME, Parameter(help=f"{ABOUT_RUN}, or of a recording")],
    /,
    *,
    at: Annotated[
        int, Parameter(metavar="N", converter=one(values.count), help="after which record of it the new run leaves it")
    ],
    out: Annotated[
        Path | None, FILE, Parameter(metavar="NEW", help="write the new run to this file instead of the store")
    ] = None,
    store: Store = None,
    screen: OnScreen,
) -> ExitStatus:
    """Begin a new run at any step of a log or a recording. Raises Unusable."""
    from loopkernel_adapters.cli.fork import fork_run

    return fork_run(str(log), at, store, out, screen)


def show_policy(policy: NamedPolicy, /, *, screen: OnScreen) -> ExitStatus:
    """Print it as a document that --policy takes. Raises Unusable."""
    from loopkernel_adapters.cli.policies import show_policy

    return show_policy(str(policy), screen)


def check_policy(policy: NamedPolicy, /, *, screen: OnScreen) -> ExitStatus:
    """Say whether it can be used. Raises Unusable."""
    from loopkernel_adapters.cli.policies import check_policy

    return check_policy(str(policy), screen)


def diff_policy(policy: NamedPolicy, other: NamedPolicy, /, *, screen: OnScreen) -> ExitStatus:
    """Tell each option that differs. Raises Unusable."""
    from loopkernel_adapters.cli.policies import compare_policies

    return compare_policies(str(policy), str(other), screen)


def doctor(*, screen: OnScreen) -> ExitStatus:
    """Say what is installed. Raises Unusable."""
    from loopkernel_adapters.cli.doctor import examine

    return examine(screen)


def completion(shell: Literal["bash", "zsh", "fish"], /, *, screen: OnScreen) -> ExitStatus:
    """Print what lets a shell complete commands, options and paths."""
    from loopkernel_adapters.cli.arguments import command_line

    screen.line(command_line().generate_completion(shell=shell).rstrip())
    return ExitStatus.NATURAL_END
