"""The commands that hold a session, as functions of what is typed. Each imports what it needs when it is called."""

from typing import Annotated

from cyclopts import Parameter

from loopkernel_adapters.cli.options import NewRunOptions, TurnOptions
from loopkernel_adapters.cli.outcomes import ExitStatus
from loopkernel_adapters.cli.parameters import FLAT, Conversation, OnScreen, Recording, Run


def run(
    task: Annotated[str, Parameter(help="what to do, in your words")],
    /,
    *,
    options: Annotated[NewRunOptions, FLAT] = NewRunOptions(),
    screen: OnScreen,
) -> ExitStatus:
    """Run a task. Raises Unusable."""
    from loopkernel_adapters.cli.run import run

    return run(task, options, screen)


def chat(*, options: Annotated[NewRunOptions, FLAT] = NewRunOptions(), screen: OnScreen) -> ExitStatus:
    """Talk with an agent. Raises Unusable."""
    from loopkernel_adapters.cli.chat import chat

    return chat(options, screen)


def resume(run: Run, /, *, options: Annotated[TurnOptions, FLAT] = TurnOptions(), screen: OnScreen) -> ExitStatus:
    """Go on with a run. Raises Unusable."""
    from loopkernel_adapters.cli.resume import resume

    return resume(run, options, screen)


def continue_(
    recording: Recording,
    /,
    *,
    conversation: Conversation = None,
    options: Annotated[NewRunOptions, FLAT] = NewRunOptions(),
    screen: OnScreen,
) -> ExitStatus:
    """Chat on from the end of a recorded session. Raises Unusable."""
    from loopkernel_adapters.cli.repair import continue_recording

    return continue_recording(recording, conversation, options, screen)


def demo(*, screen: OnScreen) -> ExitStatus:
    """Let the embedded model read a file. Raises Unusable."""
    from loopkernel_adapters.cli.demo import demo

    return demo(screen)
