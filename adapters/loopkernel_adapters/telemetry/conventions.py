"""The names of spans, attributes and metrics: those of OpenTelemetry's conventions, and our own.

The strings that begin with `gen_ai.` and `error.` are those of the semantic conventions for generative AI
(https://github.com/open-telemetry/semantic-conventions, docs/gen-ai/, as of the package
opentelemetry-semantic-conventions 0.66b2). They are written here again, since that package keeps them in a module whose
name says that it may change. What the conventions have no word for begins with `loopkernel.`.
"""

import enum
from typing import Final

# --- attributes of the conventions ------------------------------------------------------------------------

AGENT_NAME: Final = "gen_ai.agent.name"
CONVERSATION_ID: Final = "gen_ai.conversation.id"
OPERATION_NAME: Final = "gen_ai.operation.name"
PROVIDER_NAME: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_MAX_TOKENS: Final = "gen_ai.request.max_tokens"
RESPONSE_MODEL: Final = "gen_ai.response.model"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
TIME_TO_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS: Final = "gen_ai.usage.cache_creation.input_tokens"
TOKEN_TYPE: Final = "gen_ai.token.type"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
ERROR_TYPE: Final = "error.type"
# Content, sent only where it is asked for.
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"

# --- attributes of our own --------------------------------------------------------------------------------

TURN: Final = "loopkernel.turn"
TURN_END: Final = "loopkernel.turn.end"
CALL: Final = "loopkernel.call"
RUN: Final = "loopkernel.run"
REQUEST_REASON: Final = "loopkernel.request.reason"
COST_USD: Final = "loopkernel.cost_usd"
WAIT_KIND: Final = "loopkernel.wait"
BACKGROUND: Final = "loopkernel.background"
CHILD_SESSION: Final = "loopkernel.child.session"
CHILD_END: Final = "loopkernel.child.end"
HANDOFF_SESSION: Final = "loopkernel.handoff.session"
UNFINISHED: Final = "loopkernel.unfinished"  # the log has no end of it: it is under way, or its process has died
LINK: Final = "loopkernel.link"  # of a link: what the other span is to this one
DELAY_MS: Final = "loopkernel.retry.delay_ms"
ATTEMPT: Final = "loopkernel.retry.attempt"
LIMIT: Final = "loopkernel.limit"
CANCEL_REASON: Final = "loopkernel.cancel"

# Events of a turn.
RETRY_EVENT: Final = "loopkernel.retry"
LIMIT_EVENT: Final = "loopkernel.limit"
CANCEL_EVENT: Final = "loopkernel.cancel"

OTHER: Final = "_OTHER"  # the conventions' word where none of theirs is known


class Operation(enum.Enum):
    """What a span is about, as `gen_ai.operation.name` says it; those of the conventions are the first three."""

    INVOKE_AGENT = "invoke_agent"
    CHAT = "chat"
    EXECUTE_TOOL = "execute_tool"
    WAIT_FOR_PERSON = "wait_for_person"
    SUMMARISE = "summarise"
    HAND_OFF = "hand_off"


class LinkReason(enum.Enum):
    """What a span that another one names is to it."""

    EARLIER_TURN = "earlier turn"
    BEFORE_RESTART = "before the restart"
    FORKED_FROM = "forked from"
    STARTED_BY = "started by"


class TokenType(enum.Enum):
    """The kinds of tokens that `gen_ai.client.token.usage` tells apart."""

    INPUT = "input"
    OUTPUT = "output"


class Metric(enum.Enum):
    """The metrics; the first two are those of the conventions."""

    OPERATION_DURATION = "gen_ai.client.operation.duration"
    TOKEN_USAGE = "gen_ai.client.token.usage"
    TURN_DURATION = "loopkernel.turn.duration"
    TOOL_DURATION = "loopkernel.tool.duration"
    PERSON_WAIT = "loopkernel.person.wait"
    RETRIES = "loopkernel.retries"
    COST = "loopkernel.cost"


# The buckets that the conventions recommend: seconds of a model call, and tokens.
SECONDS_BUCKETS: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
TOKEN_BUCKETS: Final = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
# A person takes a second or a week.
WAIT_BUCKETS: Final = (1, 5, 15, 60, 300, 900, 3600, 14400, 86400, 604800)
