"""The session record: what every phase shares. What changes together stands together."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import final

from attrs import evolve, field

from loopkernel.data.blocks import UserBlock
from loopkernel.data.compactions import NO_COMPACTIONS, Compactions, ContextSize
from loopkernel.data.held_runs import HeldRun
from loopkernel.data.ids import CallId, MessageId, ModelOperation, QueueNumber, ReceiptId
from loopkernel.data.operations import Operations
from loopkernel.data.policy import Policy
from loopkernel.data.remembered import Remembered
from loopkernel.data.text_map import TextMap
from loopkernel.data.threads import Thread
from loopkernel.data.tools import Tool
from loopkernel.data.usage import NO_USAGE, Usage
from loopkernel.data.value_classes import frozen, maker, quick_copy
from loopkernel.data.vector import GrowingSet
from loopkernel.data.watches import Watch
from loopkernel.data.words import ErrorClass, RequestReason, TurnEndReason

_DERIVED: Mapping[str, bool] = MappingProxyType({"derived": True})


@final
@frozen(kw_only=True)
class Settings:
    """What the log's first record sets, and later deltas change (rule DELTA-8)."""

    session_id: str
    lineage: int = 1
    policy: Policy = Policy()
    tools: tuple[Tool, ...] = ()
    instructions: str = ""
    rules_version: int = 1
    remembered: tuple[Remembered, ...] = ()
    nonce: str = ""

    # They follow from the tools, and spare each call of a reply a look at all of them.
    offered: TextMap[Tool] = field(init=False, eq=False, repr=False, metadata=_DERIVED)
    any_early: bool = field(init=False, eq=False, repr=False, metadata=_DERIVED)

    @offered.default
    def _by_name(self) -> TextMap[Tool]:
        found = TextMap[Tool]()
        for tool in reversed(self.tools):
            found = found.put(tool.name, tool)
        return found

    @any_early.default
    def _some_start_early(self) -> bool:
        return any(tool.profile is not None and tool.profile.early for tool in self.tools)


@final
@frozen(kw_only=True)
class QueuedInput:
    """An input that waits for the end of the turn. Its number is its for life."""

    number: QueueNumber
    receipt: ReceiptId
    content: tuple[UserBlock, ...]


@final
@frozen(kw_only=True)
class WaitingSteer:
    """A message that waits for the next request."""

    receipt: ReceiptId
    content: tuple[UserBlock, ...]


@final
@frozen
class BackgroundEnd:
    """How a background run ended, which waits for the next request (rule TOOL-20)."""

    call: CallId
    content: tuple[UserBlock, ...]


@final
@frozen(kw_only=True)
class Inbox:
    """Accepted input that is not in the thread yet, oldest first; and every key a caller has used."""

    queue: tuple[QueuedInput, ...] = ()
    steers: tuple[WaitingSteer, ...] = ()
    background: tuple[BackgroundEnd, ...] = ()
    keys: GrowingSet[str] = GrowingSet()


@final
@frozen(kw_only=True)
class Counters:
    """How many of each were minted so far; ids count from 1."""

    messages: int = 0
    receipts: int = 0
    queued: int = 0
    steered: int = 0
    turns: int = 0

    def with_message(self, number: MessageId) -> "Counters":
        """These after message `number` was minted."""
        return new_counters(
            messages=number, receipts=self.receipts, queued=self.queued, steered=self.steered, turns=self.turns
        )


@final
@frozen(kw_only=True)
class Course:
    """What has happened since the last user message: calls that ran, `writes` of them not read-only (rule HOOK-3).

    `checked`: a correction has been asked for.
    """

    calls: int = 0
    writes: int = 0
    checked: bool = False

    def with_call(self, *, writes: bool) -> "Course":
        """This after one more call ran; `writes`: it does not only read."""
        return new_course(calls=self.calls + 1, writes=self.writes + writes, checked=self.checked)


new_counters = maker(Counters)
new_course = maker(Course)
NO_COURSE = Course()


@final
@frozen
class ShownError:
    """An error the user sees, until the next accepted delta (rule DELTA-5)."""

    error: ErrorClass
    message: str


@final
@frozen(kw_only=True)
class Session:
    """The record that all phases share. `last_model` was asked last; `last_end` ended the last turn.

    `held` are the runs whose calls are answered, and which have not stopped. Results that have a body stand from
    message `bodies_from` of the thread on; there are `bodies` of them. `started` counts the calls that have run
    (rule LIMIT-2); `watch` looks for repetition (rule LIMIT-3). `size` is that of the thread, as far as it is known.
    """

    settings: Settings
    thread: Thread = Thread()
    usage: Usage = NO_USAGE
    inbox: Inbox = Inbox()
    counters: Counters = Counters()
    operations: Operations = Operations()
    held: tuple[HeldRun, ...] = ()
    bodies: int = 0
    bodies_from: int = 0
    started: int = 0
    watch: Watch = Watch()
    course: Course = NO_COURSE
    size: ContextSize = ContextSize()
    compactions: Compactions = NO_COMPACTIONS
    error: ShownError | None = None
    last_model: str | None = None
    last_end: TurnEndReason | None = None

    @quick_copy
    def updated(
        self,
        *,
        thread: Thread | None = None,
        usage: Usage | None = None,
        counters: Counters | None = None,
        operations: Operations | None = None,
        bodies: int | None = None,
        started: int | None = None,
        watch: Watch | None = None,
        course: Course | None = None,
        size: ContextSize | None = None,
        last_model: str | None = None,
    ) -> "Session":
        """This session with what is given; None keeps what there is. For every round: `evolve` takes thrice as long."""
        return Session(
            settings=self.settings,
            thread=self.thread if thread is None else thread,
            usage=self.usage if usage is None else usage,
            inbox=self.inbox,
            counters=self.counters if counters is None else counters,
            operations=self.operations if operations is None else operations,
            held=self.held,
            bodies=self.bodies if bodies is None else bodies,
            bodies_from=self.bodies_from,
            started=self.started if started is None else started,
            watch=self.watch if watch is None else watch,
            course=self.course if course is None else course,
            size=self.size if size is None else size,
            compactions=self.compactions,
            error=self.error,
            last_model=self.last_model if last_model is None else last_model,
            last_end=self.last_end,
        )

    def with_operations(self, operations: Operations) -> "Session":
        """This session after operations were minted or closed."""
        return self.updated(operations=operations)


@final
@frozen
class Stamp:
    """How many deltas were accepted (rule DELTA-7), and the latest time seen, in milliseconds."""

    version: int = 0
    now_ms: int = 0

    def next(self, now_ms: int) -> "Stamp":
        """The stamp after one more accepted delta; time never goes back."""
        return new_stamp(self.version + 1, max(self.now_ms, now_ms))

    def at(self, now_ms: int) -> "Stamp":
        """The stamp after a delta that was refused, and yet freed something: the time goes on, nothing is counted."""
        return new_stamp(self.version, max(self.now_ms, now_ms))


@final
@frozen(kw_only=True)
class Recovery:
    """What recovery has used up (sections INFER and RETRY).

    `model` is the place of the model asked among the policy's, 0 for its first; `retries` counts those of that model in
    a row. `raised` counts the higher output limits that were passed, `continuations` the prompts to go on, both since
    the last reply that was not truncated. `compacted`: a prompt that was too long has led to a compaction since
    the last completed reply. `fed_back`: the turn has told the model of an error (rule RETRY-7). `unstreamed`: the
    reply is asked for whole, since its stream has failed (rule INFER-11).
    """

    model: int = 0
    retries: int = 0
    raised: int = 0
    continuations: int = 0
    compacted: bool = False
    fed_back: bool = False
    unstreamed: bool = False


NO_RECOVERY = Recovery()


@final
@frozen(kw_only=True)
class Turn:
    """The turn in progress. `reason` is that of the request being prepared or under way (rule INFER-12).

    `replies` counts towards `max_turns`; `nudges` counts those of the turn, or since its last calls, as policy says;
    `pauses` and `missing`, the stops for calls that did not come, those in a row. `refusals` counts those of which the
    model was told. `demanded`: the required output has been asked for (rule CALL-5); `forcing`: the next reply is
    still to give it. `begun`: the hooks before the turn have been asked; `requested`: its first request has been made.
    `blocks` counts the times that stop hooks kept it going, `hook_retries` the replies in a row that a hook has had
    repeated (rule HOOK-2).
    """

    number: int
    opened_ms: int
    reason: RequestReason = RequestReason.USER
    replies: int = 0
    nudges: int = 0
    pauses: int = 0
    missing: int = 0
    refusals: int = 0
    demanded: bool = False
    forcing: bool = False
    begun: bool = False
    requested: bool = False
    blocks: int = 0
    hook_retries: int = 0
    recovery: Recovery = NO_RECOVERY

    def answered(self, replies: int, nudges: int, pauses: int, missing: int, recovery: Recovery) -> "Turn":
        """This turn after a completed reply, which nothing has forced and no hook has had repeated."""
        return new_turn(
            number=self.number,
            opened_ms=self.opened_ms,
            reason=self.reason,
            replies=replies,
            nudges=nudges,
            pauses=pauses,
            missing=missing,
            refusals=self.refusals,
            demanded=self.demanded,
            begun=self.begun,
            requested=self.requested,
            blocks=self.blocks,
            recovery=recovery,
        )

    def asking(self, reason: RequestReason) -> "Turn":
        """This turn when its next request is made for the reason."""
        return self if reason is self.reason else evolve(self, reason=reason)


@final
@frozen
class OpenReply:
    """The model call under way: its id, the model that was asked, the usage reported so far, its output limit."""

    operation: ModelOperation
    model: str
    usage: Usage = NO_USAGE
    limit: int | None = None

    def used(self, usage: Usage) -> "OpenReply":
        """This reply after a report of what it has used so far, or in all."""
        return new_open_reply(self.operation, self.model, self.usage.most(usage), self.limit)


new_stamp = maker(Stamp)
new_turn = maker(Turn)
new_open_reply = maker(OpenReply)
