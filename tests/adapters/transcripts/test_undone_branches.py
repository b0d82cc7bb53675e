"""What the user has undone is not gone on with: neither what was said there, nor what was left open there."""

import pytest
from loopkernel.data.blocks import TextBlock
from loopkernel.data.foreign import ForeignMessage, ForeignReply, ForeignResults
from loopkernel_adapters.transcripts.entries import Outcome, ResultSeen
from loopkernel_adapters.transcripts.repairing_threads import repaired_conversations
from loopkernel_adapters.transcripts.source import Source

from tests.adapters.transcripts.recordings_world import EXAMPLES, read

# What is gone on with: each message by what it says; a reply without a text by its calls.
GONE_ON_WITH = {
    "claude-code/rewound.jsonl": [
        "Dig two holes.",
        "dig dig",
        "hole 1 hole 2",
        "Two holes.",
        "Plant a tree in each.",
        "dig",
        "the log says:\n[Request interrupted by user]\nCommand was aborted\n"
        "<error>Command was aborted before completion</error>",
        "dig",
        "grep failed at\n[Request interrupted by user",
        "dig",
        "half\n<error>Command was aborted before completion</error>",
        "[Request interrupted by user] is what I read. Why?",
        "You stopped me.",
    ],
    "codex/rolled-back.jsonl": [
        "<environment_context>here</environment_context>",
        "Mow.",
        "shell",
        "mown",
        "Mown.",
        "Rake it.",
        "Raked.",
    ],
    "droid/rewound.jsonl": ["Look at the beds.", "They are dry.", "Water them.", "I do."],
    "pi/branches.jsonl": [
        "Dig.",
        "Dug.",
        "Deeper.",
        "dig",
        "water",
        "There is water.",
        "Make a well.",
        "A well. Was it aborted",
    ],
    "pi/first-version.jsonl": ["It was old.", "Kept.", "dig", "the build was aborted", "New.", "New answer."],
}
OUTCOMES = {
    "claude-code/rewound.jsonl": {
        "r1": Outcome.DONE,
        "r2": Outcome.DONE,
        "r3": Outcome.CANCELLED,
        "r4": Outcome.DONE,
        "r5": Outcome.ERROR,
        "r6": Outcome.CANCELLED,
    },
    "pi/first-version.jsonl": {"v1": Outcome.ERROR},
}


def _said(message: ForeignMessage) -> str:
    if isinstance(message, ForeignResults):
        blocks = [block for result in message.results for block in result.content]
    else:
        blocks = [block for block in message.content if isinstance(block, TextBlock)]
    texts = [block.text for block in blocks if isinstance(block, TextBlock)]
    calls = [call.tool for call in message.calls] if isinstance(message, ForeignReply) else []
    return " ".join([*texts, *calls])


@pytest.mark.rule("RESUME-5")
@pytest.mark.parametrize("name", GONE_ON_WITH)
def test_what_was_undone_is_not_gone_on_with(name: str) -> None:
    found = repaired_conversations(Source(EXAMPLES / name))
    assert [_said(message) for message in found.messages[""]] == GONE_ON_WITH[name]


@pytest.mark.parametrize("name", OUTCOMES)
def test_a_call_is_cancelled_where_the_program_says_so_and_not_where_a_tool_quotes_it(name: str) -> None:
    entries, _ = read(EXAMPLES / name)
    assert {seen.call: seen.outcome for seen in entries if isinstance(seen, ResultSeen)} == OUTCOMES[name]
