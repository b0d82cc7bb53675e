"""A stream that floods is recorded in fewer, larger pieces; nothing is lost, moved, or held up where it is slow."""

import asyncio
from collections.abc import Sequence
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopkernel.data.deltas import Delta
from loopkernel.data.ids import ModelOperation
from loopkernel.data.model_deltas import (
    ModelDelta,
    ModelInput,
    ModelReasoning,
    ModelStarted,
    ModelText,
    ModelUsage,
)
from loopkernel.data.usage import NO_USAGE, Usage
from loopkernel_adapters.driver.pacing import BURST, RECORDS_A_SECOND, PacedStream
from loopkernel_adapters.providers.scripted import text_reply
from loopkernel_adapters.testing.virtual_loop import VirtualLoop

from tests.adapters.driver.driver_world import World, one_turn

ONE, TWO = ModelOperation(1), ModelOperation(2)
GAP_MS = 1_000 // RECORDS_A_SECOND

Timed = list[tuple[float, Delta]]


def passed_on(pieces: Sequence[tuple[float, ModelDelta]], left_open_ms: float = 0) -> tuple[Timed, Timed]:
    """When each piece came (so many milliseconds after the stream was ready for it), and what was recorded when."""
    loop = VirtualLoop()
    came: Timed = []
    recorded: Timed = []

    async def run() -> None:
        paced = PacedStream(lambda *deltas: recorded.extend((loop.time(), delta) for delta in deltas))
        for wait_ms, piece in pieces:
            await asyncio.sleep(wait_ms / 1000)
            came.append((loop.time(), piece))
            if not paced.passes(piece):
                await paced.take(piece)
        await asyncio.sleep(left_open_ms / 1000)
        paced.flush()

    loop.play(run())
    return came, recorded


def told(timed: Timed) -> list[object]:
    """What the deltas say, however it is cut into pieces: neighbours of one kind joined."""
    said: list[object] = []
    for kind, group in groupby((delta for _, delta in timed), key=lambda delta: (type(delta), delta.operation)):  # type: ignore[union-attr]
        deltas = list(group)
        if kind[0] is ModelUsage:
            usage = NO_USAGE
            for delta in deltas:
                assert isinstance(delta, ModelUsage)
                usage = usage.most(delta.usage)
            said.append((kind, usage))
        elif kind[0] is ModelStarted:
            said.extend((kind, place) for place in range(len(deltas)))
        else:
            words = [delta.text for delta in deltas if isinstance(delta, ModelText | ModelReasoning | ModelInput)]
            said.append((kind, "".join(words)))
    return said


def a_piece(kind: int, word: str) -> ModelDelta:
    pieces: list[ModelDelta] = [
        ModelText(ONE, word),
        ModelReasoning(ONE, word),
        ModelInput(ONE, word),
        ModelUsage(ONE, Usage(output=len(word))),
        ModelStarted(ONE, word),
        ModelText(TWO, word),
    ]
    return pieces[kind]


bouts = st.tuples(
    st.integers(1, 700), st.integers(0, 5), st.sampled_from(["", "a", "word "]), st.sampled_from([0, 0, 1, 3, 7])
)


@given(st.lists(bouts, max_size=5))
def test_a_flood_is_recorded_in_order_and_bounded_and_nothing_of_it_is_lost(
    flood: list[tuple[int, int, str, int]],
) -> None:
    pieces = [(wait_ms, a_piece(kind, word)) for count, kind, word, wait_ms in flood for _ in range(count)]
    came, recorded = passed_on(pieces)
    assert told(recorded) == told(came)
    for place, (at_s, _) in enumerate(recorded[:-1]):  # the last may be what is let go at the end
        assert place + 1 <= BURST + at_s * RECORDS_A_SECOND + 1e-6


@given(st.lists(st.tuples(st.integers(GAP_MS, 60), st.integers(0, 5)), max_size=40))
def test_a_slow_stream_is_recorded_as_it_comes(slow: list[tuple[int, int]]) -> None:
    flood = [(0.0, a_piece(0, "x"))] * (BURST + 1)  # all that may pass at once has passed
    pieces = [(float(wait_ms), a_piece(kind, "word")) for wait_ms, kind in slow]
    came, recorded = passed_on([*flood, (1_000.0 / RECORDS_A_SECOND * 2, a_piece(4, "")), *pieces])
    assert recorded[len(recorded) - len(pieces) :] == came[len(came) - len(pieces) :]


def test_the_first_pieces_pass_at_once() -> None:
    came, recorded = passed_on([(0, a_piece(0, "a"))] * BURST)
    assert recorded == came


def test_what_is_held_passes_on_without_another_piece() -> None:
    came, recorded = passed_on([(0, a_piece(0, "a"))] * (BURST + 50), left_open_ms=1_000)
    assert [at_s for at_s, _ in recorded[-1:]] == [pytest.approx(1 / RECORDS_A_SECOND)]
    assert (len(recorded), told(recorded)) == (BURST + 1, told(came))


def test_of_a_stream_that_is_forgotten_nothing_more_passes() -> None:
    loop = VirtualLoop()
    recorded: list[Delta] = []

    async def run() -> None:
        paced = PacedStream(lambda *deltas: recorded.extend(deltas))
        assert paced.passes(ModelText(ONE, "a"))
        paced.forget()
        await asyncio.sleep(1)
        assert recorded == []
        for _ in range(BURST + 1):
            if not paced.passes(ModelText(ONE, "b")):
                await paced.take(ModelText(ONE, "held"))
        before = len(recorded)
        paced.forget()
        await asyncio.sleep(1)
        assert len(recorded) == before

    loop.play(run())


def test_a_flooded_driver_records_no_more_than_it_may_and_all_of_the_text() -> None:
    words = [f"{number} " for number in range(3 * BURST)]

    async def run() -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        world = World([(*(ModelText(ONE, word) for word in words), *text_reply("end"))])
        await one_turn(world)
        texts = [record.delta.text for record in world.store.load() if isinstance(record.delta, ModelText)]
        assert "".join(texts) == "".join(words) + "end"
        assert len(texts) <= BURST + 2 + (loop.time() - began) * RECORDS_A_SECOND

    asyncio.run(run())
