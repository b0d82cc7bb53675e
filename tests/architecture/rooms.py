"""Which room of the tree may import which, how long a file may be, and how each is looked for."""

import ast
import graphlib
import re
import sys
from collections.abc import Iterator
from pathlib import PurePosixPath

from tests.architecture.sources import (
    Source,
    functions,
    imports,
)

MAX_LINES = 600  # of a file: 400 is where to think
MAX_FUNCTION_LINES = 60

# The rooms of the loop from the bottom up: each may import those before it, and the data.
LOOP = ("algorithms", "draft", "gates", "history", "calls", "turn", "life", "phases", "transition")
_LOOP_ROOMS = tuple(f"loopkernel.loop.{room}" for room in LOOP)
# What each room of the kernel may import of the kernel. A module on its own is a room of its own.
_SEEN_FROM_OUTSIDE = tuple(
    f"loopkernel.{part}"
    for part in ("data", "loop.algorithms", "loop.transition", "machine", "presets", "replaying", "views")
)
NAMESPACES = ("states", "deltas", "effects", "events", "policy", "tools", "messages")  # of public names, no more
MAY_IMPORT: dict[str, tuple[str, ...]] = {
    "loopkernel": ("loopkernel",),
    "loopkernel.public_names": (),
    **{f"loopkernel.{namespace}": _SEEN_FROM_OUTSIDE for namespace in NAMESPACES},
    "loopkernel.later_typing": (),
    "loopkernel.data": ("loopkernel.data", "loopkernel.later_typing"),
    "loopkernel.loop": (),
    **{room: ("loopkernel.data", *_LOOP_ROOMS[: place + 1]) for place, room in enumerate(_LOOP_ROOMS)},
    "loopkernel.views": ("loopkernel.data", "loopkernel.later_typing", "loopkernel.loop", "loopkernel.views"),
    "loopkernel.replaying": ("loopkernel.data", "loopkernel.loop.transition"),
    "loopkernel.machine": (
        "loopkernel.data",
        "loopkernel.loop.transition",
        "loopkernel.replaying",
        "loopkernel.views.deadlines",
    ),
    # What judges knows nothing of what decides: what it needs of the kernel under judgement it is given.
    "loopkernel.laws": ("loopkernel.codec", "loopkernel.data", "loopkernel.later_typing", "loopkernel.laws"),
    "loopkernel.judging": (
        "loopkernel.data",
        "loopkernel.laws",
        "loopkernel.loop.algorithms",
        "loopkernel.loop.transition",
        "loopkernel.replaying",
        "loopkernel.views",
    ),
    "loopkernel.codec": ("loopkernel.codec", "loopkernel.data"),
    "loopkernel.presets": ("loopkernel.data", "loopkernel.presets"),
    "loopkernel.testing": ("loopkernel",),
}
# Parts of a permitted room that are closed all the same.
KNOWS_STATES = ("loopkernel.data.states", "loopkernel.data.steps", "loopkernel.data.records")
KNOWS_PARTS_OF_STATES = tuple(
    f"loopkernel.data.{part}" for part in ("effects", "endings", "events", "ledgers", "operations", "sessions")
)
# One phase knows nothing of another's handler: what several share stands in a module of its own.
HANDLERS = tuple(
    f"loopkernel.loop.phases.{phase}"
    for phase in (
        "at_rest",
        "backoff",
        "compacting",
        "executing",
        "finishing",
        "handing_off",
        "initial",
        "streaming",
        "thinking",
    )
)
MAY_NOT_IMPORT: dict[str, tuple[str, ...]] = {
    "loopkernel.loop.algorithms": KNOWS_STATES + KNOWS_PARTS_OF_STATES,
    **{f"loopkernel.loop.{room}": KNOWS_STATES for room in ("draft", "gates", "history", "calls", "turn", "life")},
    "loopkernel.loop.phases": ("loopkernel.data.records", *HANDLERS),
}
# What the shell sees of the kernel: no handler and no region, so that it cannot decide what happens next.
OPEN_TO_ADAPTERS = (
    "loopkernel.codec",
    "loopkernel.data",
    "loopkernel.views.explain",
    "loopkernel.judging",
    "loopkernel.later_typing",
    "loopkernel.laws",
    "loopkernel.machine",
    "loopkernel.loop.algorithms.beginnings",
    "loopkernel.loop.algorithms.budget",
    "loopkernel.loop.algorithms.interaction",
    "loopkernel.loop.algorithms.projection",
    "loopkernel.loop.algorithms.redaction",
    "loopkernel.loop.algorithms.references",
    "loopkernel.loop.algorithms.repair",
    "loopkernel.loop.algorithms.retry",
    "loopkernel.presets",
    "loopkernel.public_names",
    "loopkernel.views.deadlines",
    "loopkernel.views.event_text",
    "loopkernel.views.receipts",
    "loopkernel.views.table",
    "loopkernel.views.waiting",
    "loopkernel.views.waits",
    "loopkernel.replaying",
    "loopkernel.loop.transition",
)
# What plays scenarios on a driver, or makes worlds of them for agents, is of the extra `testing`, as they are.
FUZZING = ("loopkernel_adapters.conform.contract", "loopkernel_adapters.testing.fuzzing")
OPEN_TO_FUZZING = ("loopkernel.testing",)
FOREIGN_TO_FUZZING = {"hypothesis"}  # the state machine
# All that the pure kernel imports from outside, and what for.
FOREIGN_TO_THE_KERNEL = {
    "attrs": "frozen classes",
    "collections": "a thread is put back at its front",
    "collections.abc": "types of parameters",
    "enum": "closed vocabularies",
    "fractions": "money and delays are counted exactly",
    "functools": "codecs are built once, when first asked for",
    "importlib": "public names are imported when they are first asked for",
    "inspect": "which parameters a method has whose copy is written out",
    "itertools": "the leaves of a vector, one after the other",
    "json": "the form of what leaves the process",
    "math": "whether a number is finite",
    "operator": "comparisons as functions",
    "re": "texts are checked by patterns; nothing else is parsed",
    "types": "read-only mappings, and the types of unions",
    "typing": "types",
    "typing_extensions": "known to a type checker; never imported at run time",
}
TYPING_ALONE = "loopkernel.later_typing"  # the one place that names it: it is not installed with the kernel
FOREIGN_TO_TESTING = {"attrs", "hypothesis", "jsonschema", "yaml"}
FOREIGN_TO_ADAPTERS = {"attrs"}
FOREIGN_TO_COMMAND_LINE = {"cyclopts"}  # an extra, and its entry says so where it is missing
FOREIGN_TO_ADAPTER_CHECKS = {"pytest"}
# A vendor's package is an extra. The modules that import it are listed (a name stands for all that begin with it), and
# every other module imports those inside a function, so that all else runs without it.
_ANTHROPIC = "loopkernel_adapters.providers.anthropic"
_OPENAI = "loopkernel_adapters.providers.openai"
_FUNCTIONS = "loopkernel_adapters.tools.functions"
_SCHEMAS = "loopkernel_adapters.tools.input_schema"
_MCP = "loopkernel_adapters.tools.mcp"
_MCP_SERVER = tuple(f"loopkernel_adapters.server.{part}" for part in ("mcp_questions", "mcp_server"))
_TEMPORAL = tuple(
    f"loopkernel_adapters.temporal.{part}"
    for part in ("activities", "remote_children", "remote_operations", "running", "updates", "workflow", "working")
)
_BOUNDED = "loopkernel_adapters.providers.wire_bounds"
# What tells OpenTelemetry; the fold before it knows nothing of that.
_TELEMETRY = tuple(f"loopkernel_adapters.telemetry.{module}" for module in ("exporter", "replayed", "watching"))
_POSTGRES = "loopkernel_adapters.stores.postgres"
_PYDANTIC_AI = "loopkernel_adapters.providers.pydantic_ai"
_ACP = "loopkernel_adapters.acp"
_SERVER = "loopkernel_adapters.server"
# What a person sees and types at a terminal.
_RICH = tuple(f"loopkernel_adapters.cli.{part}" for part in ("markdown_text", "rich_screen"))
_PROMPT = tuple(f"loopkernel_adapters.cli.{part}" for part in ("completing", "prompt_input", "prompt_screen"))
_TERMINAL = (*_RICH, *(f"loopkernel_adapters.cli.{part}" for part in ("under_way", "progress", "usage")))
VENDORS: dict[str, tuple[str, ...]] = {
    "acp": (_ACP, "loopkernel_adapters.cli.acp"),
    "ag_ui": (_SERVER,),
    "anyio": (_MCP,),
    "anthropic": (_ANTHROPIC,),
    "httpx2": (_ANTHROPIC, _OPENAI, _MCP, _BOUNDED),
    "jsonschema": (_SCHEMAS,),
    "markdown_it": _RICH,
    "mcp": (_MCP, *_MCP_SERVER, "loopkernel_adapters.cli.mcp_server"),
    "mcp_types": (_MCP, *_MCP_SERVER),
    "openai": (_OPENAI,),
    "opentelemetry": _TELEMETRY,
    "prompt_toolkit": _PROMPT,
    "psycopg": (_POSTGRES,),
    "pydantic": (_FUNCTIONS, _PYDANTIC_AI, _SERVER),
    "pydantic_ai": (_PYDANTIC_AI, "loopkernel_adapters.providers.named"),
    "pydantic_core": (_FUNCTIONS,),
    "rich": _TERMINAL,
    "starlette": (_SERVER, "loopkernel_adapters.cli.serve"),
    "temporalio": _TEMPORAL,
    "trio": ("loopkernel_adapters.testing.trio_driver",),
    "uvicorn": ("loopkernel_adapters.cli.serve",),
    "xllamacpp": ("loopkernel_adapters.providers.local",),
    "yaml": ("loopkernel_adapters.transcripts.readers.provider_stream",),
}
# These may import their vendor where they like.
VENDOR_MODULES = (
    *(_ANTHROPIC, _OPENAI, _FUNCTIONS, _MCP, _BOUNDED, _ACP, _SERVER, _POSTGRES, _PYDANTIC_AI),
    *_PROMPT,
    *_RICH,
    *_TELEMETRY,
    *_TEMPORAL,
)

BANNED_NAMES = {"util", "utils", "helper", "helpers", "common", "core", "base", "manager", "managers", "misc"}


def room_of(module: str) -> str:
    """The room that a module of the kernel stands in."""
    depth = 3 if module.startswith("loopkernel.loop.") else 2
    return ".".join(module.split(".")[:depth])


def lies_in(module: str, packages: tuple[str, ...]) -> bool:
    """Whether the module is one of the packages, or inside one."""
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def room_faults(source: Source) -> Iterator[str]:
    """Imports from a room of the kernel that this one may not see."""
    room = room_of(source.module)
    if room not in MAY_IMPORT:
        yield f"{source.path}: {room} is a new room: say in MAY_IMPORT what it may import"
        return
    for found in imports(source):
        if found.relative:
            yield source.at(found.node, "a relative import: name the module in full")
        elif lies_in(found.module, ("loopkernel_adapters",)):
            yield source.at(
                found.node, f"the kernel imports {found.module}: the shell depends on it, never the reverse"
            )
        elif lies_in(found.module, ("loopkernel",)) and not _is_open(room, found.module):
            yield source.at(found.node, f"{room} may not import {found.module}")


def _is_open(room: str, module: str) -> bool:
    return lies_in(module, MAY_IMPORT[room]) and not lies_in(module, MAY_NOT_IMPORT.get(room, ()))


def adapter_faults(source: Source) -> Iterator[str]:
    """What the shell imports beyond the standard library, itself, and the open part of the kernel."""
    checks = source.within("loopkernel_adapters.testing")
    open_rooms = (*OPEN_TO_ADAPTERS, *(OPEN_TO_FUZZING if source.within(*FUZZING) else ()))
    known = {"loopkernel_adapters", *FOREIGN_TO_ADAPTERS, *(FOREIGN_TO_ADAPTER_CHECKS if checks else ())}
    known |= FOREIGN_TO_COMMAND_LINE if source.within("loopkernel_adapters.cli") else set()
    known |= FOREIGN_TO_FUZZING if source.within(*FUZZING) else set()
    for found in imports(source):
        name = found.module
        package = name.partition(".")[0]
        at_the_top = found.node in source.tree.body
        if found.relative:
            yield source.at(found.node, "a relative import: name the module in full")
        elif package == "loopkernel":
            if not lies_in(name, open_rooms):
                yield source.at(found.node, f"an adapter may not import {name}")
        elif package in VENDORS:
            if not source.module.startswith(VENDORS[package]):
                yield source.at(found.node, f"{package} is imported in {', '.join(VENDORS[package])} alone")
            elif at_the_top and not source.module.startswith(VENDOR_MODULES):
                yield source.at(found.node, f"{package} is imported inside a function, since much needs this module")
        elif name.startswith(VENDOR_MODULES):
            if at_the_top and not source.module.startswith(VENDOR_MODULES):
                yield source.at(found.node, f"{name} needs an extra: import it inside a function")
        elif package not in {*known, *sys.stdlib_module_names}:
            yield source.at(found.node, f"{package} is not a dependency of the adapters")


def foreign_faults(source: Source) -> Iterator[str]:
    """What the kernel imports from outside, and should not."""
    testing = source.within("loopkernel.testing")
    for found in imports(source):
        package = found.module.partition(".")[0]
        if found.relative or package in ("loopkernel", "loopkernel_adapters"):
            continue
        if testing:
            allowed = package in FOREIGN_TO_TESTING or package in sys.stdlib_module_names
        else:
            allowed = found.module in FOREIGN_TO_THE_KERNEL
        if package == "typing_extensions":
            allowed = source.module == TYPING_ALONE
        if not allowed:
            yield source.at(found.node, f"{found.module} is not on the list of what {room_of(source.module)} imports")


def file_length_faults(source: Source) -> Iterator[str]:
    """Files that are too long."""
    lines = len(source.text.splitlines())
    if lines >= MAX_LINES:
        yield f"{source.path}: {lines} lines; files stay under {MAX_LINES}"


def function_length_faults(source: Source) -> Iterator[str]:
    """Functions that are too long."""
    for function in functions(source):
        length = (function.end_lineno or function.lineno) - function.lineno + 1
        if length >= MAX_FUNCTION_LINES:
            yield source.at(function, f"{function.name} has {length} lines; functions stay under {MAX_FUNCTION_LINES}")


def file_name_faults(source: Source) -> Iterator[str]:
    """Names of files and folders that say nothing of what is inside."""
    for part in PurePosixPath(source.path).with_suffix("").parts:
        for word in re.split(r"[_\W]+", part):
            if word in BANNED_NAMES:
                yield f"{source.path}: {word!r} does not say what it holds"


def opening_faults(source: Source) -> Iterator[str]:
    """A file that does not say what it is for."""
    if not (ast.get_docstring(source.tree) or "").strip():
        yield f"{source.path}:1: does not open with a docstring"


def cycle(sources: tuple[Source, ...]) -> list[str]:
    """Modules that import each other in a circle; empty when there is none."""
    graph = {source.module: {found.module for found in imports(source)} for source in sources}
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        circle: list[str] = error.args[1]
        return circle
    return []
