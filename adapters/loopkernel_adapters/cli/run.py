"""`loopkernel run TASK`: one task, shown as it happens, and then held against its own log."""

from contextlib import ExitStack
from functools import partial

from loopkernel.data.user_deltas import UserDelta

from loopkernel_adapters.cli.countdown import Countdown
from loopkernel_adapters.cli.dialogue import Dialogue
from loopkernel_adapters.cli.introduction import doubt_told
from loopkernel_adapters.cli.isolation import isolation_told
from loopkernel_adapters.cli.json_lines import JsonDialogue, JsonTeller, tell_beginning, tell_result
from loopkernel_adapters.cli.line_input import LineInput, standard_input
from loopkernel_adapters.cli.one_turn import OneTurn, said
from loopkernel_adapters.cli.options import Approvals, Options
from loopkernel_adapters.cli.outcomes import ExitStatus, Unusable
from loopkernel_adapters.cli.screen import NoScreen, Screen, for_questions
from loopkernel_adapters.cli.session import Played, Workbench, begun, play
from loopkernel_adapters.cli.summary import summarise
from loopkernel_adapters.cli.trace import Trace


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
