"""The page of `--json`: its schema holds for all that is written, and its client works as it stands there."""

import json
import re
import sys
from pathlib import Path

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.adapters.cli.sessions import CHAT, MODEL, CommandLine, Ended, calls, says, script, writes

DOCS = Path(__file__).parents[3] / "docs"
PAGE = (DOCS / "json-protocol.md").read_text(encoding="utf-8")
SCHEMA = json.loads((DOCS / "json-protocol.schema.json").read_text(encoding="utf-8"))
LINES = jsonschema.Draft202012Validator(SCHEMA)
YES = '{"call": "1.1", "answer": "yes"}'


def held(ended: Ended) -> list[dict[str, object]]:
    """The lines, each of which the schema knows; the run is the first, and the result the last and only one."""
    lines = ended.objects()
    for line in lines:
        LINES.validate(line)
    assert [line["type"] for line in lines].count("result") == 1
    assert lines[-1]["type"] == "result"
    assert lines[-1]["status"] == ended.status
    return lines


def test_the_schema_is_one_and_names_what_the_page_names() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    on_the_page = set(re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)) - {"type"}  # the head of the table
    lines = [part for part in SCHEMA["$defs"].values() if "properties" in part]
    assert on_the_page == {part["properties"]["type"]["const"] for part in lines}
    for name, part in SCHEMA["$defs"].items():
        for field in part.get("properties", {}):
            assert f"`{field}`" in PAGE, f"the page does not tell of {field} of {name}"


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (("run", "go", *MODEL), (YES,)),
        (("run", "go", *MODEL), ()),
        (("run", "go", *MODEL, "--approve", "never"), ()),
        ((*CHAT,), ("go", "what?", YES, "/queue", "/quit")),
        (("run", "go", "--model", "oracle:x"), ()),
        (("run", "go", *MODEL, "--policy", "absent"), ()),
    ],
)
def test_whatever_is_written_is_known_to_the_schema(
    loopkernel: CommandLine, arguments: tuple[str, ...], lines: tuple[str, ...]
) -> None:
    script({"text": "Look.", **writes("a")}, calls("nothing"), {"fails": "auth", "message": "bad key"})
    held(loopkernel(*arguments, "--json", lines=lines))


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(line=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r"), max_size=12))
def test_no_line_that_is_not_an_answer_is_one(loopkernel: CommandLine, line: str) -> None:
    Path("a").unlink(missing_ok=True)
    script(writes("a"), says("Done."))
    lines = held(loopkernel("run", "go", *MODEL, "--json", lines=(line,)))
    assert not Path("a").exists()
    assert [line["type"] for line in lines].count("ask") == 2


def test_the_client_of_the_page_works_as_it_stands_there(tmp_path: Path) -> None:
    """It knows nothing but the page: the program is cut out of it, and run."""
    import subprocess

    (tmp_path / "client.py").write_text(PAGE.split("```python\n")[1].split("```")[0])
    (tmp_path / "s.json").write_text(json.dumps([writes("a", "hello"), says("It is written.")]))
    ended = subprocess.run(
        [sys.executable, "client.py", "scripted:s.json"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "It is written.\n", "")
    assert (tmp_path / "a").read_text() == "hello"
