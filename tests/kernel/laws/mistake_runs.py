"""Short runs that come by what an algorithm decides, for the mistakes that are planted in it."""

from attrs import evolve
from loopkernel.data.blocks import OpaqueBlock, RawInput, TextBlock
from loopkernel.data.choices import (
    ApprovalMode,
    CompactionMoment,
    CompactionStrategy,
    NudgesCount,
    OnBrokenStream,
    OnPause,
    Oversize,
    Redacts,
    StillEmpty,
)
from loopkernel.data.foreign import ForeignCall, ForeignReply, ForeignResult, ForeignResults, ForeignUser
from loopkernel.data.json_text import Json, JsonValue
from loopkernel.data.model_deltas import ModelCompleted, ModelOpaque, ModelServerCall, Redaction
from loopkernel.data.policy import (
    ApprovalRule,
    Compaction,
    FieldPattern,
    Hook,
    LoopTiers,
    Policy,
    ResourcePattern,
    ResultLimit,
    Retry,
)
from loopkernel.data.thread_deltas import Resumed
from loopkernel.data.tool_deltas import ToolChecked
from loopkernel.data.tools import Decision, Tool, ToolProfile, ValidCall
from loopkernel.data.user_deltas import Approve, CancelAll, ChangeMode, Correct, Forget, RememberCall, RememberPattern
from loopkernel.data.words import CallStatus, ErrorClass, HookPoint, StopReason
from loopkernel.testing.played.player import Player
from loopkernel.testing.played.tools import NOTHING, POLICY, TO_ASK, TOOLS, USAGE, Call, path_of, read, shell, write

RUN = Tool(name="run", profile=ToolProfile(approval=Decision.ASK, commands=("command",)))


def rule(decision: Decision, tool: str = "*", **fields: str) -> ApprovalRule:
    """A rule about the calls of a tool with such fields; `uses` is a pattern of resources."""
    uses = fields.pop("uses", None)
    parts = tuple(FieldPattern(field, pattern) for field, pattern in fields.items())
    return ApprovalRule(
        decision=decision, tool=tool, input=parts, resources=() if uses is None else (ResourcePattern(uses),)
    )


def begin(player: Player, *rules: ApprovalRule, policy: Policy = POLICY, tools: tuple[Tool, ...] = TOOLS) -> None:
    """A session with these rules, and the user's first words."""
    player.begin(evolve(policy, approval_rules=rules), tools)
    player.say("go")


# --- approval ---------------------------------------------------------------------------------------------


def ruled(player: Player) -> None:
    """One rule denies a folder, one allows another; calls spell their paths in several ways."""
    allowed = (rule(Decision.ALLOW, "shell", path="notes/*"), rule(Decision.ALLOW, "shell", uses="drafts"))
    begin(player, rule(Decision.DENY, uses="keys"), *allowed)
    player.reply(write("keys/a"), write("b/../keys/c"), shell("notes/d"), shell("notes/../e"), read("f"), shell("g"))
    player.settle()


def named_alike(player: Player) -> None:
    """A rule denies one tool, whose name begins that of another; one asks about every input of a kind."""
    begin(player, rule(Decision.DENY, "re"), rule(Decision.ASK, "wr*", path="*.md"))
    player.reply(read("a"), write("b.md"), write("c"))
    player.settle()


def in_modes(player: Player) -> None:
    """The same calls in each mode; a person is asked about one that only reads."""
    begin(player, rule(Decision.ASK, "read"))
    for mode in ApprovalMode:
        player.deliver(ChangeMode(mode))
        player.reply(TO_ASK, write("a"), read("b"))
        player.settle()
        player.say("again")
    player.settle()


def commanded(player: Player) -> None:
    """Commands for a shell are allowed by their words; some try to be more."""
    begin(player, rule(Decision.ALLOW, "run", command="git *"), tools=(*TOOLS, RUN))
    commands = ("git log", "git log; rm a", "gitk", "git 'a b'")
    player.stream(*(Call("run", Json.of({"command": command})) for command in commands))
    player.complete(StopReason.TOOL_USE)
    for operation in tuple(player.checks):
        del player.checks[operation]
        player.deliver(ToolChecked(operation, ValidCall(())))
    player.settle()


def remembered(player: Player) -> None:
    """One call is approved for good, and one pattern; others are like them, or nearly."""
    begin(player)
    player.reply(shell("a"), shell("b/c"))
    first, second = tuple(player.asked)
    player.deliver(Approve(call=first, remember=RememberCall()))
    player.deliver(Approve(call=second, remember=RememberPattern((FieldPattern("path", "b/*"),))))
    player.asked.clear()
    player.settle()
    player.say("again")
    player.reply(shell("a"), shell("b/d"), shell("ab"), shell("b/../c"))
    player.settle()


def doubted(player: Player) -> None:
    """The log of a session is of others: what it says was approved is asked about again."""
    begin(player, policy=evolve(POLICY, max_parallel=1))
    player.reply(write("a"), write("b"), shell("c"))
    for call in tuple(player.asked):
        player.approve(call)
    player.checks, player.runs, player.timers = {}, {}, {}
    player.asked.clear()
    player.deliver(Resumed(doubted=True, policy=POLICY, tools=TOOLS))
    player.settle()


def edited_into(player: Player) -> None:
    """A person corrects a call so that a rule denies it, and then so that none does."""
    begin(player, rule(Decision.DENY, uses="keys"))
    player.reply(shell("a"))
    call = next(iter(player.asked))
    player.deliver(Correct(call=call, input=path_of("keys/b")))
    player.check()
    player.deliver(Correct(call=call, input=path_of("c")))
    player.settle()


# --- redaction ----------------------------------------------------------------------------------------------


def telling(player: Player) -> None:
    """Inputs hold secrets under keys of several spellings, deep down, beside what only sounds like one."""
    player.begin()
    player.say("go")
    secrets: dict[str, JsonValue] = {"apiKey": "s", "X-Auth-Token": "s", "max_tokens": 3, "monkey": "m", "path": "a"}
    player.reply(
        Call("read", Json.of({"path": "b", "headers": [{"Authorization": "s", "Cookie": ["s"]}]})),
        Call("bare", Json.of(secrets)),
        Call("bare", RawInput('{"password": "s')),
    )
    player.settle()


def asked_of_the_provider(player: Player) -> None:
    """The provider itself runs a call, whose input and output hold secrets."""
    player.begin()
    player.say("go")
    if player.model is not None:
        player.deliver(
            ModelServerCall(
                player.model,
                provider_id="s1",
                tool="search",
                input=Json.of({"client_secret": "s"}),
                result=Json.of({"access_token": "s", "found": 1}),
            )
        )
    player.reply(text="there")
    player.settle()


def told_elsewhere(player: Player) -> None:
    """A secret is in what a person approves for good and takes back, and a hook observes messages."""
    watching = Hook(point=HookPoint.MESSAGE_ADDED, name="watch")
    player.begin(evolve(POLICY, hooks=(watching,)))
    player.say("go")
    player.reply(Call("shell", Json.of({"path": "a", "token": "s"})))
    call = next(iter(player.asked))
    player.asked.clear()
    player.deliver(Approve(call=call, remember=RememberCall()))
    player.settle()
    player.deliver(Forget())


def corrected(player: Player) -> None:
    """A person puts a secret into the input of a call."""
    player.begin()
    player.say("go")
    player.reply(shell("a"))
    call = next(iter(player.asked))
    player.deliver(Correct(call=call, input=Json.of({"path": "b", "token": "s"})))
    player.settle()


# --- projection ---------------------------------------------------------------------------------------------


def spoken(player: Player) -> None:
    """A reply with a block of its model alone, a blank one and a call with an odd name; one stopped; blank words."""
    player.begin(evolve(POLICY, fallback_models=("second",)))
    player.say("go")
    if player.model is not None:
        player.deliver(ModelOpaque(player.model, Json.of({"signed": 1})))
    player.stream(text=" ")
    player.reply(Call("no such tool!", NOTHING), text="looking")
    player.stream(text="I was")
    player.deliver(CancelAll())
    player.model = None
    player.say("go on")
    player.reply(read("a"))
    player.end(text=" ")
    player.settle()


def spoken_elsewhere(player: Player) -> None:
    """A conversation from elsewhere, with a block of another model, is gone on with."""
    player.begin(
        start=(
            ForeignUser((TextBlock("look"), TextBlock(" "))),
            ForeignReply(content=(OpaqueBlock("elsewhere", NOTHING), TextBlock("well")), model="elsewhere"),
        )
    )
    player.say("go on")
    player.settle()


# --- results, repair, shortening ----------------------------------------------------------------------------


def broken_elsewhere(player: Player) -> None:
    """A conversation from elsewhere: two calls of one id, a result before its call, one of nobody, one of two."""
    calls = tuple(ForeignCall(provider_id=name, tool="read", input=NOTHING) for name in ("a", "b", "a", "c"))
    answer = ForeignResult(provider_id="a", status=CallStatus.DONE, content=(TextBlock("one"),))
    player.begin(
        start=(
            ForeignUser((TextBlock("look"),)),
            ForeignResults((evolve(answer, provider_id="c"),)),
            ForeignReply(content=(TextBlock("looking"), *calls), model="elsewhere"),
            ForeignResults((evolve(answer, provider_id="b"), answer)),
            ForeignUser((TextBlock("well?"),)),
            ForeignResults((answer, evolve(answer, provider_id="nobody"))),
        )
    )
    player.say("go on")
    player.reply(read("a"))
    player.settle()


def at_length(player: Player) -> None:
    """Results that are longer than they may be, and one that is not."""
    limit = ResultLimit(chars=40, head=10, tail=5)
    player.begin(evolve(POLICY, result_limit=limit))
    player.say("go")
    player.reply(read("a"), read("b"))
    player.end(text="x" * 30 + "y" * 30)
    player.end(text="z" * 40)
    player.settle()


def _guarded(player: Player, redaction: Redaction) -> None:
    """The reply under way is complete, and a guardrail has stepped in."""
    operation, player.model = player.model, None
    if operation is not None:
        player.deliver(ModelCompleted(operation, StopReason.GUARDRAIL_INTERVENED, redaction=redaction))


def _redacted(player: Player, redacts: Redacts) -> None:
    player.begin(evolve(POLICY, redacts=redacts))
    player.say("before")
    player.reply(text="so")
    player.say("go")
    player.reply(read("a"), read("b"))
    player.end()
    player.end()
    player.stream(text="what it says")
    _guarded(player, Redaction(user_text="(removed)", reply_text="(withheld)"))
    player.say("on")
    player.settle()


def redacted_results(player: Player) -> None:
    """A guardrail redacts what the model was told last, which is two results, and the reply."""
    _redacted(player, Redacts.LAST_MESSAGE)


def redacted_input(player: Player) -> None:
    """A guardrail redacts what the user said last, behind which are results, and the reply."""
    _redacted(player, Redacts.INPUT)


def still_empty_naturally(player: Player) -> None:
    """A reply says nothing, is nudged, and says nothing again: that is an end."""
    player.begin(evolve(POLICY, still_empty=StillEmpty.NATURAL))
    player.say("go")
    player.reply()
    player.reply()
    player.settle()


def _broken(player: Player, policy: Policy) -> None:
    player.begin(policy)
    player.say("go")
    player.stream(text="whole and")
    player.fail(ErrorClass.NETWORK, unfinished=4)
    player.settle()
    player.say("on")
    player.stream(read("a"), text="first")
    player.fail(ErrorClass.NETWORK)
    player.settle()


def broken_and_kept(player: Player) -> None:
    """A stream breaks behind a text that was whole, and another one behind a call: both stay."""
    _broken(player, evolve(POLICY, on_broken_stream=OnBrokenStream.KEEP))


def broken_and_retried(player: Player) -> None:
    """The same, and nothing stays."""
    _broken(player, POLICY)


def _asked_whole(player: Player, begun: str) -> None:
    player.begin(evolve(POLICY, retry=Retry(unstreamed=(ErrorClass.SERVER,))))
    player.say("go")
    player.stream(text=begun)
    player.fail(ErrorClass.SERVER)
    player.fail(ErrorClass.SERVER)
    player.settle()


def failed_within_a_stream(player: Player) -> None:
    """A stream that has begun fails, and its reply is asked for whole, at once."""
    _asked_whole(player, "so")


def failed_before_a_stream(player: Player) -> None:
    """A request fails before anything of its reply has come, and is retried."""
    _asked_whole(player, "")


def without_the_calls(player: Player) -> None:
    """Replies stop for calls and have none: asked again, and then an error."""
    player.begin(evolve(POLICY, missing_call_retries=2))
    player.say("go")
    player.reply(text="I shall", stop=StopReason.TOOL_USE)
    player.reply(read("a"))
    player.settle()
    player.say("on")
    for _ in range(3):
        player.reply(text="I shall", stop=StopReason.TOOL_USE)
    player.settle()


def refused(player: Player) -> None:
    """The model is told of a refusal, and refuses again."""
    player.begin(evolve(POLICY, refusal_notes=1))
    player.say("go")
    player.reply(text="no", stop=StopReason.REFUSAL)
    player.reply(text="no", stop=StopReason.REFUSAL)
    player.settle()


def refused_at_once(player: Player) -> None:
    """A refusal is an end."""
    player.begin()
    player.say("go")
    player.reply(text="no", stop=StopReason.REFUSAL)
    player.settle()


def _empty_in_two_rounds(player: Player, count: NudgesCount) -> None:
    player.begin(evolve(POLICY, empty_reply_nudges=1, nudges_count=count))
    player.say("go")
    player.reply()
    player.reply(read("a"))
    player.end()
    player.reply()
    player.settle()


def nudged_by_the_round(player: Player) -> None:
    """An empty reply in each of two rounds: both are nudged."""
    _empty_in_two_rounds(player, NudgesCount.ROUND)


def nudged_by_the_turn(player: Player) -> None:
    """An empty reply in each of two rounds: the first one is nudged."""
    _empty_in_two_rounds(player, NudgesCount.TURN)


def paused_for_good(player: Player) -> None:
    """A reply pauses without calls: that is an end."""
    player.begin(evolve(POLICY, on_pause=OnPause.END))
    player.say("go")
    player.reply(text="wait", stop=StopReason.PAUSE)
    player.settle()


def _paused(player: Player, times: int) -> None:
    player.begin()
    player.say("go")
    for _ in range(times):
        player.reply(text="wait", stop=StopReason.PAUSE)
    player.reply(text="so")
    player.settle()


def paused_once(player: Player) -> None:
    """A reply pauses, and is gone on with."""
    _paused(player, 1)


def paused_twice(player: Player) -> None:
    """Two replies pause, and are gone on with."""
    _paused(player, 2)


def _clears_at_the_end(player: Player, trigger_tokens: int) -> None:
    clears = Compaction(
        strategy=CompactionStrategy.CLEAR,
        when=CompactionMoment.TURN_END,
        trigger_ratio=None,
        trigger_tokens=trigger_tokens,
        keep_turns=1,
    )
    player.begin(evolve(POLICY, compaction=clears, clear_results=None))
    for _ in range(3):
        player.say("go")
        player.reply(read("a"))
        player.end()
        player.reply(text="so")
    player.settle()


def cleared_at_the_end(player: Player) -> None:
    """The results of earlier turns are cleared when a turn ends: each reply tells of more tokens than it takes."""
    _clears_at_the_end(player, USAGE.total)


def short_at_the_end(player: Player) -> None:
    """Turns end with one token too few for results to be cleared."""
    _clears_at_the_end(player, USAGE.total + 1)


def into_a_file(player: Player) -> None:
    """A shell, whose long output goes to a file, and a tool that reads."""
    limit = ResultLimit(oversize=Oversize.SPILL)
    policy = evolve(POLICY, result_limit=limit, approval_mode=ApprovalMode.BYPASS)
    player.begin(policy, (*TOOLS, RUN))
    player.say("go")
    player.stream(Call("run", Json.of({"command": "ls"})), read("a"))
    player.complete(StopReason.TOOL_USE)
    for operation in tuple(player.checks):
        del player.checks[operation]
        player.deliver(ToolChecked(operation, ValidCall(())))
    player.settle()


# --- work -------------------------------------------------------------------------------------------------


def in_folders(player: Player) -> None:
    """One call writes into a folder that another reads."""
    player.begin()
    player.say("go")
    player.reply(write("a/b"), read("a"), read("c"))
    player.settle()


def alike(player: Player) -> None:
    """A tool is called again and again: with about the same, page by page, and with something else."""
    player.begin(evolve(POLICY, loop=LoopTiers(note=3, disable=None, stop=6)))
    player.say("go")
    for line in range(4):
        player.reply(Call("read", Json.of({"path": "a", "line": line})))
        player.end()
    player.say("page by page")
    for page in range(4):
        player.reply(Call("read", Json.of({"path": "a", "page": page})))
        player.end()
    player.say("others")
    for path in "abcd":
        player.reply(read(path))
        player.end()
    player.settle()


def taken_up(player: Player) -> None:
    """The process dies while a person is asked, who has only so much time, and while a run is to stop."""
    player.begin(evolve(POLICY, approval_timeout_ms=10_000))
    player.say("go")
    player.reply(shell("a"), write("b"))
    player.crash()
    player.settle()
