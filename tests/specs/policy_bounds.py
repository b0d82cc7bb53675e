"""The least value of each number of a policy, as docs/reference/policy.md tells it."""

import re
from pathlib import Path

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "policy.md").read_text(encoding="utf-8")
BOUNDS = {
    option: int(bound)
    for option, bound in re.findall(r"^\| `([a-z_.]+)` \|[^|]*\|[^|]*at least (\d)", PAGE, re.MULTILINE)
}
