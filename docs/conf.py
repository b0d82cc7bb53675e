"""How the site is built from docs/ and specs/: `make docs`."""

import inspect
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "kernel"), str(ROOT / "adapters")]
with (ROOT / "pyproject.toml").open("rb") as file:
    release = tomllib.load(file)["project"]["version"]

project = "loopkernel"
author = "The loopkernel contributors"
extensions = ["myst_parser", "sphinx.ext.autodoc"]
root_doc = "docs/index"
include_patterns = ["docs/**.md", "specs/**.md"]
exclude_patterns = [".*", "kernel", "adapters", "tests", "bench", "dist", "mutation", "scripts"]
source_suffix = {".md": "markdown"}

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_default_options = {"members": True, "show-inheritance": False}

html_theme = "furo"
html_title = f"loopkernel {release}"
html_additional_pages = {"index": "front.html"}
templates_path = ["_templates"]
html_theme_options = {"source_repository": "https://github.com/loopkernel/loopkernel/", "source_branch": "main"}

# Languages that the highlighter does not know stay as they are; the pages of rules begin with the headings of rules.
suppress_warnings = ["misc.highlighting_failure", "myst.header"]

REPOSITORY = "https://github.com/loopkernel/loopkernel/blob/main/"
LINK = re.compile(r"(?<=\]\()(?!https?:|#|mailto:)([^)#\s]+)")


def lead_elsewhere(app, name, source):
    """Links to folders lead to their README, and those to what is not a page of the site to the repository."""
    folder = (ROOT / name).parent

    def target(link):
        place = (folder / link[1]).resolve()
        inside = place.relative_to(ROOT).as_posix()
        if place.is_dir() and (place / "README.md").exists():
            return link[1].rstrip("/") + "/README.md"
        is_page = place.suffix == ".md" and inside.startswith(("docs/", "specs/"))
        is_picture = place.suffix in (".png", ".svg")
        return link[1] if is_page or is_picture or not place.exists() else REPOSITORY + inside

    source[0] = LINK.sub(target, source[0])


def with_public_names(app, name, source):
    """The page of Python names tells of each public name where it is first offered."""
    if name != "docs/reference/api":
        return
    from scripts.public_names import PACKAGES, public_names

    told = set()
    for package in PACKAGES:
        entries = []
        for short, value in public_names(package).items():
            full = short if short.startswith(package) else f"{package}.{short}"
            if id(value) in told or inspect.ismodule(value):
                continue
            told.add(id(value))
            if inspect.isclass(value):
                entries.append(f".. autoclass:: {full}\n   :members:")
            elif inspect.isfunction(value):
                entries.append(f".. autofunction:: {full}")
            else:
                entries.append(f".. autodata:: {full}\n   :no-value:")
        source[0] += f"\n## {package}\n\n```{{eval-rst}}\n" + "\n\n".join(entries) + "\n```\n"


def with_examples(app, what, name, thing, options, lines):
    """What is indented in a docstring is an example."""
    for number in range(len(lines) - 1, -1, -1):
        above = next((line for line in reversed(lines[:number]) if line), "")
        if (
            lines[number].startswith("    ")
            and not lines[number - 1]
            and not above.startswith("    ")
            and not above.endswith("::")
        ):
            lines[number:number] = ["::", ""]


def setup(app):
    """Called by Sphinx."""
    app.connect("autodoc-process-docstring", with_examples)
    app.connect("source-read", lead_elsewhere)
    app.connect("source-read", with_public_names)
