"""What several commands take besides their options: what a run or a recording is named by, and how they are shown."""

from pathlib import Path
from typing import Annotated, TypeAlias

from cyclopts import Parameter

from loopkernel_adapters.cli import argument_values as values
from loopkernel_adapters.cli.argument_values import each, one
from loopkernel_adapters.cli.options import NAMED_POLICIES, NameOrFile
from loopkernel_adapters.cli.screen import Screen

FLAT = Parameter(name="*")  # each field of the options is an option by itself
NAME = Parameter(converter=one(values.name))
FILE = Parameter(metavar="FILE", converter=one(values.path))
POLICY = Parameter(metavar="NAME|FILE", converter=one(values.name))
POLICIES = Parameter(name="--policy", metavar="NAME|FILE", converter=each(values.name))
ABOUT_RUN = "the id of a run, as `loopkernel runs` lists it, the beginning of one, `last`, or the path of a log"

OnScreen: TypeAlias = Annotated[Screen, Parameter(parse=False)]
Run: TypeAlias = Annotated[str, NAME, Parameter(help=ABOUT_RUN)]
Recordings: TypeAlias = Annotated[
    NameOrFile,
    NAME,
    Parameter(required=True, help=f"{ABOUT_RUN}; or recordings of other agents: files, folders, patterns"),
]
Recording: TypeAlias = Annotated[
    Path, FILE, Parameter(help="a recorded session of Claude Code, Codex and others, in whatever format")
]
Conversation: TypeAlias = Annotated[
    str | None, NAME, Parameter(metavar="NAME", help="which conversation of it, as diagnose names it (the main one)")
]
NamedPolicy: TypeAlias = Annotated[NameOrFile, NAME, Parameter(help=f"{NAMED_POLICIES}, or the file of a policy")]
