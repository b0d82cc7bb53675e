"""Where the contract lies: the scenarios, and the pages that verdicts and errors cite as `specs/...`."""

from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1]


def contract_folder() -> Path:
    """The folder that is called `specs` wherever it is cited: of the installed package, or of the source tree."""
    installed = PACKAGE / "specs"
    return installed if installed.is_dir() else PACKAGE.parents[1] / "specs"
