"""No text is cut in the tools, the providers and the driver but through the one door, where secrets are hidden first.

A cut is a slice that leaves an end out (`text[:n]`, `text[-n:]`, `text[a:b]`), the deletion of one, a part of what was
split, or a shortening by `textwrap`. The places that cut something else are listed, each with what it is that they cut.
"""

import ast
from collections.abc import Iterator

import pytest

from tests.architecture.sources import Source, adapters, demand_none

ROOMS = tuple(f"loopkernel_adapters.{room}" for room in ("tools", "providers", "driver", "secret_filter"))

# Module and function of each cut that cuts no text from outside, or one in which secrets are hidden already.
ALLOWED: dict[tuple[str, str], str] = {
    ("driver.asyncio_driver", "send"): "the address of a sub-agent",
    ("driver.asyncio_driver", "state_of"): "the address of a sub-agent",
    ("driver.log_writer", "taken_up_from"): "a list of records",
    ("secret_filter", "_apart"): "hides by itself; nothing is left out",
    ("secret_filter", "_piece"): "hides by itself; nothing is left out",
    ("providers.anthropic.request", "_free_id"): "the id of a call",
    ("providers.anthropic.request", "_lost_server_items"): "a list of messages",
    ("providers.anthropic.request", "_mark_for_cache"): "a list of messages",
    ("providers.wire_bounds", "__aiter__"): "the bytes of an error, hidden at the cut as well",
    ("providers.openai.chat", "whole"): "a list of calls",
    ("providers.scripted", "read_script"): "a list of faults",
    ("providers.shown_media", "_url"): "looked at, to tell the type of an image",
    ("providers.shown_media", "shown"): "what is sent to the model, which is hidden already",
    ("providers.wire_names", "_free_name"): "the name of a tool",
    ("providers.wire_errors", "_without"): "the quotation marks around a key that is hidden",
    ("tools.output_bounds", "_keep"): "hidden before it is kept",
    ("tools.output_bounds", "last_line"): "hidden before it was kept",
    ("tools.output_bounds", "text"): "hidden before it was kept",
    ("tools.docstrings", "_of_section"): "the docstring of a tool",
    ("tools.editing", "_lines_of"): "a list of numbers",
    ("tools.files", "names"): "a list of names",
    ("tools.files", "read"): "hidden as it was read",
    ("tools.functions", "first_line"): "the words of a library on a function, when it is made a tool",
    ("tools.functions_faults", "_replaced"): "a list of values",
    ("tools.functions_faults", "faults_of"): "a path, and the first letter of words",
    ("tools.input_schema", "_leads_somewhere"): "a reference of a schema",
    ("tools.mcp", "tool_name"): "the name of a tool",
    ("tools.pattern_search", "matches"): "hidden before it is searched",
    ("tools.input_schema", "_listed"): "a list of options",
    ("tools.process_keeper", "children"): "what the system tells of a process",
    ("tools.process_keeper", "main"): "the arguments of a program",
    ("tools.reading", "_bound"): "hidden before it is kept",
    ("tools.reading", "take"): "whole lines, each of which is hidden by itself",
    ("tools.registry", "_told"): "a list of faults",
    ("tools.spilling", "_first"): "hidden before it was kept",
    ("tools.spilling", "_last"): "hidden before it was kept",
    ("tools.spilling", "write"): "hidden before it is written",
    ("tools.searching", "find_files"): "a path below a folder, and a list of paths",
    ("tools.searching", "find_lines"): "a path below a folder",
}


def cuts(source: Source) -> Iterator[tuple[str, int]]:
    """The function and the line of each cut."""

    def walk(node: ast.AST, within: str) -> Iterator[tuple[str, int]]:
        for child in ast.iter_child_nodes(node):
            inner = child.name if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else within
            if _is_cut(child):
                yield within, getattr(child, "lineno", 0)
            yield from walk(child, inner)

    return walk(source.tree, "")


def _is_cut(node: ast.AST) -> bool:
    match node:
        case ast.Subscript(slice=ast.Slice(lower=None, upper=None)):
            return False
        case ast.Subscript(slice=ast.Slice(lower=lower, upper=upper), ctx=ctx):
            return not isinstance(ctx, ast.Store) and (upper is not None or lower is not None)
        case ast.Subscript(value=ast.Call(func=ast.Attribute(attr=attr))):
            return attr in ("partition", "rpartition", "split", "rsplit", "splitlines")
        case ast.Attribute(value=ast.Name(id="textwrap")) | ast.ImportFrom(module="textwrap"):
            return True
        case _:
            return False


def guarded() -> Iterator[tuple[Source, str]]:
    for source in adapters():
        if source.module.startswith(ROOMS):
            yield source, source.module.removeprefix("loopkernel_adapters.")


def test_no_text_is_cut_but_through_the_one_door() -> None:
    demand_none(
        f"{source.path}:{line}: {function or 'the module'} cuts: go through bounded_text.py, or say what it is"
        for source, module in guarded()
        for function, line in cuts(source)
        if (module, function) not in ALLOWED
    )


def test_every_exception_is_still_needed() -> None:
    found = {(module, function) for source, module in guarded() for function, _ in cuts(source)}
    assert ALLOWED.keys() - found == set()


@pytest.mark.parametrize(
    "line",
    [
        "told = text[:100]",
        "told = text[-100:]",
        "told = text[5:]",
        "told = text[5:100]",
        "del text[100:]",
        "told = text.partition('\\n')[0]",
        "told = text.splitlines()[0]",
        "told = text.split()[0]",
        "import textwrap\ntold = textwrap.shorten(text, 100)",
        "from textwrap import shorten",
    ],
)
def test_a_cut_is_found(line: str) -> None:
    body = line.replace("\n", "\n    ")
    source = Source.of(f"def inner(text):\n    {body}\n", "loopkernel_adapters.tools.novel")
    assert [function for function, _ in cuts(source)] == ["inner"]


def test_what_leaves_nothing_out_is_no_cut() -> None:
    source = Source.of("def inner(text):\n    return text[0], text[:], text['a'], text.strip()\n", "novel")
    assert list(cuts(source)) == []
