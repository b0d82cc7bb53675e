"""The laws in the words of one who sees an agent from outside: requests, and what has run.

`loopkernel.laws` says each of the kernel, in its terms. A maintainer of another agent has no deltas and no threads.
"""

from collections.abc import Mapping

from loopkernel.laws.reports import Law

OUTSIDE: Mapping[str, str] = {
    "PAIR": "Each call in a request has its one answer, and each answer its call.",
    "ORDER": "The answers in a request stand in the order of their calls.",
    "SHOWN": "What has run is in every request that follows.",
    "RESULT": "A call is answered with what its own command printed, and not with the output of another.",
    "PREFIX": "A request keeps what the one before it held; a summary may take its place.",
    "TASK": "The task stays in every request; a summary may take its place.",
    "CUT-SAFE": "What was too long is not sent again.",
    "FINAL-ARGS": "No half of a command runs, and none before its reply has ended.",
    "AT-MOST-ONCE": "A command runs as often as the model called for it, after cancels and kills too.",
    "ONE-END": "Each call is answered, and its answer stays as it was.",
    "SIBLING": "A call that fails costs no other call its run or its answer.",
    "ADDRESS": "Each answer belongs to its own call, whichever of them ends first.",
    "RETRY-LAW": "A failure is tried again where that helps, and no sooner than the server said.",
    "PROGRESS": "Each turn comes to its end, whatever the model sends, and when it falls silent.",
    "TOTAL": "A call that fits no tool does not end the run.",
    "CANCEL-STOP": "After a cancel nothing goes on, and nothing starts.",
    "CONSERVE": "What a person says arrives, once.",
    "WRITE-AHEAD": "An agent that was killed remembers what it had begun.",
}


def in_words(law: Law) -> str:
    """The law as it is seen from outside; in the kernel's words, where nobody sees it there."""
    return OUTSIDE.get(law.id, law.statement)
