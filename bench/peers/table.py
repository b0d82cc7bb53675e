"""Other agents beside this one: the same rows, each as a multiple of the loop by hand. `make bench PEERS=1`.

Each peer is installed from the registry, in the version that is pinned here, into an environment of its own
(`.venv-peer-NAME`). All take turns; of each figure the least of some samples counts.
"""

import sys
from collections.abc import Mapping

from attrs import frozen

from bench.agent_table import ROWS, Row, least, spent
from tests.differential.environments import Environment, NotHad, Playing

PEERS = (
    Environment(name="peer-agno", package="agno", version="3.1.10", player="bench.peers.agno_peer"),
    Environment(
        name="peer-pydantic-ai", package="pydantic-ai-slim", version="2.68.0", player="bench.peers.pydantic_ai_peer"
    ),
)
SAMPLES = 5


@frozen
class Work:
    """The work of a row, as a peer is asked for it."""

    rounds: int
    calls: int
    pieces: int


WORK: Mapping[str, Work] = {
    "a turn, of 100": Work(100, 1, 1),
    "a turn, of 1,000": Work(1_000, 1, 1),
    "a parallel call, of 100": Work(1, 100, 1),
    "a parallel call, of 1,000": Work(1, 1_000, 1),
    "a streamed chunk, of 1,000": Work(0, 0, 1_000),
    "a streamed chunk, of 10,000": Work(0, 0, 10_000),
}


def ours(row: Row) -> float:
    """What this agent costs, as a multiple of the loop by hand."""
    return _ratio(least(lambda: spent(row.agent, row.count, 1), row, SAMPLES))


def theirs(row: Row, playing: Playing) -> float:
    """What a peer costs, as a multiple of the loop by hand."""
    work = WORK[row.name]
    asked = {"rounds": work.rounds, "calls": work.calls, "pieces": work.pieces, "count": row.count, "repeats": 1}
    return _ratio(least(lambda: float(playing.play(asked)), row, SAMPLES))


def main() -> int:
    """Print a column for each of them."""
    print("x a loop by hand in the same run; CPU time", flush=True)
    columns = {"loopkernel": [ours(row) for row in ROWS]}
    for peer in PEERS:
        try:
            with Playing(peer) as playing:
                columns[f"{peer.package} {peer.version}"] = [theirs(row, playing) for row in ROWS]
        except NotHad as problem:
            print(f"left out: {problem}")
    print(f"| | {' | '.join(columns)} |")
    print(f"|---|{'---|' * len(columns)}")
    for place, row in enumerate(ROWS):
        print(f"| {row.name} | {' | '.join(f'{column[place]:,.3g}' for column in columns.values())} |")
    return 0


def _ratio(times: tuple[float, float]) -> float:
    agent, by_hand = times
    return agent / by_hand


if __name__ == "__main__":
    sys.exit(main())
