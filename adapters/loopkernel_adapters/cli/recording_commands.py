"""The commands for recordings of other agents, and for other agents themselves, as functions of what is typed."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from loopkernel_adapters.cli.conform_options import ConformOptions
from loopkernel_adapters.cli.options import Json, NameOrFile, Store
from loopkernel_adapters.cli.outcomes import ExitStatus
from loopkernel_adapters.cli.parameters import (
    FILE,
    FLAT,
    POLICIES,
    POLICY,
    Conversation,
    OnScreen,
    Recording,
    Recordings,
)


def replay(
    *log: Recordings,
    findings: Annotated[bool, Parameter(help="of recordings: show all that was found odd")] = False,
    policy: Annotated[
        NameOrFile | None,
        POLICY,
        Parameter(help="where the loop would have gone another way under this one, and what it would have done"),
    ] = None,
    json: Annotated[bool, Parameter(help="one JSON object a line, for each file or run")] = False,
    store: Store = None,
    screen: OnScreen,
) -> ExitStatus:
    """Fold a log again, or feed recordings of other agents through it. Raises Unusable."""
    from loopkernel_adapters.cli.recordings import is_one_run, replay_recordings

    names, policy_name = [*map(str, log)], None if policy is None else str(policy)
    if not json and policy is None and is_one_run(names, store):
        from loopkernel_adapters.cli.replay import replay

        return replay(names[0], store, screen)
    return replay_recordings(names, store, policy_name, screen, as_json=json, all_findings=findings)


def whatif(
    *log: Recordings,
    policies: Annotated[
        tuple[NameOrFile, ...], POLICIES, Parameter(help="what the loop would have gone by; may be given several times")
    ] = (),
    html: Annotated[Path | None, FILE, Parameter(help="also write a page with the figures")] = None,
    json: Annotated[bool, Parameter(help="one JSON object a line, for each recording and policy")] = False,
    store: Store = None,
    screen: OnScreen,
) -> ExitStatus:
    """Tell in figures what policies would have made of runs and recordings. Raises Unusable."""
    from loopkernel_adapters.cli.what_if_table import whatif

    return whatif([*map(str, log)], store, [*map(str, policies)], html, screen, as_json=json)


def diagnose(
    recording: Recording,
    /,
    *,
    everything: Annotated[bool, Parameter(name="--all", help="tell every fault in full")] = False,
    json: Json = False,
    screen: OnScreen,
) -> ExitStatus:
    """Say what keeps a recorded session of another agent from going on. Raises Unusable."""
    from loopkernel_adapters.cli.diagnosis import diagnose

    return diagnose(recording, screen, as_json=json, shows_all=everything)


def repair(
    recording: Recording,
    /,
    *,
    out: Annotated[Path, FILE, Parameter(metavar="NEW", help="the file to write, which must not be there")],
    as_log: Annotated[bool, Parameter(help="write a log of loopkernel, for `loopkernel resume`")] = False,
    conversation: Conversation = None,
    screen: OnScreen,
) -> ExitStatus:
    """Write a recorded session anew, without its faults. Raises Unusable."""
    from loopkernel_adapters.cli.repair import repair_recording

    return repair_recording(recording, out, screen, as_log=as_log, conversation=conversation)


def conform(*, options: Annotated[ConformOptions, FLAT] = ConformOptions(), screen: OnScreen) -> ExitStatus:
    """Play any agent through scenarios over its wire, and judge it by the laws. Raises Unusable."""
    from loopkernel_adapters.cli.conform import conform

    return conform(options, screen)
