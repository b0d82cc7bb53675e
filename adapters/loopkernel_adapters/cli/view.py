"""`loopkernel view RUN|RECORDING`: a page that shows a run, or two side by side; or a server for one that goes on."""

import contextlib
import itertools
import re
from collections.abc import Sequence
from pathlib import Path

from loopkernel_adapters.cli.going_on import GoingOn
from loopkernel_adapters.cli.outcomes import ExitStatus, Unusable
from loopkernel_adapters.cli.repair import demand_new, written_in_words
from loopkernel_adapters.cli.rules import named_policy
from loopkernel_adapters.cli.screen import Screen
from loopkernel_adapters.cli.viewed import live_run, two_policies, two_runs, viewed
from loopkernel_adapters.cli.words import counted
from loopkernel_adapters.stores.durable_files import write_new_file
from loopkernel_adapters.viewing.document import document_of
from loopkernel_adapters.viewing.page import page_of
from loopkernel_adapters.viewing.serving import ViewServer

LONGEST_NAME = 60
_NO_NAME = re.compile(r"[^A-Za-z0-9_-]+")


def view(
    names: Sequence[str],
    store: str | None,
    policies: Sequence[str],
    html: Path | None,
    screen: Screen,
    *,
    serves: bool,
) -> ExitStatus:
    """Make the page. Raises Unusable where that cannot be."""
    _demand_usage(names, policies, serves=serves)
    if serves:
        return _serve(names[0], store, screen)
    if html is not None:
        demand_new(html, "--html")
    sides = None
    if len(names) == 2:
        documents, sides = two_runs(names, store)
    elif policies:
        documents, sides = two_policies(names[0], store, [(name, named_policy(name)) for name in policies])
    else:
        documents = [*viewed(names[0], store).documents]
    path = _free_name(names[0]) if html is None else html
    page = page_of(document_of(" and ".join(names), documents, sides)).encode()
    with written_in_words(path, "--html"):
        write_new_file(path, [page])
    steps = sum(document.length for document in documents)
    notes = sum(len(document.notes) for document in documents)
    screen.labelled("shown", f"{counted(steps, 'step')}, {counted(notes, 'finding')}")
    if sides is not None:
        screen.labelled("", sides.text)
    screen.labelled("page", f"{path} ({len(page) // 1000} kB); open it in a browser, it needs nothing else")
    return ExitStatus.NATURAL_END


def _serve(name: str, store: str | None, screen: Screen) -> ExitStatus:
    """Show it until Ctrl-C."""
    with GoingOn(name, store) as going_on, ViewServer(live_run(name, store, going_on.answer)) as server:
        screen.labelled("page", server.address)
        screen.labelled(
            "", "open it in a browser of this machine; whoever has the address can read the run, and answer"
        )
        screen.labelled("", "what waits for a person can be answered in it, and then goes on here; Ctrl-C ends it")
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()
    return ExitStatus.NATURAL_END


def _demand_usage(names: Sequence[str], policies: Sequence[str], *, serves: bool) -> None:
    if len(names) > 2:
        raise Unusable(f"view takes one run, or two side by side, not {len(names)}; `whatif` takes many")
    if len(policies) > 2:
        raise Unusable(f"view shows one run under one policy or two, not {len(policies)}; leave some out")
    if len(names) == 2 and policies:
        raise Unusable("view shows two runs, or one run under other policies; leave out a run, or --policy")
    if serves and (len(names) == 2 or policies):
        raise Unusable("--serve shows one run as it goes on; write two side by side to a page with --html")


def _free_name(name: str) -> Path:
    """A file in this folder that is named as the run and is not there yet."""
    told = _NO_NAME.sub("-", Path(name).stem).strip("-")[:LONGEST_NAME] or "run"
    names = itertools.chain((f"{told}.html",), (f"{told}-{number}.html" for number in itertools.count(2)))
    return next(path for path in map(Path, names) if not path.exists() and not path.is_symlink())
