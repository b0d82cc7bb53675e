"""The closed vocabularies: each enum is a set of words that the contract fixes."""

import enum


class StopReason(enum.Enum):
    """Why a model stopped (rule INFER-4)."""

    END_TURN = "end_turn"
    TOOL_USE = "tool_use"
    MAX_TOKENS = "max_tokens"
    STOP_SEQUENCE = "stop_sequence"
    REFUSAL = "refusal"
    CONTENT_FILTERED = "content_filtered"
    GUARDRAIL_INTERVENED = "guardrail_intervened"
    PAUSE = "pause"


class TurnEndReason(enum.Enum):
    """Why a turn, or a run, ended (rule STATE-9)."""

    MODEL_STOP = "model_stop"
    MAX_TURNS = "max_turns"
    USER_ABORT = "user_abort"
    ERROR = "error"
    BUDGET_EXCEEDED = "budget_exceeded"
    LOOP_DETECTED = "loop_detected"
    MAX_TOKENS = "max_tokens"
    REFUSAL = "refusal"
    CONTENT_FILTERED = "content_filtered"
    GUARDRAIL = "guardrail"
    STOP_SEQUENCE = "stop_sequence"
    TOOL_REJECTED = "tool_rejected"
    TOOL_FINAL = "tool_final"
    OUTPUT = "output"
    INTERRUPTED = "interrupted"
    EDITED = "edited"
    STUCK = "stuck"
    DISPOSED = "disposed"
    HANDED_OFF = "handed_off"


# Ends after which the queue goes on (rule INPUT-2).
NATURAL_ENDS = frozenset(
    {TurnEndReason.MODEL_STOP, TurnEndReason.STOP_SEQUENCE, TurnEndReason.OUTPUT, TurnEndReason.TOOL_FINAL}
)


class CancelReason(enum.Enum):
    """Why a call or a turn was cut short (rule CANCEL-1)."""

    USER_CANCELLED = "user:cancelled"
    USER_INTERRUPTED = "user:interrupted"
    EDITED = "system:edited"
    DISPOSED = "system:disposed"
    SAFETY = "system:safety"
    REJECTED = "system:rejected"
    SIBLING = "system:sibling"
    TIMEOUT = "system:timeout"
    LIMIT = "system:limit"
    SUPERSEDED = "system:superseded"


class CallStatus(enum.Enum):
    """Where a tool call stands (rule TOOL-4)."""

    QUEUED = "queued"
    IN_PROGRESS = "in-progress"
    BLOCKED_ON_USER = "blocked-on-user"
    DONE = "done"
    CANCELLED = "cancelled"
    REJECTED_BY_USER = "rejected-by-user"
    ERROR = "error"
    UNKNOWN = "unknown"
    LOST = "lost"


OPEN_STATUSES = frozenset({CallStatus.QUEUED, CallStatus.IN_PROGRESS, CallStatus.BLOCKED_ON_USER})


class RefusalReason(enum.Enum):
    """Why an input changed nothing (rule DELTA-2)."""

    DUPLICATE = "duplicate"
    STALE = "stale"
    UNKNOWN = "unknown"
    NOT_NOW = "not-now"
    FULL = "full"
    INVALID = "invalid"
    DENIED = "denied"


class ErrorClass(enum.Enum):
    """What went wrong with a model call, as its adapter classified it (rule RETRY-3)."""

    OVERLOADED = "overloaded"
    RATE_LIMITED = "rate_limited"
    SERVER = "server"
    NETWORK = "network"
    STALLED = "stalled"
    INVALID_OUTPUT = "invalid_output"
    PROMPT_TOO_LONG = "prompt_too_long"
    AUTH = "auth"
    BAD_REQUEST = "bad_request"
    REFUSED = "refused"
    UNKNOWN = "unknown"
    MAX_TOKENS = "max_tokens"  # never reported by an adapter: how a truncated reply is shown


class RequestReason(enum.Enum):
    """Why a request is made (rule INFER-12)."""

    USER = "user"
    NEXT_TURN = "next_turn"
    COLLAPSE_DRAIN_RETRY = "collapse_drain_retry"
    REACTIVE_COMPACT_RETRY = "reactive_compact_retry"
    MAX_OUTPUT_TOKENS_ESCALATE = "max_output_tokens_escalate"
    MAX_OUTPUT_TOKENS_RECOVERY = "max_output_tokens_recovery"
    STOP_HOOK_BLOCKING = "stop_hook_blocking"
    TOKEN_BUDGET_CONTINUATION = "token_budget_continuation"
    ERROR_RETRY = "error_retry"
    HOOK_RETRY = "hook_retry"
    CORRECTION = "correction"
    NUDGE = "nudge"
    MISSING_CALLS = "missing_calls"
    BROKEN_STREAM_RECOVERY = "broken_stream_recovery"
    REFUSAL = "refusal"
    RESUME = "resume"


class UserAction(enum.Enum):
    """The word by which an input is named when it is refused."""

    SAY = "say"
    ENQUEUE = "enqueue"
    STEER = "steer"
    DISCARD = "discard"
    EDIT = "edit"
    APPROVE = "approve"
    REJECT = "reject"
    CORRECT = "correct"
    SWAP = "swap"
    ANSWER = "answer"
    AFTER_CRASH = "after_crash"
    CANCEL = "cancel"
    RETRY = "retry"
    DISMISS = "dismiss"
    COMPACT = "compact"
    MODE = "mode"
    PERMIT = "permit"
    FORGET = "forget"
    POLICY = "policy"
    TOOLS = "tools"
    INSTRUCTIONS = "instructions"
    HANDOFF = "handoff"
    CREATE = "create"
    ACQUIRE = "acquire"
    RESUME = "resume"
    FORK = "fork"
    DISPOSE = "dispose"
    REPORT = "report"


class InputFate(enum.Enum):
    """What became of an accepted user input (rule DELTA-6)."""

    IN_THREAD = "in-thread"
    QUEUED = "queued"
    WAITING_AS_STEER = "waiting-as-steer"
    SUPERSEDED = "superseded"
    HANDED_BACK = "handed-back"
    DISCARDED = "discarded"


class HookPoint(enum.Enum):
    """Where hooks are asked (rule HOOK-1)."""

    BEFORE_INVOCATION = "before_invocation"
    AFTER_INVOCATION = "after_invocation"
    BEFORE_MODEL = "before_model"
    AFTER_MODEL = "after_model"
    BEFORE_TOOL = "before_tool"
    AFTER_TOOL = "after_tool"
    MESSAGE_ADDED = "message_added"
    STOP = "stop"

    @property
    def can_be_gated(self) -> bool:
        """Whether a hook may be waited for there; elsewhere it can only observe."""
        return self is not HookPoint.MESSAGE_ADDED


class LimitName(enum.Enum):
    """The limits that can end a turn (rules LIMIT-1, LIMIT-2 and LIMIT-4)."""

    MAX_TURNS = "max_turns"
    TOKENS = "tokens"
    COST = "cost"
    TOOL_CALLS = "tool_calls"
    WALL_TIME = "wall_time"
    REPLY_SIZE = "reply_size"


class TimerPurpose(enum.Enum):
    """What a pending delay is for."""

    RETRY = "retry"
    SILENCE = "silence"
    TOOL_TIMEOUT = "tool_timeout"
    APPROVAL_TIMEOUT = "approval_timeout"
    HOOK_TIMEOUT = "hook_timeout"
    GRACE = "grace"
    CHILD_TIMEOUT = "child_timeout"
    WALL_TIME = "wall_time"
