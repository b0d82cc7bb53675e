"""Folds a corpus with the kernel of its own tree: python -m scripts.sameness.folding CORPUS OUTPUT [--whole].

Writes a line of JSON with the versions of this tree, then one for each case: its name and what came of the start and
of each step (a digest; with --whole, the texts). What is compared is the state, the effects, and the messages of each
request. A move of `transition`, of `project` or of the codec changes the imports here, and nothing else.
"""

import gc
import hashlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import loopkernel
from attrs import frozen
from loopkernel.codec import POLICY_VERSION, STATE_VERSION, record_from_text, state_from_text, state_to_text
from loopkernel.codec.structure import Codec
from loopkernel.data.effects import CallModel, Effect
from loopkernel.data.json_text import exact_text
from loopkernel.data.projected import ProjectedMessage
from loopkernel.data.states import Initial, State
from loopkernel.data.steps import Context
from loopkernel.data.thread_deltas import RULES_VERSION
from loopkernel.loop.algorithms.projection import project
from loopkernel.loop.transition import transition

from scripts.sameness.corpus import FORMAT, CorpusCase, read_cases

EFFECTS: Codec[Effect] = Codec.of(Effect)
MESSAGES: Codec[ProjectedMessage] = Codec.of(ProjectedMessage)


@frozen
class Outcome:
    """What came of a step, as text; of one that raised, what it raised."""

    state: str
    effects: str
    requests: str
    raised: bool = False

    def digest(self) -> str:
        """Equal for equal texts."""
        text = "\n".join((self.state, self.effects, self.requests))
        digest = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
        return f"raised {digest}" if self.raised else digest

    def whole(self) -> dict[str, str]:
        """The texts themselves."""
        return {"state": self.state, "effects": self.effects, "requests": self.requests}

    @staticmethod
    def of_error(error: Exception) -> "Outcome":
        """That something raised, in each part."""
        text = json.dumps(f"raised {type(error).__name__}: {error}")
        return Outcome(text, text, text, raised=True)


def folded(case: CorpusCase) -> Iterator[Outcome]:
    """What comes of the start and of each step; a step that raises goes nowhere."""
    state: State = Initial()
    try:
        state = state if case.start is None else state_from_text(case.start)
        written = state_to_text(state)
        yield Outcome(written, "[]", "[]")
    except Exception as error:  # whatever it is: it is what came of it, as below
        yield Outcome.of_error(error)
        written = ""
    for step in case.steps:
        try:
            record = record_from_text(step.record)
            after, effects = transition(state, Context(record.delta, record.now_ms))
            came = written if after is state else state_to_text(after)
            yield Outcome(came, exact_text([EFFECTS.encode(effect) for effect in effects]), _requests(effects))
        except Exception as error:
            yield Outcome.of_error(error)
            continue
        if not step.aside:
            state, written = after, came


def _requests(effects: tuple[Effect, ...]) -> str:
    """The messages of each request, which an adapter projects."""
    requests = (effect.request for effect in effects if isinstance(effect, CallModel))
    return exact_text(
        [[MESSAGES.encode(message) for message in project(asked.thread, asked.model)] for asked in requests]
    )


def main(corpus: Path, output: Path, *, whole: bool) -> None:
    """Fold every case."""
    gc.set_threshold(100_000, 50, 100)
    versions = {"state": STATE_VERSION, "policy": POLICY_VERSION, "rules": RULES_VERSION}
    with output.open("w", encoding="ascii") as file:
        file.write(json.dumps({"format": FORMAT, "versions": versions, "kernel": loopkernel.__file__}) + "\n")
        for case in read_cases(corpus):
            outcomes = [each.whole() if whole else each.digest() for each in folded(case)]
            file.write(json.dumps([case.name, outcomes]) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), whole="--whole" in sys.argv[3:])
