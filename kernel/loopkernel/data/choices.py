"""The choices of a policy: each enum is one question, its members the answers that the contract allows."""

import enum


class Lifetime(enum.Enum):
    """How long a run lives (rule STATE-8)."""

    TASK = "task"
    SESSION = "session"


class TurnLimitCounts(enum.Enum):
    """Which replies count towards `max_turns` (rule LIMIT-1)."""

    REPLIES = "replies"
    TOOL_REPLIES = "tool_replies"


class Schedule(enum.Enum):
    """In which order calls start (rule TOOL-3)."""

    SERIAL = "serial"
    BATCHES = "batches"
    READ_RUNS = "read_runs"
    ALL = "all"
    GRAPH = "graph"


class EarlyStart(enum.Enum):
    """Whether calls may start while the reply streams (rule TOOL-9)."""

    NEVER = "never"
    GATED = "gated"


class NoProfile(enum.Enum):
    """What a tool without a profile conflicts with (rule TOOL-1)."""

    CONFLICT = "conflict"
    NO_CONFLICT = "no_conflict"


class NoProfileApproval(enum.Enum):
    """Whether a tool without a profile needs a person (rule ASK-1)."""

    ALLOW = "allow"
    ASK = "ask"


class WriteConflict(enum.Enum):
    """What two writers of one resource do (rule CALL-6)."""

    SERIALISE = "serialise"
    LAST_WRITE = "last_write"


class Oversize(enum.Enum):
    """Whether the long output of a command is cut, or goes to a file that the model can read (rule TOOL-11)."""

    CUT = "cut"
    SPILL = "spill"


class RunCalls(enum.Enum):
    """What decides that the calls of a reply run (rule INFER-5)."""

    CONTENT = "content"
    STOP_REASON = "stop_reason"
    EITHER = "either"


class OnReject(enum.Enum):
    """What follows a rejection (rule ASK-7)."""

    CONTINUE = "continue"
    SKIP_REST = "skip_rest"
    HALT = "halt"


class OnToolFailure(enum.Enum):
    """What a failing run does to its siblings (rule TOOL-6)."""

    CONTINUE = "continue"
    CANCEL_SIBLINGS = "cancel_siblings"


class OnBusy(enum.Enum):
    """What a user message does while the loop is busy (rule INPUT-1)."""

    QUEUE = "queue"
    REJECT = "reject"
    INTERRUPT = "interrupt"


class TruncationEnd(enum.Enum):
    """How a turn ends whose reply stays truncated (rule INFER-7)."""

    FAIL = "fail"
    STOP = "stop"
    NATURAL = "natural"


class TruncatedCalls(enum.Enum):
    """What becomes of the calls of a truncated reply (rule INFER-7)."""

    ERROR = "error"
    NOTE = "note"
    RUN = "run"


class OnPause(enum.Enum):
    """What a paused reply without calls leads to (rule INFER-4)."""

    CONTINUE = "continue"
    END = "end"


class NudgesCount(enum.Enum):
    """Whether nudges are counted in the whole turn, or since the last reply with calls (rule INFER-13)."""

    TURN = "turn"
    ROUND = "round"


class OnBrokenStream(enum.Enum):
    """What becomes of the whole blocks of a reply whose stream broke (rule INFER-11)."""

    RETRACT = "retract"
    KEEP = "keep"


class StillEmpty(enum.Enum):
    """How a turn ends whose reply is empty after every nudge (rule INFER-13)."""

    STUCK = "stuck"
    NATURAL = "natural"


class ErrorDisplay(enum.Enum):
    """When a recoverable error is shown (rule INFER-9)."""

    SHOWN = "shown"
    WITHHELD = "withheld"


class OnError(enum.Enum):
    """What follows a failure of a model call that is not recovered (rule RETRY-7)."""

    REST = "rest"
    END = "end"
    RAISE = "raise"
    FEED_BACK = "feed_back"


class CompactionStrategy(enum.Enum):
    """How a thread is made smaller (rule COMPACT-2)."""

    SUMMARISE = "summarise"
    WINDOW = "window"
    CLEAR = "clear"


class CompactionMoment(enum.Enum):
    """When the need for compaction is checked (rule COMPACT-1)."""

    ANY = "any"
    TURN_START = "turn_start"
    TURN_END = "turn_end"


class ClearMoment(enum.Enum):
    """When old result bodies are cleared (rule TOOL-11)."""

    EACH_REQUEST = "each_request"
    ON_PRESSURE = "on_pressure"


class ApprovalMode(enum.Enum):
    """What the mode makes of an approval decision (rule ASK-1)."""

    DEFAULT = "default"
    PLAN = "plan"
    ACCEPT_EDITS = "accept_edits"
    BYPASS = "bypass"
    HEADLESS = "headless"


class OutputCalls(enum.Enum):
    """What the other calls of a reply do beside a valid output call (rule CALL-5)."""

    RUN = "run"
    SKIP = "skip"


class OutputDemand(enum.Enum):
    """Whether a missing output is demanded in one request, or in each until it is given (rule CALL-5)."""

    ONCE = "once"
    UNTIL_GIVEN = "until_given"


class Redacts(enum.Enum):
    """Which stored message a guardrail's text for the user's side replaces (rule INFER-10)."""

    INPUT = "input"
    LAST_MESSAGE = "last_message"


class HookFailure(enum.Enum):
    """How a hook that fails is treated (rule HOOK-4)."""

    OPEN = "open"
    CLOSED = "closed"


class RestartSafe(enum.Enum):
    """What a restart does with a run that may be repeated (rule RESUME-3)."""

    RERUN = "rerun"
    CANCEL = "cancel"
    ERROR = "error"


class RestartChild(enum.Enum):
    """What a restart does with a sub-agent (rule RESUME-3)."""

    RESUME = "resume"
    CANCEL = "cancel"


class RestartDangerous(enum.Enum):
    """What a restart does with a run that may not be repeated (rule RESUME-3)."""

    CANCEL = "cancel"
    ASK = "ask"
    UNKNOWN = "unknown"
