"""All laws of the contract, by kind: what each says, the rules it rests on, and the code that judges a run by it."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from loopkernel.data.states import State
from loopkernel.laws.address_law import Address
from loopkernel.laws.asking_laws import AskedLaw
from loopkernel.laws.budget_law import Budget
from loopkernel.laws.cancel_laws import CancelStop
from loopkernel.laws.cut_law import CutSafe
from loopkernel.laws.ending_laws import OneEnd
from loopkernel.laws.import_laws import repair_fix
from loopkernel.laws.input_laws import Conserve
from loopkernel.laws.log_laws import Prefix, WriteAhead
from loopkernel.laws.mirror_law import Mirror
from loopkernel.laws.pair_laws import fork_eq, pure
from loopkernel.laws.progress_law import Progress
from loopkernel.laws.repeat_law import AtMostOnce
from loopkernel.laws.reports import Judged, Law, LawKind
from loopkernel.laws.retry_law import RetryLaw
from loopkernel.laws.run_law import OfEachStep, RunLaw
from loopkernel.laws.sibling_law import Sibling
from loopkernel.laws.task_law import Task

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
        id="SHOWN",
        kind=LawKind.STEP,
        statement="A model is sent all that the thread holds for it, and which replies were stopped; nothing else.",
        rules=("INFER-2", "CANCEL-4", "INFER-15"),
    ),
    Law(
        id="TOTAL",
        kind=LawKind.STEP,
        statement="A step never raises; its delta takes effect and counts, or is refused and changes nothing.",
        rules=("DELTA-1", "DELTA-2", "DELTA-7", "STATE-3", "STATE-7", "TOOL-17"),
    ),
    Law(
        id="NO-CONFLICT",
        kind=LawKind.STEP,
        statement="No call starts before one that it stands behind; what has not stopped keeps what it uses.",
        rules=("TOOL-1", "TOOL-2", "TOOL-3", "TOOL-17", "TOOL-20", "CALL-1", "CALL-6", "HOOK-1", "CHILD-1", "RESUME-6"),
    ),
    Law(
        id="PARALLEL",
        kind=LawKind.STEP,
        statement="No call waits but for a check, a hook, a call, a person, a slot or a budget; each run has a slot.",
        rules=("TOOL-3", "TOOL-5", "TOOL-9", "ASK-5", "CALL-2", "CALL-3", "CALL-5", "HOOK-1", "LIMIT-2"),
    ),
    Law(
        id="FINAL-ARGS",
        kind=LawKind.STEP,
        statement="A run gets its whole input, found valid: the model's, references resolved, a hook's or a person's.",
        rules=("TOOL-5", "TOOL-9", "TOOL-11", "TOOL-18", "TOOL-15", "ASK-3", "CALL-1", "HOOK-2", "CHILD-1"),
    ),
    Law(
        id="RESULT",
        kind=LawKind.STEP,
        statement="A call is answered with what its run has reported, cut where that is too large, and not otherwise.",
        rules=("TOOL-11", "TOOL-4", "TOOL-6", "HOOK-2", "ASK-3"),
    ),
    Law(
        id="TIMER-DATA",
        kind=LawKind.STEP,
        statement="A pending delay is a deadline in state, for one thing, closed after it, timed anew by a restart.",
        rules=(
            "DELTA-3",
            "RETRY-4",
            "CANCEL-2",
            "TOOL-10",
            "ASK-6",
            "INFER-11",
            "HOOK-4",
            "CHILD-1",
            "RESUME-3",
            "LIMIT-4",
        ),
    ),
    Law(
        id="WHY",
        kind=LawKind.STEP,
        statement="Each effect is told with its delta and a rule, each wait with what it truly is for.",
        rules=("TOOL-3", "DELTA-1", "HOOK-1", "CHILD-2"),
    ),
)

TRACE_LAWS = (
    Law(
        id="ONE-END",
        kind=LawKind.TRACE,
        statement="A call of a reply that stays is answered once and for good; a run in the background ends once.",
        rules=("TOOL-4", "TOOL-7", "TOOL-9", "TOOL-16", "TOOL-20", "CANCEL-2", "CANCEL-3", "CHILD-2"),
    ),
    Law(
        id="CONSERVE",
        kind=LawKind.TRACE,
        statement="An input has a receipt and one fate at a time; no queue loses any, an edit supersedes what it cuts.",
        rules=("DELTA-6", "INFER-6", "STATE-8", "INPUT-2", "INPUT-3", "INPUT-4", "COMPACT-3", "HANDOFF-1"),
    ),
    Law(
        id="CANCEL-STOP",
        kind=LawKind.TRACE,
        statement="A cancel closes all and ends the turn, a fork does and stops nothing; after either nothing starts.",
        rules=("CANCEL-1", "CANCEL-2", "CANCEL-5", "STATE-4", "TOOL-7", "TOOL-20", "COMPACT-4", "CHILD-2", "RESUME-6"),
    ),
    Law(
        id="ASKED",
        kind=LawKind.TRACE,
        statement="What starts is allowed by hooks and rules, or a person, exactly so; what was rejected never starts.",
        rules=("TOOL-5", "ASK-1", "ASK-2", "ASK-3", "ASK-4", "ASK-6", "ASK-7", "HOOK-1", "HOOK-2", "HOOK-4"),
    ),
    Law(
        id="AT-MOST-ONCE",
        kind=LawKind.TRACE,
        statement="A call runs again by a restart or a hook, a dangerous one by a person; its key stays its own.",
        rules=("TOOL-1", "TOOL-14", "DELTA-3", "HOOK-2", "RESUME-3", "RESUME-4", "RESUME-6"),
    ),
    Law(
        id="WRITE-AHEAD",
        kind=LawKind.TRACE,
        statement="Each prefix of the log gives a valid state, which can be written and knows of every command.",
        rules=("RESUME-1", "RESUME-2", "DELTA-3", "STATE-1", "STATE-5"),
    ),
    Law(
        id="SIBLING",
        kind=LawKind.TRACE,
        statement="A run that fails leaves other calls, and what was said of them, alone, or cancels them all.",
        rules=("TOOL-4", "TOOL-6", "TOOL-8", "CALL-3", "CHILD-2"),
    ),
    Law(
        id="RETRY-LAW",
        kind=LawKind.TRACE,
        statement="A failure takes the way out that is open: so many retries, none too early, models in their order.",
        rules=("RETRY-1", "RETRY-2", "RETRY-3", "RETRY-4", "RETRY-6", "RETRY-7", "INFER-8", "INFER-9", "INFER-11"),
    ),
    Law(
        id="BUDGET",
        kind=LawKind.TRACE,
        statement="At a limit nothing starts or streams on; it is named then, and only then; usage is billed once.",
        rules=("LIMIT-1", "LIMIT-2", "LIMIT-4", "STATE-9", "INFER-3", "COMPACT-3", "CHILD-1", "CHILD-2"),
    ),
    Law(
        id="PROGRESS",
        kind=LawKind.TRACE,
        statement="Each recovery leaves less to try, what is not at rest waits for something, each turn ends once.",
        rules=(
            *("STATE-2", "STATE-8", "INFER-4", "INFER-6", "INFER-7", "INFER-8", "INFER-13", "CALL-5", "LIMIT-3"),
            *("COMPACT-4", "COMPACT-5", "HOOK-1", "HOOK-2", "HOOK-3", "HOOK-4", "HANDOFF-1"),
        ),
    ),
    Law(
        id="PREFIX",
        kind=LawKind.TRACE,
        statement="A request holds the session's thread, and extends the one before unless a rewrite was told.",
        rules=("INFER-2", "INFER-15", "TOOL-11", "INPUT-4", "INFER-10", "COMPACT-3"),
    ),
    Law(
        id="TASK",
        kind=LawKind.TRACE,
        statement="No compaction leaves a thread without the message that opened its turn, or a summary in its place.",
        rules=("COMPACT-2", "COMPACT-3", "INFER-8"),
    ),
)

RUN_LAWS: Mapping[str, Callable[[State], RunLaw]] = MappingProxyType(
    {
        "ONE-END": OneEnd,
        "CONSERVE": Conserve,
        "CANCEL-STOP": CancelStop,
        "ASKED": AskedLaw,
        "AT-MOST-ONCE": AtMostOnce,
        "WRITE-AHEAD": WriteAhead,
        "SIBLING": Sibling,
        "RETRY-LAW": RetryLaw,
        "BUDGET": Budget,
        "PROGRESS": Progress,
        "PREFIX": Prefix,
        "TASK": Task,
    }
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
        statement="Which call gets which answer, of a tool or a person, does not depend on their order.",
        rules=("DELTA-3", "TOOL-8", "TOOL-14", "ASK-2", "TOOL-19"),
    ),
    Law(
        id="FORK-EQ",
        kind=LawKind.PAIR,
        statement="A run that is restored goes on as the one that never stopped; a fork hears nothing of what it left.",
        rules=("RESUME-1", "DELTA-8", "RESUME-6"),
    ),
    Law(
        id="MIRROR",
        kind=LawKind.PAIR,
        statement="Who folds the events holds the kernel's thread, but for secrets, and its shown error.",
        rules=("INFER-2", "DELTA-5", "TOOL-11", "TOOL-12", "INPUT-4", "INFER-10", "COMPACT-3"),
    ),
    Law(
        id="CUT-SAFE",
        kind=LawKind.PAIR,
        statement="A thread is cut when it is due, where it may be; PAIR holds under whatever policy, and cuts end.",
        rules=("COMPACT-1", "COMPACT-2", "COMPACT-3", "COMPACT-5", "INPUT-4"),
    ),
    Law(
        id="REPAIR-FIX",
        kind=LawKind.PAIR,
        statement="A repair needs no clock, is told, and leaves nothing for a second one to do.",
        rules=("RESUME-5",),
    ),
)

PAIR_CHECKS: Mapping[str, Callable[[State, Judged], RunLaw]] = MappingProxyType(
    {
        "PURE": lambda _, judged: OfEachStep(pure, judged),
        "ADDRESS": lambda _, judged: Address(judged),
        "FORK-EQ": lambda _, judged: OfEachStep(fork_eq, judged),
        "MIRROR": lambda start, _: Mirror(start),
        "CUT-SAFE": lambda _, judged: CutSafe(judged),
        "REPAIR-FIX": lambda _, judged: OfEachStep(repair_fix, judged),
    }
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
