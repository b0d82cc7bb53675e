"""All laws of the contract, by kind: what each says, the rules it rests on, and whether it is judged yet."""

from loopkernel.laws.reports import Law, LawKind

STEP_LAWS = (
    Law(
        id="PAIR",
        kind=LawKind.STEP,
        statement="A model is sent one answer for each call, in the message after it, and no answer without its call.",
        rules=("INFER-2", "TOOL-7", "TOOL-15", "INFER-5"),
    ),
    Law(
        id="ORDER",
        kind=LawKind.STEP,
        statement="A model is sent its calls, and the answers to them, in the order in which it made the calls.",
        rules=("TOOL-8", "INFER-2"),
    ),
    Law(
        id="TOTAL",
        kind=LawKind.STEP,
        statement="A step never raises; its delta takes effect and is counted, or it is refused and changes nothing.",
        rules=("DELTA-1", "DELTA-2", "DELTA-7", "STATE-3", "STATE-7"),
    ),
    Law(
        id="NO-CONFLICT",
        kind=LawKind.STEP,
        statement="No call starts beside one that it conflicts with, or before an earlier one of those.",
        rules=("TOOL-1", "TOOL-2", "TOOL-3"),
    ),
    Law(
        id="PARALLEL",
        kind=LawKind.STEP,
        statement="A call that has not started waits for its check, an earlier call in its way, or a free slot.",
        rules=("TOOL-3", "TOOL-5"),
    ),
    Law(
        id="FINAL-ARGS",
        kind=LawKind.STEP,
        statement="A run gets the whole input that the model gave, found valid, of a reply that is complete.",
        rules=("TOOL-5", "TOOL-18", "TOOL-15"),
    ),
    Law(
        id="TIMER-DATA",
        kind=LawKind.STEP,
        statement="A pending delay is a deadline in state, one for each purpose; any other timer does nothing.",
        rules=("DELTA-3", "RETRY-4", "CANCEL-2"),
    ),
    Law(
        id="WHY",
        kind=LawKind.STEP,
        statement="Each effect can be told with its delta and a rule, and each call that waits with what it waits for.",
        rules=("TOOL-3", "DELTA-1"),
    ),
)

TRACE_LAWS = (
    Law(
        id="ONE-END",
        kind=LawKind.TRACE,
        statement="A call of a reply that stays is answered once, before its turn ends, and for good.",
        rules=("TOOL-4", "TOOL-7", "CANCEL-3"),
    ),
    Law(
        id="CONSERVE",
        kind=LawKind.TRACE,
        statement="An accepted input has a receipt and one fate at a time; the queue loses and moves nothing.",
        rules=("DELTA-6", "INFER-6", "STATE-8"),
    ),
    Law(
        id="CANCEL-STOP",
        kind=LawKind.TRACE,
        statement="A cancel closes all that is open and ends the turn; nothing starts until new input.",
        rules=("CANCEL-1", "CANCEL-2", "CANCEL-5", "STATE-4", "TOOL-7"),
    ),
    Law(
        id="ASKED",
        kind=LawKind.TRACE,
        statement="A call starts only if it is allowed; one to ask a person about never does, until that is built.",
        rules=("TOOL-5",),
    ),
    Law(
        id="AT-MOST-ONCE",
        kind=LawKind.TRACE,
        statement="A dangerous call starts once; no run number, operation id or key is given out twice.",
        rules=("TOOL-1", "TOOL-14", "DELTA-3"),
    ),
    Law(
        id="WRITE-AHEAD",
        kind=LawKind.TRACE,
        statement="Each prefix of the log gives a valid state, which can be written and knows of every command.",
        rules=("RESUME-1", "RESUME-2", "DELTA-3", "STATE-1"),
    ),
    Law(
        id="SIBLING",
        kind=LawKind.TRACE,
        statement="When a run fails, the other calls of the reply keep their results, their runs and their waits.",
        rules=("TOOL-4", "TOOL-8"),
    ),
    Law(
        id="RETRY-LAW",
        kind=LawKind.TRACE,
        statement="Retries are bounded; none is built yet, so none is ever scheduled.",
        rules=("STATE-9",),
    ),
    Law(
        id="BUDGET",
        kind=LawKind.TRACE,
        statement="max_turns bounds the replies of a turn, and is named only when it does; usage is billed once.",
        rules=("LIMIT-1", "STATE-9", "INFER-3"),
    ),
    Law(
        id="PROGRESS",
        kind=LawKind.TRACE,
        statement="Recoveries in a row are bounded, what is not at rest waits for something, each turn ends once.",
        rules=("STATE-8", "INFER-4", "INFER-6", "INFER-13", "STATE-2"),
    ),
    Law(
        id="PREFIX",
        kind=LawKind.TRACE,
        statement="A request holds the session's thread, and extends the one before unless a rewrite was told.",
        rules=("INFER-2", "INFER-15"),
    ),
)

PAIR_LAWS = (
    Law(
        id="PURE",
        kind=LawKind.PAIR,
        statement="The same state and context give the same state, the same effects and the same bytes.",
        rules=("RESUME-1", "DELTA-1"),
    ),
    Law(
        id="ADDRESS",
        kind=LawKind.PAIR,
        statement="Which call gets which answer does not depend on the order in which reports arrive.",
        rules=("DELTA-3", "TOOL-8", "TOOL-14"),
    ),
    Law(
        id="FORK-EQ",
        kind=LawKind.PAIR,
        statement="A run that is written down, restored and gone on with is the run that never stopped.",
        rules=("RESUME-1", "DELTA-8"),
    ),
    Law(
        id="MIRROR",
        kind=LawKind.PAIR,
        statement="Who folds the events holds the thread and the shown error that the kernel holds.",
        rules=("INFER-2", "DELTA-5"),
    ),
    Law(
        id="CUT-SAFE",
        kind=LawKind.PAIR,
        statement="However often a thread is compacted or trimmed, PAIR holds.",
        rules=("COMPACT-2",),
        not_yet="compaction is not built",
    ),
    Law(
        id="REPAIR-FIX",
        kind=LawKind.PAIR,
        statement="A repair needs no clock, is told, and leaves nothing for a second one to do.",
        rules=("RESUME-5",),
    ),
)

COST_LAWS = (
    Law(
        id="LINEAR",
        kind=LawKind.COST,
        statement="A delta costs the same, on average, whatever the length of the thread.",
        rules=("INFER-3",),
        not_yet="it is measured by the benchmark, not judged over a run",
    ),
)

LAWS = (*STEP_LAWS, *TRACE_LAWS, *PAIR_LAWS, *COST_LAWS)
JUDGED = tuple(law for law in LAWS if law.not_yet is None)
