"""Appends that wait together, made as the threads of stores make them: in this thread, so that nothing else goes on."""

import asyncio
from collections.abc import Sequence
from contextlib import closing

from loopkernel.replaying import LogRecord
from loopkernel_adapters.blocking_ports import BlockingStore
from loopkernel_adapters.stores.store_threads import Append, Call, Order, make


def append_together(*appends: tuple[BlockingStore, Sequence[LogRecord], bool]) -> list[BaseException | None]:
    """How each of them has ended: a store, what it is to append, and whether that is to last."""
    with closing(asyncio.new_event_loop()) as loop:
        calls = [Call(Append(*append), loop, loop.create_future(), Order()) for append in appends]
        make(calls)
    return [call.error for call in calls]
