"""Rules, laws, tests and scenarios name each other: every built rule is held by both, and no name is of nothing."""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache

import pytest
import yaml
from loopkernel.laws import LAWS, Law, LawKind

from scripts.held_by import holders
from tests.architecture.sources import ROOT, Source, all_sources, demand_none, dotted, faults_in
from tests.specs.rule_documents import Rule, RuleStatus, rules

SCENARIOS = ROOT / "specs" / "scenarios"
LAWS_PAGE = ROOT / "specs" / "laws.md"

# Rules about what no trace of a scenario shows. Tests alone hold them.
BEYOND_SCENARIOS = {
    "STATE-1": "what classes the states are",
    "DELTA-7": "the version of a state, which no trace line prints",
    "INFER-15": "opaque blocks, which no scripted model gives",
    "TOOL-12": "secrets in events, of which a trace shows no content",
}

_CLAUSE = re.compile(r"^([0-9]+)\. ", re.MULTILINE)
_LAW = re.compile(
    r"^### (?P<id>[A-Z-]+) — \S.*\n\nKind: (?P<kind>[a-z]+)\n(?:\nNot judged yet: (?P<not_yet>[^\n]+)\.\n)?",
    re.MULTILINE,
)


# --- who cites what -------------------------------------------------------------------------------------


def citations(source: Source) -> Iterator[tuple[str, ast.Call]]:
    """Each id in a mark `pytest.mark.rule(...)` of the source, wherever the mark stands."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and dotted(node.func) == "pytest.mark.rule":
            for argument in node.args:
                cited = argument.value if isinstance(argument, ast.Constant) else None
                yield (cited if isinstance(cited, str) else "", node)


def sources_of_tests() -> tuple[Source, ...]:
    """The tests."""
    return tuple(source for source in all_sources() if source.within("tests"))


@cache
def known_rules() -> dict[str, Rule]:
    """The rules, read once for all that cite them."""
    return rules()


def rule_fault(cited: str, known: dict[str, Rule]) -> str | None:
    """What is wrong with the id of a rule, or of a clause of one (`TOOL-7.2`); None if it exists."""
    rule_id, _, clause = cited.partition(".")
    if rule_id not in known:
        return f"there is no rule {cited!r}"
    if clause and clause not in _CLAUSE.findall(known[rule_id].text):
        return f"{rule_id} has no clause {clause}"
    return None


def citation_faults(source: Source) -> Iterator[str]:
    """Marks of rules that do not exist."""
    for cited, node in citations(source):
        fault = rule_fault(cited, known_rules())
        if fault is not None:
            yield source.at(node, fault)


@cache
def scenarios() -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """The file, the name and the cited ids of each scenario."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the compiled one reads ten times as fast
    return tuple(
        (path.name, document["scenario"], tuple(document["rules"]))
        for path in sorted(SCENARIOS.rglob("*.yaml"))
        for document in yaml.load_all(path.read_text(encoding="utf-8"), loader)
    )


def is_built(rule: Rule) -> bool:
    """Whether the rule holds today."""
    return rule.status is not RuleStatus.NOT_BUILT


def without_citation(cited: Iterable[str], known: dict[str, Rule], beside: Iterable[str] = ()) -> list[str]:
    """The built rules that are not among the cited ids, nor among those beside them."""
    held = {name.partition(".")[0] for name in cited} | set(beside)
    return [rule.id for rule in known.values() if is_built(rule) and rule.id not in held]


def laws_of(page: str) -> dict[str, tuple[str, str | None]]:
    """The laws of a page: the kind of each, and why it is not judged yet, None if it is."""
    return {found["id"]: (found["kind"], found["not_yet"]) for found in _LAW.finditer(page)}


# --- rules ----------------------------------------------------------------------------------------------


def test_every_rule_that_a_test_cites_exists() -> None:
    demand_none(faults_in(sources_of_tests(), citation_faults))


def test_every_rule_that_a_scenario_cites_exists() -> None:
    laws = {law.id for law in LAWS}
    demand_none(
        f"{file}: {name}: {fault}"
        for file, name, cited in scenarios()
        for one in cited
        if one not in laws and (fault := rule_fault(one, known_rules())) is not None
    )


def test_every_built_rule_is_held_by_a_test() -> None:
    cited = [cited for source in sources_of_tests() for cited, _ in citations(source)]
    demand_none(without_citation(cited, rules()))


def test_every_built_rule_is_held_by_a_scenario() -> None:
    cited = [one for _, _, ids in scenarios() for one in ids]
    demand_none(without_citation(cited, rules(), BEYOND_SCENARIOS))


def test_what_is_beyond_scenarios_is_built_and_not_cited_by_any() -> None:
    known = rules()
    assert [rule for rule in BEYOND_SCENARIOS if not is_built(known[rule])] == []
    assert BEYOND_SCENARIOS.keys() & {one for _, _, cited in scenarios() for one in cited} == set()


def test_a_scenario_has_a_name_of_its_own() -> None:
    names = [name for _, name, _ in scenarios()]
    assert [name for name in names if names.count(name) > 1] == []


def test_the_script_lists_what_holds_a_rule() -> None:
    held_by = list(holders("LIMIT-1"))
    told = {f"specs/scenarios/{file}: {name}" for file, name, cited in scenarios() if "LIMIT-1" in cited}
    assert {place for place in held_by if ".yaml" in place} == told
    assert any(place.startswith("tests/kernel/") for place in held_by)
    assert list(holders("NO-1")) == []


# --- laws -----------------------------------------------------------------------------------------------


def test_the_laws_of_the_page_are_those_of_the_code() -> None:
    page = {name: kind for name, (kind, _) in laws_of(LAWS_PAGE.read_text(encoding="utf-8")).items()}
    assert page == {law.id: law.kind.value for law in LAWS}
    assert len(page) == len(LAWS)


def test_the_page_says_which_laws_are_not_judged_yet_and_why() -> None:
    page = {name: why for name, (_, why) in laws_of(LAWS_PAGE.read_text(encoding="utf-8")).items()}
    assert page == {law.id: law.not_yet for law in LAWS}


def test_the_rules_of_a_law_exist() -> None:
    demand_none(law_faults(LAWS))


def law_faults(laws: Iterable[Law]) -> Iterator[str]:
    """Rules of laws that do not exist, judged laws that rest on nothing built, laws not judged that could be."""
    known = rules()
    for law in laws:
        yield from (f"{law.id}: {fault}" for cited in law.rules if (fault := rule_fault(cited, known)) is not None)
        if law.not_yet is None and not any(is_built(known[cited]) for cited in law.rules if cited in known):
            yield f"{law.id} is judged, and rests on no rule that is built"
        built = all(cited in known and is_built(known[cited]) for cited in law.rules)
        if law.not_yet is not None and law.kind is not LawKind.COST and built:
            yield f"{law.id} is not judged ({law.not_yet}), and all of its rules are built: {', '.join(law.rules)}"


# --- and each check can fail ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        '@pytest.mark.rule("TOOL-99")\ndef test_a(): pass\n',
        '@pytest.mark.rule("TOOL-7.99")\ndef test_a(): pass\n',
        '@pytest.mark.rule("TOOL-7", "NO-1")\nclass TestA: pass\n',
        'pytestmark = [pytest.mark.rule("tool-7")]\n',
        'x = [pytest.param(1, marks=pytest.mark.rule("TOOL"))]\n',
        "@pytest.mark.rule(NAME)\ndef test_a(): pass\n",
    ],
)
def test_a_citation_of_nothing_is_found(text: str) -> None:
    assert len(list(citation_faults(Source.of(text)))) == 1


def test_a_citation_is_read_wherever_it_stands() -> None:
    text = (
        '@pytest.mark.rule("TOOL-7", "TOOL-8.1")\nasync def test_a(): pass\npytestmark = pytest.mark.rule("STATE-1")\n'
    )
    assert sorted(cited for cited, _ in citations(Source.of(text))) == ["STATE-1", "TOOL-7", "TOOL-8.1"]


def test_a_built_rule_without_citation_is_found() -> None:
    built = {rule.id: rule for rule in rules().values() if is_built(rule)}
    assert without_citation([], built) == list(built)
    assert without_citation(["TOOL-7.2", *(name for name in built if name != "TOOL-7")], built) == []
    assert without_citation((name for name in built if name != "TOOL-7"), built) == ["TOOL-7"]
    assert without_citation((name for name in built if name != "TOOL-7"), built, ["TOOL-7"]) == []


def test_the_laws_of_a_page_are_read() -> None:
    page = (
        "### ONE-END — A call ends\n\nKind: trace\n\nText.\n\n### CUT — Cuts\n\nKind: pair\n\nNot judged yet: soon.\n"
    )
    assert laws_of(page) == {"ONE-END": ("trace", None), "CUT": ("pair", "soon")}


def test_a_law_of_no_rule_is_found() -> None:
    no_rule = Law(id="A", kind=LawKind.STEP, statement="", rules=("NO-1", "STATE-1"))
    no_rules = Law(id="B", kind=LawKind.STEP, statement="", rules=())
    late = Law(id="C", kind=LawKind.STEP, statement="", rules=("STATE-1",), not_yet="phases are not built")
    for law in (no_rule, no_rules, late):
        assert len(list(law_faults((law,)))) == 1


def test_the_pages_and_scenarios_are_found() -> None:
    assert len(scenarios()) > 100
    assert len(laws_of(LAWS_PAGE.read_text(encoding="utf-8"))) > 20
    assert len([cited for source in sources_of_tests() for cited in citations(source)]) > 20
