"""The tables of runs in a PostgreSQL database, made and brought up to date step by step.

All of it happens in one transaction that holds an advisory lock: done twice, or by two workers at the same time, it is
done once.
"""

from psycopg import AsyncConnection, sql
from psycopg.rows import TupleRow

from loopkernel_adapters.ports import StoreError

MIGRATION_LOCK = 0x6C6F6F70  # "loop": nobody else takes an advisory lock of that number
# Asked of the catalogue itself: what the search path leads to may be remembered from before the lock was waited for.
IS_THERE = """
SELECT FROM pg_catalog.pg_class AS relation JOIN pg_catalog.pg_namespace AS schema ON schema.oid = relation.relnamespace
WHERE schema.nspname = %s AND relation.relname = 'schema_version'"""

HIGHEST = 2**53  # of what is counted

# Version n of the schema is what the first n steps lead to. A step that was released stays as it is.
SCHEMA: tuple[tuple[str, ...], ...] = (
    (
        # `records`, `bytes`, `first_ms` and `last_ms` tell what the records of the run tell too: for lists, and so that
        # records that are missing at the end are missed. `epoch` counts the holders: only the latest may write, and
        # only until `lease_until`; `holder` tells one opening from another, `owner` says in words who it is.
        # `unfinished` says that there is something left to do, and `wake_ms` when there will be. `sent` counts the
        # inputs. Half of a page is left free, so that an append changes no index.
        """CREATE TABLE runs (
            id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            run text COLLATE "C" NOT NULL UNIQUE,
            epoch bigint NOT NULL DEFAULT 0,
            holder uuid,
            owner text,
            lease_until timestamptz,
            records bigint NOT NULL DEFAULT 0,
            bytes bigint NOT NULL DEFAULT 0,
            first_ms bigint NOT NULL DEFAULT 0,
            last_ms bigint NOT NULL DEFAULT 0,
            seal bytea,
            sent bigint NOT NULL DEFAULT 0,
            unfinished boolean NOT NULL DEFAULT false,
            wake_ms bigint
        ) WITH (fillfactor = 50)""",
        "CREATE INDEX runs_unfinished ON runs (id) WHERE unfinished",
        "CREATE INDEX runs_wake ON runs (wake_ms) WHERE wake_ms IS NOT NULL",
        """CREATE TABLE records (
            run bigint NOT NULL,
            n bigint NOT NULL,
            digest bytea NOT NULL,
            text text NOT NULL,
            PRIMARY KEY (run, n)
        )""",
        """CREATE TABLE snapshots (
            run bigint PRIMARY KEY,
            content bytea NOT NULL
        )""",
        """CREATE TABLE inbox (
            run bigint NOT NULL,
            number bigint NOT NULL,
            delta text NOT NULL,
            seal bytea NOT NULL,
            PRIMARY KEY (run, number)
        )""",
    ),
    (
        # What the sender of an input saw: how many records there were, and the digest of the last. `identity` tells a
        # run from another one of its name, and `highest_taken` says which inputs have been taken.
        """ALTER TABLE runs
            ADD COLUMN identity uuid NOT NULL DEFAULT gen_random_uuid(),
            ADD COLUMN highest_taken bigint NOT NULL DEFAULT 0""",
        """ALTER TABLE inbox
            ADD COLUMN seen bigint NOT NULL DEFAULT 0,
            ADD COLUMN seen_digest bytea NOT NULL DEFAULT ''""",
    ),
    (
        # A row that no worker writes ends none: what is counted with stays within what can be counted with.
        f"""UPDATE runs SET
            epoch = greatest(0, least(epoch, {HIGHEST})),
            lease_until = CASE WHEN isfinite(lease_until) THEN lease_until END,
            wake_ms = greatest(0, least(wake_ms, {HIGHEST}))
            WHERE epoch NOT BETWEEN 0 AND {HIGHEST} OR NOT isfinite(lease_until)
                OR wake_ms NOT BETWEEN 0 AND {HIGHEST}""",
        f"""ALTER TABLE runs
            ADD CONSTRAINT runs_epoch CHECK (epoch BETWEEN 0 AND {HIGHEST}),
            ADD CONSTRAINT runs_lease CHECK (isfinite(lease_until)),
            ADD CONSTRAINT runs_wake CHECK (wake_ms BETWEEN 0 AND {HIGHEST})""",
    ),
    (
        # The run that is claimed for an input: its own, or the one that a sub-agent works for. So to find what has work
        # takes as long as there is to claim, however many inputs wait. The table finds it by itself: programs of an
        # older version go on sending while others are brought up to date.
        "ALTER TABLE inbox ADD COLUMN IF NOT EXISTS claims bigint",
        """CREATE OR REPLACE FUNCTION inbox_claims() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            NEW.claims := (
                SELECT above.id FROM runs AS sent_to JOIN runs AS above ON above.run = split_part(sent_to.run, '/', 1)
                WHERE sent_to.id = NEW.run);
            RETURN NEW;
        END $$""",
        "DROP TRIGGER IF EXISTS inbox_claims ON inbox",
        "CREATE TRIGGER inbox_claims BEFORE INSERT OR UPDATE OF run ON inbox"
        " FOR EACH ROW EXECUTE FUNCTION inbox_claims()",
        "UPDATE inbox SET run = run",
        "CREATE INDEX IF NOT EXISTS inbox_claims ON inbox (claims)",
    ),
)


async def bring_up_to_date(connection: AsyncConnection[TupleRow], schema: str, place: str) -> None:
    """Have the tables of the present version in that schema, which is the search path. Raises StoreError.

    Where they are there, nothing is locked and nothing is written.
    """
    if await _version(connection, schema, place) == len(SCHEMA):
        return
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", (MIGRATION_LOCK,))
        found = await _version(connection, schema, place)
        if found == len(SCHEMA):
            return
        if not found:
            await connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(schema)))
            await connection.execute("CREATE TABLE schema_version (version bigint NOT NULL)")
            await connection.execute("INSERT INTO schema_version VALUES (0)")
        for step in SCHEMA[found:]:
            for statement in step:
                await connection.execute(statement)
        await connection.execute("UPDATE schema_version SET version = %s", (len(SCHEMA),))


async def _version(connection: AsyncConnection[TupleRow], schema: str, place: str) -> int:
    """The version that is there; 0 for none. Raises StoreError for one that is newer, and for what is not ours."""
    if await (await connection.execute(IS_THERE, (schema,))).fetchone() is None:
        return 0
    rows = await (await connection.execute("SELECT * FROM schema_version LIMIT 2")).fetchall()
    version: object = rows[0][0] if len(rows) == 1 and len(rows[0]) == 1 else None
    if not isinstance(version, int) or version < 1:
        raise StoreError(f"{place} is not as loopkernel makes its tables: name another schema, or restore a copy")
    if version > len(SCHEMA):
        raise StoreError(
            f"{place} was written by a newer loopkernel (version {version} of its schema, and this one knows versions "
            f"up to {len(SCHEMA)}). Nothing was changed: use that loopkernel, or name another schema"
        )
    return version
