"""What each peer does: a line of JSON asks for so much work, a line says what it cost. The standard library alone."""

import asyncio
import gc
import json
import sys
import time
from collections.abc import Awaitable, Callable

# So many rounds of so many calls, then so many pieces of text: the characters that were said, and the calls that ran.
Work = Callable[[int, int, int], Awaitable[tuple[int, int]]]


def serve(work: Work) -> None:
    """Answer each line of standard input with the microseconds of CPU for each of `count`."""
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(spent(work, **asked)), flush=True)


def spent(work: Work, *, rounds: int, calls: int, pieces: int, count: int, repeats: int) -> float:
    """The least of some samples is what other work on the machine has disturbed the least: here is one of them."""

    async def repeated() -> None:
        for _ in range(repeats):
            said, ran = await work(rounds, calls, pieces)
            assert (said, ran) == (pieces * len("word "), rounds * calls), (said, ran)

    gc.collect()
    start = time.process_time()
    asyncio.run(repeated())
    return (time.process_time() - start) / count / repeats * 1e6
