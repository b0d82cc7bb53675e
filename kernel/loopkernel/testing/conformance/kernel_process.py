"""This kernel as a program: `python -m loopkernel.testing.conformance.kernel_process`.

A line in is a number, a space and a record: the number of the log, which begins from nothing where it is new. Two lines
out: the effects of the step, and the document of the state behind it (`specs/testing.md`). A driver in another language
starts it beside itself; whoever writes a kernel in one sees here what to answer.
"""

import sys

from loopkernel.codec import effects_to_text, record_from_text, state_to_text
from loopkernel.data.states import State
from loopkernel.data.steps import Context
from loopkernel.loop.transition import transition
from loopkernel.replaying import START


def main() -> None:
    """Answer each line, until there is none."""
    states: dict[str, State] = {}
    for line in sys.stdin:
        log, _, text = line.partition(" ")
        record = record_from_text(text)
        step = transition(states.get(log, START), Context(record.delta, record.now_ms))
        states[log] = step.next
        print(effects_to_text(step.effects), state_to_text(step.next), sep="\n", flush=True)


if __name__ == "__main__":
    main()
