"""Seals: how a store knows a log again that this user's program has written, and that nobody else has touched.

A log says what a person has allowed: policy, mode, remembered approvals, and the approval of calls that have not
started. Whoever can write a file could write such a log. So each log ends with a seal: a keyed BLAKE2b (RFC 7693) of
all that it holds, made with a secret that lies in the user's own configuration folder and in no store. A log without
one that fits is read, shown and replayed like any other, and gives no authority: see `Restored.doubt`.

Beside the secret lies a mark for each log: how many records it has had. A log with fewer is an older copy of itself,
whose calls may have run since; it gives no authority either.
"""

import hashlib
import hmac
import os
import secrets
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from loopkernel_adapters.stores.durable_files import write_all
from loopkernel_adapters.stores.operating_systems import OWNER_ONLY, is_for_owner_only, open_file, write_at

CONFIGURATION = "XDG_CONFIG_HOME"  # the XDG base directory specification
FOLDER, SECRET, MARKS = "loopkernel", "seal.key", "marks"
SECRET_SIZE, SEAL_SIZE = 32, 12  # bytes
FOLDER_OWNER_ONLY = 0o700

FOREIGN = "it bears no seal of yours, so others may have written it (or a release without seals)"
ALTERED = "its seal is not yours, or does not fit what it holds, so others may have written or changed it"
OLDER = "it is an older copy of a log that has gone on since, as from a backup, so its calls may have run already"


class Seals:
    """Makes the seals of a user and knows them again. `folder` is where the secret lies; it is made when it is needed.

    Where there is no such folder, and none can be made, nothing is sealed and no log is believed; `problem` says why.
    A `secret` that is given takes the place of the one in the folder: so several machines share it.
    """

    def __init__(self, folder: Path, secret: bytes | None = None) -> None:
        if secret is not None and len(secret) != SECRET_SIZE:
            raise ValueError(
                f"the secret of seals has {SECRET_SIZE} bytes, not {len(secret)}; give that many random ones"
            )
        self._folder = folder
        self._secret = secret
        self.problem = ""

    @staticmethod
    def of_user(environment: Mapping[str, str] = os.environ, *, secret: bytes | None = None) -> "Seals":
        """Those of whoever runs this program."""
        return Seals(configuration_folder(environment), secret)

    def seal(self, content: bytes) -> bytes | None:
        """The seal of the content; None where there is no secret."""
        secret = self._secret_of_user()
        return None if secret is None else hashlib.blake2b(content, key=secret, digest_size=SEAL_SIZE).digest()

    def fits(self, seal: bytes | None, content: bytes) -> bool:
        """Whether it is the seal of the content."""
        expected = self.seal(content)
        return seal is not None and expected is not None and hmac.compare_digest(seal, expected)

    def doubt(self, seal: bytes | None, content: bytes) -> str | None:
        """Why the log that ends so is not believed; None: it is sealed."""
        if self.fits(seal, content):
            return None
        if self.problem:
            return f"nothing can be sealed here: {self.problem}"
        return FOREIGN if seal is None else ALTERED

    def mark(self, log: bytes) -> "Mark":
        """The mark of the log that is known by these bytes."""
        name = self.seal(b"mark\0" + log)
        return Mark(None if name is None else self._folder / MARKS / name.hex())

    def _secret_of_user(self) -> bytes | None:
        if self._secret is None and not self.problem:
            try:
                self._secret = _read_secret(self._folder / SECRET) or _make_secret(self._folder)
            except OSError as error:
                self.problem = f"{self._folder / SECRET} cannot be used ({error.strerror or error})"
        return self._secret


class Mark:
    """How many records a log has had, in a file of 8 bytes. Where it is lost, an old copy goes unseen, and no more."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._descriptor: int | None = None

    def read(self) -> int:
        """How many; 0 where that is not known."""
        if self._path is None:
            return 0
        try:
            descriptor = open_file(self._path, os.O_RDONLY, follow=False, wait=False)
        except OSError:
            return 0
        try:
            return int.from_bytes(os.read(descriptor, 8), "big")
        finally:
            os.close(descriptor)

    def note(self, records: int) -> None:
        """The log has so many now."""
        if self._path is None:
            return
        with suppress(OSError):
            if self._descriptor is None:
                self._path.parent.mkdir(mode=FOLDER_OWNER_ONLY, parents=True, exist_ok=True)
                self._descriptor = open_file(self._path, os.O_WRONLY | os.O_CREAT, follow=False)
            write_at(self._descriptor, records.to_bytes(8, "big"), 0)

    def close(self) -> None:
        """Let go of the file."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


def configuration_folder(environment: Mapping[str, str]) -> Path:
    """Where this user's configuration lies."""
    named = environment.get(CONFIGURATION, "")
    home = environment.get("HOME") or environment.get("USERPROFILE") or "/nonexistent"  # the second on Windows
    base = Path(named) if Path(named).is_absolute() else Path(home) / ".config"
    return base / FOLDER


def _read_secret(path: Path) -> bytes | None:
    """The secret; None where there is none yet. Raises OSError where it may not be one's own."""
    try:
        descriptor = open_file(path, os.O_RDONLY, follow=False, wait=False)
    except FileNotFoundError:
        return None
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or not is_for_owner_only(found):
            raise OSError(f"others may read or write it: it has to be a file of yours, of mode {OWNER_ONLY:o}")
        secret = file.read(SECRET_SIZE + 1)
    if len(secret) != SECRET_SIZE:
        raise OSError(f"it does not hold {SECRET_SIZE} bytes; remove it, and a new one is made")
    return secret


def _make_secret(folder: Path) -> bytes | None:
    """A new secret, whole or not there at all, also where two processes make one at the same time."""
    folder.mkdir(mode=FOLDER_OWNER_ONLY, parents=True, exist_ok=True)
    unfinished = folder / f"{SECRET}.{secrets.token_hex(8)}"
    descriptor = open_file(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        with suppress(FileExistsError):
            try:
                write_all(descriptor, secrets.token_bytes(SECRET_SIZE))
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.link(unfinished, folder / SECRET)
    finally:
        unfinished.unlink(missing_ok=True)
    return _read_secret(folder / SECRET)
