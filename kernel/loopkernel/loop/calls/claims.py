"""What a call of the ledger uses, and what its tool is, under the settings that hold now (rules TOOL-1 and TOOL-2)."""

from loopkernel.data.choices import NoProfile
from loopkernel.data.ledgers import LedgerEntry
from loopkernel.data.sessions import Settings
from loopkernel.data.tools import Claim, EffectClass, InvalidCall, Tool, UnknownTool, ValidCall
from loopkernel.loop.algorithms.scheduling import Claimant


def offered(settings: Settings, name: str) -> Tool | None:
    """The offered tool of that name."""
    return settings.offered.get(name)


def is_output_call(entry: LedgerEntry, settings: Settings) -> bool:
    """Whether the call, if it is valid, gives the output: it is never run, and uses nothing (rule CALL-5).

    One that has run already, since its tool gives the output only by a later policy, is a call as any.
    """
    return settings.policy.output_tool == entry.tool and not entry.runs


def never_runs(entry: LedgerEntry, settings: Settings) -> bool:
    """Whether the call is answered without a run, whatever is decided: it holds no other back."""
    if isinstance(entry.verdict, InvalidCall | UnknownTool) or entry.hooks.blocked is not None:
        return True
    return is_output_call(entry, settings)


def claimant_of(entry: LedgerEntry, settings: Settings) -> Claimant | None:
    """The entry as the schedule sees it; None before its first check.

    What a reference will name is not known to the check either: a resource that it stands for makes the claims None.
    """
    if never_runs(entry, settings):
        return Claimant(())
    if not isinstance(entry.verdict, ValidCall):
        return None
    tool = offered(settings, entry.tool)
    if tool is not None and tool.profile is None:
        return Claimant(() if settings.policy.no_profile is NoProfile.NO_CONFLICT else None)
    return Claimant(entry.verdict.claims, tool is not None and tool.profile is not None and tool.profile.serial)


def checked_claims(entry: LedgerEntry) -> tuple[Claim, ...] | None:
    """What rules of approval take the call to use: the claims of its last check; None where they are not known."""
    return entry.verdict.claims if isinstance(entry.verdict, ValidCall) else None


def effect_class(entry: LedgerEntry, settings: Settings) -> EffectClass:
    """What runs of the entry may have done, as it was when they started; before that, what its tool may do."""
    return class_of(settings, entry.tool) if entry.effect is None else entry.effect


def class_of(settings: Settings, name: str) -> EffectClass:
    """What running the tool may do; one without a profile counts as dangerous."""
    tool = offered(settings, name)
    return EffectClass.DANGEROUS if tool is None or tool.profile is None else tool.profile.effect


def only_reads(entry: LedgerEntry, settings: Settings) -> bool:
    """Whether the entry's tool is read-only."""
    return effect_class(entry, settings) is EffectClass.READ_ONLY
