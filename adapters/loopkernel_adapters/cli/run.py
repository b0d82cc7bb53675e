"""`loopkernel run TASK`: one task, shown as it happens, and then held against its own log."""

from contextlib import ExitStack
from functools import partial

from loopkernel.data.blocks import TextBlock
from loopkernel.data.events import Event
from loopkernel.data.states import Backoff, Confirming
from loopkernel.data.user_deltas import Say, UserDelta
from loopkernel.later_typing import override

from loopkernel_adapters.cli.countdown import Countdown
from loopkernel_adapters.cli.dialogue import Dialogue
from loopkernel_adapters.cli.interrupts import Interrupts
from loopkernel_adapters.cli.introduction import doubt_told
from loopkernel_adapters.cli.json_lines import JsonDialogue, JsonTeller, tell_beginning, tell_result
from loopkernel_adapters.cli.line_input import LineInput, standard_input
from loopkernel_adapters.cli.options import Approvals, Options
from loopkernel_adapters.cli.outcomes import ExitStatus, Unusable
from loopkernel_adapters.cli.screen import NoScreen, Screen, for_questions
from loopkernel_adapters.cli.session import Conversation, Played, Workbench, begun, play
from loopkernel_adapters.cli.summary import summarise
from loopkernel_adapters.cli.toolbox import isolation_told
from loopkernel_adapters.cli.trace import Trace
from loopkernel_adapters.driver.asyncio_driver import Driver
from loopkernel_adapters.optional_ports import Address

# --- the conversation: one message, and answers to what is asked -----------------------------------------


def said(text: str) -> Say:
    """The message of that text."""
    return Say(content=(TextBlock(text),))


class OneTurn(Conversation):
    """Sends `first` and then answers what is asked."""

    def __init__(self, first: tuple[UserDelta, ...], dialogue: Dialogue, countdown: Countdown) -> None:
        self._first = first
        self._dialogue = dialogue
        self._countdown = countdown

    @override
    def see(self, event: Event) -> None:
        self._dialogue.see(event)
        self._countdown.see(event)

    @override
    def see_of_child(self, within: Address, event: Event) -> None:
        self._dialogue.see_of_child(within, event)

    @override
    async def hold(self, driver: Driver, interrupts: Interrupts) -> None:
        for delta in self._first:
            await driver.send(delta)
        await self._countdown.wait(driver)
        while isinstance(driver.state, Confirming | Backoff):
            if isinstance(driver.state, Confirming):
                await self._dialogue.attend(driver)
            else:
                await self._countdown.attend(driver)
            await self._countdown.wait(driver)


# --- `loopkernel run TASK` -------------------------------------------------------------------------------


def run(text: str, options: Options, screen: Screen) -> ExitStatus:
    """Run the task, and say how it went. Raises Unusable when it cannot begin or the log cannot be written."""
    if not text.strip():
        raise Unusable('the task is empty; say what to do, for example "Read notes.txt and say what it says"')
    with ExitStack() as resources:
        bench = begun(options, None, resources)  # so that whatever ends it, it can be gone on with
        played = play_turn(bench, (said(text),), options, screen)
        if options.json:
            return tell_result(played, bench, screen)
        return summarise(played, bench, screen)


def play_turn(bench: Workbench, first: tuple[UserDelta, ...], options: Options, screen: Screen) -> Played:
    """Send these, put to the person what waits for one, and tell what happens. Raises Unusable."""
    answers = LineInput(None) if options.approvals is Approvals.NEVER else standard_input()
    if options.json:
        silent = NoScreen()
        spoken = OneTurn(first, JsonDialogue(answers, screen, bench.store.records), Countdown(LineInput(None), silent))
        announce = partial(tell_beginning, bench, screen)
        return play(bench, spoken, (JsonTeller(screen, bench.store.records),), silent, announce)
    shown = for_questions(screen) if answers.is_terminal else screen
    screen.hide = shown.hide = bench.secrets.hide
    conversation = OneTurn(first, Dialogue(answers, shown, bench.store.records), Countdown(answers, shown))
    return play(bench, conversation, (Trace(screen, bench.store.records),), screen, partial(_announce, bench, screen))


def _announce(bench: Workbench, screen: Screen) -> None:
    if bench.doubt is not None:
        screen.labelled("not believed", doubt_told(bench.doubt))
    for line in isolation_told(bench.options, bench.offered):
        screen.labelled("", line)
