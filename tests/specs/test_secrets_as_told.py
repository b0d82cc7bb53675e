"""Which keys name a secret, as specs/algorithms/texts.md says, is what the code goes by (rule TOOL-12)."""

import re
from itertools import product
from pathlib import Path

import pytest
from loopkernel.loop.algorithms.redaction import names_secret

PAGE = (Path(__file__).resolve().parents[2] / "specs" / "algorithms" / "texts.md").read_text(encoding="utf-8")
BLOCKS = [block.splitlines() for block in re.findall(r"^```regex\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)]

SECRETS = (
    "pass word wd phrase code passwd pwd credential authorize authorise bearer cookie auth basic api access private"
)
SECRETS += " signing encryption master ssh subscription key keyboard keyword refresh secret secretary secretari"
TOKENS = "token tokens tokenize tokenised count limits budget usage length size type url uri endpoint max min per first"
WORDS = [*SECRETS.split(), *TOKENS.split(), "page", "x", "1", "é", ""]
KEYS = {
    first + gap + second
    for first, gap, second in product(WORDS, ("", "_", "-"), (*WORDS, *map(str.title, WORDS)))
    if (first in SECRETS) == (second.lower() in SECRETS) or "token" in first + second
} | {"maxToken", "aMaxToken", "TokenLimit", "MAX_TOKENS", "aPwd", "x.auth", "a Key", "passTokens"}


def names_one_as_told(key: str) -> bool:
    """What the page says of the key."""
    secrets, counted = ("|".join(block) for block in BLOCKS)
    if re.search(secrets, key, re.ASCII | re.IGNORECASE):
        return True
    return "token" in key.lower() and "token" in re.sub(counted, " ", key, flags=re.ASCII).lower()


@pytest.mark.rule("TOOL-12")
def test_a_key_names_a_secret_as_the_page_says() -> None:
    assert [key for key in sorted(KEYS) if names_secret(key) != names_one_as_told(key)] == []
