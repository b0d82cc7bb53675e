"""`loopkernel conform --agent FILE`: an agent of any make, played through the scenarios and judged by the laws."""

import datetime
import json
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from loopkernel_adapters.cli.conform_options import CONTRACT, ConformOptions
from loopkernel_adapters.cli.invocation import command
from loopkernel_adapters.cli.outcomes import ExitStatus, Unusable, complain
from loopkernel_adapters.cli.progress import Progress
from loopkernel_adapters.cli.repair import written_in_words
from loopkernel_adapters.cli.screen import Screen
from loopkernel_adapters.conform.agent_file import AgentFileUnusable, agent_of, agent_text, shipped
from loopkernel_adapters.conform.catalogue import SCENARIOS
from loopkernel_adapters.conform.running import Found, card_of, run_all, version_of
from loopkernel_adapters.conform.scenario import Scenario
from loopkernel_adapters.conform.scorecard import Scorecard, Weight
from loopkernel_adapters.conform.scorecard_html import page_of
from loopkernel_adapters.conform.scorecard_json import document_of
from loopkernel_adapters.conform.scorecard_junit import junit_of
from loopkernel_adapters.conform.scorecard_text import lines_of
from loopkernel_adapters.stores.durable_files import write_new_file


def conform(options: ConformOptions, screen: Screen) -> ExitStatus:
    """Play, judge, and show it. Raises Unusable where nothing can be played."""
    known = SCENARIOS if options.scenarios is None else _scenarios_at(str(options.scenarios))
    if options.list:
        for each in known:
            made_for = f" ({', '.join(each.laws)})" if each.laws else ""
            screen.line(f"{each.name:<26} {each.about}{made_for}")
        return ExitStatus.NATURAL_END
    if options.agent is None:
        raise Unusable(f"conform judges an agent; name its file with --agent, or one of {', '.join(shipped())}")
    named = str(options.agent)
    place = () if options.scenarios is None else ("--scenarios", str(options.scenarios))
    scenarios = _chosen(known, options.only, place, quick=options.quick) * max(1, options.repeat)
    try:
        text = agent_text(named)
        agent = agent_of(text)
        version = version_of(agent)
    except AgentFileUnusable as error:
        raise Unusable(str(error)) from error
    found = run_all(
        text,
        scenarios,
        again=lambda scenario: command("conform", "--agent", named, *place, "--only", scenario.name),
        jobs=max(1, options.jobs),
        tell=_progress(len(scenarios)),
    )
    card = card_of(agent, version, datetime.date.today().isoformat(), found)
    if options.trace:
        _show_traces(found, screen)
    if options.json:
        screen.line(json.dumps(document_of(card)))
    else:
        for line in lines_of(card):
            screen.line(line)
    _write(card, options)
    if all(each.skipped for each in card.scenarios):
        raise Unusable("no scenario could be played, for the reasons above")
    return _status(card, options.fail_on)


def _scenarios_at(place: str) -> tuple[Scenario, ...]:
    """Those that can be played of the contract, or of a file or folder in its format. Raises Unusable."""
    try:
        from loopkernel_adapters.conform.contract import ScenariosUnusable, contract_scenarios
    except ModuleNotFoundError as error:
        raise Unusable(f"{error.name} reads scenarios: pip install 'loopkernel[testing]'") from error
    try:
        found = contract_scenarios(None if place == CONTRACT else Path(place))
    except ScenariosUnusable as error:
        raise Unusable(f"--scenarios: {error}") from error
    if not found:
        raise Unusable(f"{place} has no scenario that can be played from outside, and is not in the catalogue")
    return found


def _chosen(
    scenarios: Sequence[Scenario], names: Sequence[str], place: tuple[str, ...], *, quick: bool
) -> list[Scenario]:
    known = {each.name: each for each in scenarios}
    for name in names:
        if name not in known:
            raise Unusable(f"there is no scenario {name!r}; `{command('conform', *place, '--list')}` lists them")
    return [known[name] for name in names] if names else [each for each in scenarios if each.quick or not quick]


def _progress(total: int) -> Callable[[Found], None]:
    """Tells a person who waits, on the standard error, which scenario has ended and how."""
    lock, done, progress = threading.Lock(), [0], Progress(total)
    progress.at(0, "")

    def tell(found: Found) -> None:
        with lock:
            done[0] += 1
            if found.trouble:
                how = f"not played: {found.trouble}"
            else:
                how = "; ".join(f"{each.law} is broken: {each.detail}" for each in found.breaches) or "held"
            progress.clear()
            complain(f"{done[0]} of {total}: {found.scenario.name}: {how}")
            if done[0] < total:
                progress.at(done[0], "")

    return tell


def _show_traces(found: Sequence[Found], screen: Screen) -> None:
    for each in found:
        screen.line(f"{each.scenario.name}: {each.scenario.about}")
        for line in each.trace:
            screen.line(f"  {line}")
        screen.line()


def _write(card: Scorecard, options: ConformOptions) -> None:
    forms = {
        "html": (options.html, page_of),
        "junit": (options.junit, junit_of),
        "report": (options.report, lambda card: json.dumps(document_of(card), indent=1) + "\n"),
    }
    for name, (path, form) in forms.items():
        if path is not None:
            with written_in_words(path, f"--{name}"):
                path.unlink(missing_ok=True)  # a scorecard takes the place of the one before
                write_new_file(path, [form(card).encode()])


def _status(card: Scorecard, fail_on: str) -> ExitStatus:
    order = [*Weight]
    if card.worst is None or fail_on == "nothing":
        return ExitStatus.NATURAL_END
    broken = order.index(card.worst) <= order.index(Weight(fail_on))
    return ExitStatus.OTHER_END if broken else ExitStatus.NATURAL_END
