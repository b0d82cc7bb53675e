"""Scripted runs that endure: failures, silence, cut replies, spent limits, repetition, edits and forks."""

from collections.abc import Mapping
from types import MappingProxyType

from attrs import evolve
from loopkernel.data.blocks import TextBlock
from loopkernel.data.choices import ErrorDisplay, OnError, TruncatedCalls, TruncationEnd
from loopkernel.data.ids import MessageId, ModelOperation, RunOperation, TimerOperation
from loopkernel.data.model_deltas import ModelCompleted, ModelText, ModelUsage, Redaction
from loopkernel.data.outside_deltas import TimerFired
from loopkernel.data.policy import ClearResults, LoopTiers, Prices, Retry, Truncation
from loopkernel.data.thread_deltas import Disposed, Forked, Resumed
from loopkernel.data.tool_deltas import ToolSucceeded
from loopkernel.data.usage import Usage
from loopkernel.data.user_deltas import (
    CancelAll,
    ChangePolicy,
    DismissError,
    EditMessage,
    Enqueue,
    RetryNow,
    Steer,
)
from loopkernel.data.words import ErrorClass, StopReason, TimerPurpose
from loopkernel.testing.played.player import (
    Player,
    Script,
)
from loopkernel.testing.played.tools import (
    POLICY,
    TO_ASK,
    USAGE,
    Call,
    path_of,
    read,
    write,
)

RETRY = Retry(base_ms=100, factor=2, cap_ms=300, retries=2, jitter_ms=40)
RETRIED = evolve(POLICY, retry=RETRY, retry_after_cap_ms=1_000, silence_ms=500)
CUT = StopReason.MAX_TOKENS


def _queue(player: Player, text: str) -> None:
    player.deliver(Enqueue(content=(TextBlock(text),)))


def _steer(player: Player, text: str) -> None:
    player.deliver(Steer(content=(TextBlock(text),)))


def _edit(player: Player, message: int, text: str) -> None:
    player.deliver(EditMessage(message=MessageId(message), content=(TextBlock(text),)))


# --- failures ---------------------------------------------------------------------------------------------


def retried(player: Player) -> None:
    """Retries of two models, as the server asks, until none is left; a reply between makes them whole again."""
    player.begin(evolve(RETRIED, fallback_models=("second",)))
    player.say("go")
    player.stream(text="I")
    player.fail()
    player.fail_again(ErrorClass.OVERLOADED, 700)
    player.expire(TimerPurpose.RETRY)
    player.reply(read("a"))
    player.end()
    for _ in range(2):
        player.fail()
        player.fail_again()
        player.fail_again()
    player.deliver(RetryNow())
    player.fail(ErrorClass.RATE_LIMITED, 5_000)
    player.fail(ErrorClass.AUTH)
    player.settle()


def errors_shown(player: Player) -> None:
    """Each failure is shown at once; one that no model recovers, one that is told to the model, one that ends it."""
    player.begin(evolve(RETRIED, errors=ErrorDisplay.SHOWN))
    player.say("go")
    player.stream(text="I")
    player.fail()
    player.fail_again(ErrorClass.REFUSED)
    player.deliver(ChangePolicy(evolve(RETRIED, on_error=OnError.FEED_BACK)))
    player.say("and?")
    player.fail(ErrorClass.BAD_REQUEST)
    player.reply(read("a"))
    _queue(player, "later")
    player.end()
    player.fail(ErrorClass.BAD_REQUEST)


def too_long(player: Player) -> None:
    """The prompt is too long: results are cleared, and then nothing is left to clear."""
    player.begin(evolve(RETRIED, clear_results=ClearResults(above=9, keep=1), fallback_models=("second",)))
    player.say("go")
    player.reply(read("a"), read("b"))
    player.end()
    player.end()
    player.fail(ErrorClass.PROMPT_TOO_LONG)
    player.fail(ErrorClass.PROMPT_TOO_LONG)
    player.settle()


def waited(player: Player) -> None:
    """All that ends a wait for a retry: the user's word, a restart, a message, a cancel, a dismissal, a release."""
    player.begin(RETRIED)
    player.say("go")
    player.fail()
    _steer(player, "this way")
    player.deliver(Resumed())
    player.deliver(RetryNow())
    player.fail()
    player.fail_again()
    _queue(player, "first")
    _queue(player, "second")
    player.fail()
    _queue(player, "third")
    player.fail()
    player.deliver(CancelAll())
    player.deliver(RetryNow())
    player.fail()
    player.deliver(DismissError())
    player.deliver(RetryNow())
    player.fail()
    player.deliver(Disposed())
    player.deliver(Resumed())
    player.settle()


def silent(player: Player) -> None:
    """A stream that is heard of in time, and then no more; what it still reports is late."""
    player.begin(RETRIED)
    player.say("go")
    player.stream(text="I")
    player.expire(TimerPurpose.SILENCE)
    player.expire(TimerPurpose.SILENCE)
    player.deliver(ModelText(ModelOperation(1), "am"))
    player.deliver(ModelUsage(ModelOperation(1), Usage(input=5)))
    player.deliver(ModelCompleted(ModelOperation(1), StopReason.END_TURN, USAGE))
    player.expire(TimerPurpose.RETRY)
    player.settle()


def committed(player: Player) -> None:
    """A reply fails of which a call has written: that is awaited, and then the failure is recovered."""
    player.begin(evolve(RETRIED, fallback_models=("second",)))
    player.say("go")
    player.stream(Call("note", path_of("a")), text="so")
    player.check()
    player.fail()
    player.end()
    player.expire(TimerPurpose.RETRY)
    player.stream(Call("note", path_of("a")))
    player.check()
    player.fail(ErrorClass.UNKNOWN)
    player.end()
    player.settle()


# --- cut replies ------------------------------------------------------------------------------------------


def truncated(player: Player) -> None:
    """Replies cut at their limit: higher limits, prompts to go on, and the end; with calls, and without."""
    cut = Truncation(escalate_to=(100, 200), continuations=2)
    player.begin(evolve(RETRIED, max_output_tokens=50, max_turns=4, on_truncation=cut))
    player.say("go")
    for _ in range(5):
        player.reply(text="and", stop=CUT)
    player.deliver(ChangePolicy(evolve(RETRIED, on_truncation=evolve(cut, then=TruncationEnd.NATURAL, escalate_to=()))))
    player.say("go")
    player.reply(read("a"), text="and", stop=CUT)
    player.end()
    player.reply(text="and", stop=CUT)
    player.reply(text="and", stop=CUT)
    noted = evolve(cut, calls=TruncatedCalls.NOTE, escalate_to=())
    player.deliver(ChangePolicy(evolve(RETRIED, errors=ErrorDisplay.SHOWN, on_truncation=noted)))
    player.say("go")
    player.reply(read("a"), text="and", stop=CUT)
    player.settle()


# --- limits -----------------------------------------------------------------------------------------------


def budgeted(player: Player) -> None:
    """Tokens are spent while calls run; then nothing more is asked, however the user goes on."""
    player.begin(evolve(POLICY, max_total_tokens=2 * USAGE.total, max_parallel=1))
    player.say("go")
    player.reply(read("a"))
    player.end()
    player.reply(read("a"), read("b"))
    player.settle()
    player.deliver(RetryNow())
    _queue(player, "more")
    player.settle()


def counted_calls(player: Player) -> None:
    """Three calls may run: the next never does, though it stands in the same reply; nor does one start early."""
    player.begin(evolve(POLICY, max_tool_calls=3))
    player.say("early")
    player.stream(Call("glance", path_of("a")))
    player.check()
    player.complete()
    player.settle()
    player.say("go")
    player.reply(write("a"), write("a"), write("a"), TO_ASK)
    player.end()
    player.end()
    player.settle()
    player.deliver(ChangePolicy(evolve(POLICY, max_tool_calls=4)))
    player.say("early")
    player.stream(Call("glance", path_of("a")), Call("glance", path_of("b")))
    player.check()
    player.complete()
    player.settle()


def timed_turn(player: Player) -> None:
    """The time of the turn is over when a run reports; the other run is awaited, and a dear model is not asked."""
    player.begin(evolve(POLICY, max_wall_ms=80))
    player.say("go")
    player.reply(read("a"), read("b"), write("a"))
    player.end(fails=True)
    player.settle()
    player.deliver(ChangePolicy(evolve(POLICY, max_cost_usd=0.4, prices=Prices(input=10_000, output=50_000))))
    player.say("again")
    player.reply(read("a"))
    player.settle()


def repeated(player: Player) -> None:
    """The same call again and again: it is noted, its tool disabled, the turn stopped."""
    player.begin(evolve(POLICY, loop=LoopTiers(note=2, disable=3, disable_turns=2, stop=5)))
    player.say("go")
    for _ in range(6):
        player.reply(read("a"))
        player.end()
    player.settle()


# --- edits, forks and restarts ------------------------------------------------------------------------------


def edited(player: Player) -> None:
    """Messages are edited: amid calls, amid a reply with input waiting, in a wait for a retry, and at rest."""
    player.begin(RETRIED)
    player.say("one")
    player.reply(text="1")
    player.say("two")
    player.reply(read("a"), write("b"))
    player.end(0, background=True)
    player.end(0)
    _edit(player, 3, "three")
    player.reply(text="3")
    player.say("four")
    _queue(player, "five")
    _steer(player, "six")
    player.stream(read("c"), text="4")
    _edit(player, 8, "seven")
    player.fail()
    _edit(player, 1, "eight")
    _edit(player, 3, "gone")
    player.settle()
    _edit(player, 12, "nine")
    player.settle()


def redacted_by_a_guardrail(player: Player) -> None:
    """A guardrail changes what was said; then the model refuses, and is asked again."""
    player.begin(RETRIED)
    player.say("secret")
    player.stream(text="so")
    if player.model is not None:
        operation, player.model = player.model, None
        redaction = Redaction(user_text="(removed)", reply_text="(removed)")
        player.deliver(ModelCompleted(operation, StopReason.GUARDRAIL_INTERVENED, USAGE, redaction=redaction))
    player.say("please")
    player.reply(text="no", stop=StopReason.REFUSAL)
    player.deliver(RetryNow())
    player.settle()


def forked(player: Player) -> None:
    """New lineages begin amid calls, amid a reply, amid a wait for a retry, and at rest; the old ones report late."""
    player.begin(RETRIED)
    player.say("go")
    player.reply(write("b"), Call("eager", path_of("c")), TO_ASK)
    player.end(0, background=True)
    _queue(player, "later")
    _steer(player, "this way")
    player.deliver(Forked(session_id="second"))
    player.deliver(ToolSucceeded(RunOperation(1)))
    player.deliver(TimerFired(TimerOperation(1)))
    player.say("well")
    player.stream(Call("glance", path_of("a")), text="I")
    player.check()
    player.stream(read("z"))
    player.checks.clear()
    player.deliver(Forked(session_id="third"))
    player.deliver(ModelCompleted(ModelOperation(2), StopReason.END_TURN, USAGE))
    player.model = None
    player.runs.clear()
    player.asked.clear()
    player.say("so")
    player.fail()
    player.deliver(Forked(session_id="fourth"))
    player.deliver(Forked(session_id="fifth"))
    player.deliver(RetryNow())
    player.settle()


def crashed_again(player: Player) -> None:
    """The process dies twice amid runs; the second time a fork follows before anything is repeated."""
    player.begin(evolve(RETRIED, max_parallel=1))
    player.say("go")
    player.reply(write("a"), Call("eager", path_of("b")))
    player.crash()
    player.end()
    player.crash()
    player.deliver(Forked(session_id="second"))
    player.say("well")
    player.settle()


ENDURANCE_SCRIPTS: Mapping[str, Script] = MappingProxyType(
    {
        script.__name__: script
        for script in (
            retried,
            errors_shown,
            too_long,
            waited,
            silent,
            committed,
            truncated,
            budgeted,
            counted_calls,
            timed_turn,
            repeated,
            edited,
            redacted_by_a_guardrail,
            forked,
            crashed_again,
        )
    }
)
