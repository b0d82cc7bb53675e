"""The least value of each number of a policy, as specs/codec.md tells it."""

import re
from pathlib import Path

PAGE = (Path(__file__).resolve().parents[2] / "specs" / "codec.md").read_text(encoding="utf-8")
BOUNDS = {
    option: int(bound)
    for bound, options in re.findall(r"^\| at least (\d) \| (.+) \|$", PAGE, re.MULTILINE)
    for option in re.findall(r"`([a-z_.]+)`", options)
}
