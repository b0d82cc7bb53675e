"""A folder of logs: one file for each session, found by the id of the session."""

from pathlib import Path
from urllib.parse import quote

from attrs import frozen

from loopkernel_adapters.stores.jsonl import JsonlStore

OWNER_ONLY = 0o700
SUFFIX = ".jsonl"


@frozen
class JsonlFolder:
    """Called with the id of a session it opens that session's log. The folder is made when the first one is opened."""

    path: Path

    def __call__(self, session_id: str) -> JsonlStore:
        """The log of the session, new or gone on with. Raises as `JsonlStore` does."""
        self.path.mkdir(mode=OWNER_ONLY, exist_ok=True)
        return JsonlStore(self.file_of(session_id))

    def file_of(self, session_id: str) -> Path:
        """Where that log lies: no two ids share a file, and none leads out of the folder."""
        return self.path / f"{quote(session_id, safe='')}{SUFFIX}"

    def files(self) -> tuple[Path, ...]:
        """The logs that are there, by name."""
        return tuple(sorted(self.path.glob(f"*{SUFFIX}")))
