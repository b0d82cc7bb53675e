"""What can be typed behind `loopkernel conform`. Imports nothing of the loop."""

from pathlib import Path
from typing import Annotated, Literal

from attrs import frozen
from cyclopts import Parameter

from loopkernel_adapters.cli import argument_values as values
from loopkernel_adapters.cli.argument_values import one
from loopkernel_adapters.cli.options import NameOrFile
from loopkernel_adapters.cli.parameters import FILE

CONTRACT = "contract"  # in the place of a path: the scenarios that are installed
_NUMBER = Parameter(metavar="N", converter=one(values.number))


@frozen(kw_only=True)
class ConformOptions:
    """What is played, how, and where its scorecard goes."""

    agent: Annotated[
        NameOrFile | None,
        Parameter(
            metavar="FILE|NAME",
            converter=one(str),
            help="the agent file, or the name of one that is shipped, as `codex` (docs/conformance)",
        ),
    ] = None
    scenarios: Annotated[
        NameOrFile | None,
        Parameter(
            metavar=f"FILE|DIR|{CONTRACT}",
            converter=one(str),
            help="in place of the catalogue, what can be played from outside of scenarios in the format of "
            f"specs/scenarios; `{CONTRACT}`: of those there, each kind once",
        ),
    ] = None
    list: Annotated[bool, Parameter(help="list the scenarios, and play none")] = False
    only: Annotated[tuple[str, ...], Parameter(metavar="SCENARIO", help="play this one alone; may be given again")] = ()
    quick: Annotated[bool, Parameter(help="leave out the scenarios that take a minute and more")] = False
    jobs: Annotated[int, _NUMBER, Parameter(help="how many are played at a time (2)")] = 2
    repeat: Annotated[int, _NUMBER, Parameter(help="play all of them so many times (1)")] = 1
    trace: Annotated[bool, Parameter(help="show what was seen in each scenario, broken or not")] = False
    html: Annotated[Path | None, FILE, Parameter(help="also write the scorecard as a page")] = None
    junit: Annotated[Path | None, FILE, Parameter(help="also write it as JUnit XML")] = None
    report: Annotated[Path | None, FILE, Parameter(help="also write it as JSON")] = None
    json: Annotated[bool, Parameter(help="show it as one JSON document")] = False
    fail_on: Annotated[
        Literal["must", "should", "noted", "nothing"],
        Parameter(help="from which weight on a breach makes the exit status 1 (must)"),
    ] = "must"
