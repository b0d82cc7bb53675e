"""Nothing but our own tables in a database: each object of its schema is as our steps make it, or it is refused.

A file that others made may bear our mark and hold views in the place of tables, triggers, tables that programs feed, or
generated columns, all of which run within a harmless query. Only the list of its objects is read to tell.
"""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from functools import lru_cache
from pathlib import Path

from loopkernel_adapters.ports import StoreError

Steps = tuple[tuple[str, ...], ...]
Objects = frozenset[tuple[str, str, str, str]]

LIST = "SELECT type, name, tbl_name, sql FROM sqlite_master LIMIT ?"
MOST_OBJECTS = 100  # that are looked at: more than any schema of ours has
LONGEST_SHOWN = 60  # characters of a name


def demand_schema(connection: sqlite3.Connection, path: Path, steps: Steps) -> None:
    """Raises StoreError where the schema is not exactly what those steps make. Changes nothing."""
    found = _objects(connection.execute(LIST, (MOST_OBJECTS,)).fetchall())
    demanded = expected(steps)
    if found == demanded:
        return
    strange = sorted(found - demanded)
    names = {name for _, name, _, _ in demanded}
    if strange:
        kind, name, _, _ = strange[0]
        shown = name if len(name) <= LONGEST_SHOWN else f"{name[:LONGEST_SHOWN]}..."
        what = f"{kind} {shown!r} is {'not as ours' if name in names else 'none of ours'}"
    else:
        missing = sorted(name for _, name, _, _ in demanded - found)
        what = f"{missing[0]!r} is missing"
    raise StoreError(
        f"{path} is not as loopkernel makes its databases: the {what}. Nothing of it was read or run, and nothing was "
        "changed. Others may have made it: name another path, or restore a copy of your own"
        if strange
        else f"{path} is not as loopkernel makes its databases: {what}. Nothing was changed: restore it from a copy"
    )


@lru_cache(maxsize=16)
def expected(steps: Steps) -> Objects:
    """The objects that the steps make, as this SQLite writes them down."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for step in steps:
            for statement in step:
                connection.execute(statement)
        return _objects(connection.execute(LIST, (MOST_OBJECTS,)).fetchall())


def _objects(rows: Sequence[tuple[object, ...]]) -> Objects:
    return frozenset((_text(row[0]), _text(row[1]), _text(row[2]), _text(row[3])) for row in rows)


def _text(value: object) -> str:
    """What a row says, of whatever type; spaces count as one."""
    text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
    return " ".join(text.split())
