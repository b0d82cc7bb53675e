"""The page: a document of plain data in one HTML file that fetches nothing and runs no script but its own.

The document stands in it deflated, as base64: so nothing that a run holds is in the page as text, let alone as HTML. A
policy for the browser names the one script and the one style by their hashes, and forbids all else.
"""

import base64
import hashlib
import html
import json
import re
import zlib
from functools import cache
from importlib.resources import files
from string import Template

from loopkernel.data.json_text import JsonValue

SCRIPTS = ("dom", "run", "timeline", "diagram", "steps", "thread", "details", "pane", "figures", "asking", "main")
FORBIDDING = "; ".join(
    (
        "default-src 'none'",
        "script-src 'sha256-{script}'",
        "style-src 'sha256-{style}'",
        "connect-src {connect}",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
_COMMENT = re.compile(r"^\s*//.*\n", re.MULTILINE)
_UNWRITABLE = re.compile("[\ud800-\udfff]")


def page_of(document: dict[str, JsonValue], *, live: bool = False) -> str:
    """The page as a text. `live`: it may ask where it came from for what is new."""
    title = document.get("title")
    return Template(_file("page.html")).substitute(
        policy=html.escape(policy_for_browser(live=live)),
        title=html.escape(_UNWRITABLE.sub("?", title)) if isinstance(title, str) else "a run",
        style=_style(),
        script=_script(),
        document=packed(document),
    )


def policy_for_browser(*, live: bool = False) -> str:
    """What the browser may do for the page, and nothing else."""
    connect = "'self'" if live else "'none'"
    return FORBIDDING.format(script=_hash(_script()), style=_hash(_style()), connect=connect)


def packed(document: dict[str, JsonValue]) -> str:
    """The document as the script of the page unpacks it."""
    return base64.b64encode(zlib.compress(json.dumps(document, separators=(",", ":")).encode(), 9)).decode()


def unpacked(text: str) -> JsonValue:
    """The document of what was packed."""
    document: JsonValue = json.loads(zlib.decompress(base64.b64decode(text)))
    return document


def _hash(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _script() -> str:
    """All of the script. Its comments stay in the package."""
    parts = (_COMMENT.sub("", _file(f"{name}.js")) for name in SCRIPTS)
    return f'(() => {{\n"use strict";\n{"".join(parts)}}})();\n'


@cache
def _style() -> str:
    return _file("page.css")


@cache
def _file(name: str) -> str:
    return files("loopkernel_adapters.viewing").joinpath("page", name).read_text(encoding="utf-8")
