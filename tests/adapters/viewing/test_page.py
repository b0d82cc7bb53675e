"""The page as a text: its policy fits what it holds, it fetches nothing, and no text of a run stands in it as such."""

import base64
import hashlib
import re
import unicodedata
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.json_text import Json, JsonValue
from loopkernel_adapters.viewing.document import document_of
from loopkernel_adapters.viewing.page import page_of, unpacked
from loopkernel_adapters.viewing.plain import plain
from loopkernel_adapters.viewing.run import Note, RunDocument
from loopkernel_adapters.viewing.shown import one_line, visible

from tests.adapters.viewing.made_runs import HOSTILE, hostile_run, long_run

# What a script could turn a text into something else by.
SINKS = re.compile(
    r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function|srcdoc|createContextualFragment|"
    r"setHTML|DOMParser|\.on[a-z]+ ?=[^=]|importScripts|localStorage|XMLHttpRequest|WebSocket"
)


def hostile_document(*notes: Note) -> dict[str, JsonValue]:
    document = RunDocument(name=HOSTILE[0], kind=HOSTILE[1], notes=[*notes])
    document.take(hostile_run())
    return document_of(HOSTILE[0], [document])


def parts(page: str, tag: str) -> list[tuple[str, str]]:
    return re.findall(rf"<{tag}([^>]*)>(.*?)</{tag}>", page, re.DOTALL)


def policy_of(page: str) -> dict[str, str]:
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    directives = policy.replace("&#x27;", "'").split("; ")
    return dict(directive.split(" ", 1) for directive in directives)


@pytest.mark.parametrize("live", [False, True])
def test_the_policy_lets_run_what_the_page_holds_and_nothing_else(live: bool) -> None:
    page = page_of(hostile_document(), live=live)
    policy = policy_of(page)
    (data, _), (plain_script, script) = parts(page, "script")
    ((_, style),) = parts(page, "style")
    assert 'type="application/json"' in data
    assert plain_script == ""
    assert policy["script-src"] == hash_of(script)
    assert policy["style-src"] == hash_of(style)
    assert policy["default-src"] == "'none'"
    assert policy["connect-src"] == ("'self'" if live else "'none'")
    assert policy["trusted-types"] == "'none'"
    assert "unsafe" not in "".join(policy.values())


def hash_of(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_no_text_of_a_run_stands_in_the_page() -> None:
    page = page_of(hostile_document(Note(kind=HOSTILE[2], text=HOSTILE[3])))
    assert "attacked" not in page.replace(page[page.index("<title>") : page.index("</title>")], "")
    assert "<title>&lt;/script&gt;" in page
    assert len(parts(page, "script")) == 2


def test_the_document_comes_out_of_the_page_as_it_went_in() -> None:
    document = hostile_document()
    ((_, data), _) = parts(page_of(document), "script")
    assert unpacked(data) == document


def test_the_page_names_no_address() -> None:
    page = page_of(hostile_document())
    assert set(re.findall(r"https?://[\w./]+", page)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<(?:link|img|iframe|object|embed)\b|@import|url\((?!#)", page.replace("url(#${", "url(#"))


def test_the_scripts_know_no_way_from_a_text_to_anything_else() -> None:
    found = files("loopkernel_adapters.viewing").joinpath("page")
    scripts = [file for file in found.iterdir() if file.name.endswith(".js")]
    assert len(scripts) > 5
    for script in scripts:
        assert SINKS.findall(script.read_text(encoding="utf-8")) == [], script.name


def test_a_page_of_ten_thousand_steps_is_not_large() -> None:
    document = RunDocument(name="long")
    document.take(long_run(10_000))
    assert document.length >= 10_000
    assert len(page_of(document_of("long", [document]))) < 3_000_000


# --- texts that want to be seen otherwise -----------------------------------------------------------------

ALLOWED_CONTROLS = frozenset("\n\t")
JOINERS = frozenset("\u200c\u200d")


def hidden(text: str) -> list[str]:
    """The characters of it that show nothing, or that turn the writing round."""
    kinds = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return [
        each
        for each in text
        if unicodedata.category(each) in kinds and each not in ALLOWED_CONTROLS | JOINERS | PREPENDED
    ]


# Signs of numbers and the like, which are seen though Unicode counts them as format.
PREPENDED = frozenset(
    map(chr, (*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD))
) | frozenset(map(chr, (*range(0x13430, 0x13440), *range(0x1BCA0, 0x1BCA4), *range(0x1D173, 0x1D17B))))


def texts_of(value: JsonValue) -> list[str]:
    match value:
        case str():
            return [value]
        case list():
            return [text for part in value for text in texts_of(part)]
        case dict():
            return [text for key, part in value.items() for text in [key, *texts_of(part)]]
        case _:
            return []


def test_no_text_of_the_document_hides_anything() -> None:
    assert [text for text in texts_of(hostile_document()) if hidden(text)] == []


@given(st.text(max_size=60), st.integers(1, 40))
def test_whatever_text_is_shown_hides_nothing_and_is_cut(text: str, most: int) -> None:
    assert hidden(visible(text, most)) == []
    assert hidden(one_line(text, most)) == []
    assert "\n" not in one_line(text, most)
    if len(text) > most:
        assert f"{len(text) - most} more characters" in visible(text, most)


@given(st.text("ab \u202e\x00<", max_size=20))
def test_what_is_seen_of_a_text_tells_it(text: str) -> None:
    """Each character that shows nothing is there as its number, and every other as it is."""
    numbered = re.compile("\u27e8U\\+([0-9A-F]{4,6})\u27e9")
    assert numbered.sub(lambda found: chr(int(found[1], 16)), visible(text, 100)) == text


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=9), lambda part: st.lists(part, max_size=3)
    )
)
def test_json_is_shown_as_it_is_but_for_what_hides(value: JsonValue) -> None:
    shown = plain(Json.of(value))
    assert not [text for text in texts_of(shown) if hidden(text)]
