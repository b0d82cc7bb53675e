"""What calls use, by key: tells what conflicts without comparing calls in pairs, and apart from the scheduler."""

from collections.abc import Iterator
from typing import final

from loopkernel.data.choices import NoProfile
from loopkernel.data.ids import CallId
from loopkernel.data.ledgers import LedgerEntry
from loopkernel.data.sessions import Settings
from loopkernel.data.tools import AccessMode, Claim, InvalidCall, UnknownTool
from loopkernel.laws.views import tool_named

Claims = tuple[Claim, ...] | None  # None: conflicts with everything


@final
class KeysInUse:
    """The resources that some calls use, and which call uses each; None stands for no call."""

    def __init__(self, *, writers_overlap: bool = False) -> None:
        self._writers_overlap = writers_overlap
        self._any: CallId | None = None  # a call that uses anything
        self._alone: CallId | None = None  # a call that conflicts with every other
        self._at: dict[tuple[str, AccessMode], CallId] = {}
        self._below: dict[tuple[str, AccessMode], CallId] = {}  # at the key or within it

    def add(self, call: CallId, claims: Claims) -> None:
        """The call uses these."""
        self._any = self._any or call
        if claims is None:
            self._alone = self._alone or call
            return
        for claim in claims:
            self._at.setdefault((claim.key, claim.mode), call)
            for key in (claim.key, *holders(claim.key)):
                self._below.setdefault((key, claim.mode), call)

    def conflicting(self, claims: Claims) -> CallId | None:
        """A call that a call with these claims must not overlap (rule TOOL-2)."""
        if claims is None:
            return self._any
        if self._alone is not None:
            return self._alone
        for claim in claims:
            for mode in modes_against(claim.mode, writers_overlap=self._writers_overlap):
                users = [self._below.get((claim.key, mode))]
                users.extend(self._at.get((key, mode)) for key in holders(claim.key))
                for user in users:
                    if user is not None:
                        return user
        return None


def modes_against(mode: AccessMode, *, writers_overlap: bool) -> tuple[AccessMode, ...]:
    """The modes of other calls that a use in this mode must not overlap."""
    if mode is AccessMode.READ:
        return (AccessMode.WRITE,)
    return (AccessMode.READ,) if writers_overlap else (AccessMode.READ, AccessMode.WRITE)


def holders(key: str) -> Iterator[str]:
    """The keys that contain the key: its folders, `/` of an absolute one, `.` of any other."""
    for place, character in enumerate(key):
        if character == "/":
            if place:
                yield key[:place]
            if place + 1 < len(key):
                yield key[: place + 1]
    if not key.startswith("/") and key != ".":
        yield "."


def claims_of(entry: LedgerEntry, settings: Settings) -> Claims:
    """What the call uses: all until it is checked; nothing if it never runs (rules TOOL-1, TOOL-2 and CALL-5)."""
    if isinstance(entry.verdict, InvalidCall | UnknownTool) or entry.hooks.blocked is not None:
        return ()
    if entry.tool == settings.policy.output_tool and not entry.runs:
        return ()
    if entry.verdict is None:
        return None
    tool = tool_named(settings, entry.tool)
    if tool is not None and tool.profile is None:
        return () if settings.policy.no_profile is NoProfile.NO_CONFLICT else None
    if tool is not None and tool.profile is not None and tool.profile.serial:
        return None
    return entry.verdict.claims
