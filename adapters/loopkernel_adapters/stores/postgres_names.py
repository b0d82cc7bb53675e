"""The ids of runs as the database keeps them: no two alike, also where a text of PostgreSQL cannot hold an id."""

import re

from loopkernel_adapters.ports import StoreError

LONGEST_ID = 1_000  # bytes in UTF-8: what an index, and a notification, can hold


def kept_id(run: str) -> str:
    r"""The id as it is kept: with `\\` for a backslash, and `\0` for NUL, which no text there holds.

    Raises StoreError for one that has no UTF-8, and one that is too long.
    """
    try:
        size = len(run.encode("utf-8"))
    except UnicodeEncodeError:
        raise StoreError(
            "the id of this run holds half of a surrogate pair, which no database keeps; give it another"
        ) from None
    if size > LONGEST_ID:
        raise StoreError(
            f"the id of this run is too long: {size} bytes, and at most {LONGEST_ID} are kept; give it a shorter one"
        )
    return run.replace("\\", "\\\\").replace("\0", "\\0")


def id_of(kept: str) -> str:
    """The id that is kept so."""
    return re.sub(r"\\(.)", lambda found: "\0" if found[1] == "0" else found[1], kept)
