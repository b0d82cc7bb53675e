"""What the calls of a reply come to, kept up by what has changed since it was last asked for (see `Totals`)."""

from attrs import evolve

from loopkernel.data.differences import different_items
from loopkernel.data.ledgers import Ledger, LedgerEntry, Totals
from loopkernel.data.sessions import Settings
from loopkernel.data.words import CallStatus
from loopkernel.loop.algorithms.children import starts_child, with_share
from loopkernel.loop.calls.ledger import is_output_call, offered


def with_totals(ledger: Ledger, settings: Settings) -> Ledger:
    """The ledger with the totals of its calls as they are."""
    totals = totals_of(ledger, settings)
    return ledger if totals is ledger.totals else evolve(ledger, totals=totals)


def totals_of(ledger: Ledger, settings: Settings) -> Totals:
    """The totals of its calls as they are."""
    known, output_tool = ledger.totals, settings.policy.output_tool
    if known is None or known.tools is not settings.tools or known.output_tool != output_tool:
        known = Totals(tools=settings.tools, output_tool=output_tool)
    elif known.entries is ledger.entries:
        return known
    failed, taken, to_come, outputs = known.failed, known.taken, known.to_come, known.outputs
    for place, before, after in different_items(known.entries, ledger.entries):
        for entry, times in ((before, -1), (after, 1)):
            if entry is None:
                continue
            failed += times * _has_failed(entry)
            to_come += times * _is_to_come(entry, settings)
            if entry.child is not None and entry.has_run:
                taken = with_share(taken, entry.child.reserved, times)
        gives = after is not None and after.is_open and is_output_call(after, settings)
        outputs = outputs & ~(1 << place) | gives << place
    return Totals(
        entries=ledger.entries,
        tools=settings.tools,
        output_tool=output_tool,
        failed=failed,
        taken=taken,
        to_come=to_come,
        outputs=outputs,
    )


def _has_failed(entry: LedgerEntry) -> bool:
    return entry.status is CallStatus.ERROR and entry.runs > 0


def is_child(entry: LedgerEntry, settings: Settings) -> bool:
    """Whether a run of the call is a sub-agent."""
    tool = offered(settings, entry.tool)
    return tool is not None and starts_child(tool)


def _is_to_come(entry: LedgerEntry, settings: Settings) -> bool:
    return entry.child is None and entry.is_open and is_child(entry, settings)
