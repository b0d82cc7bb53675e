"""`loopkernel run TASK`: one task, shown as it happens, and then held against its own log."""

import asyncio
import enum
import os
import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path

from attrs import frozen
from loopkernel.data.blocks import TextBlock
from loopkernel.data.choices import ApprovalMode, Lifetime
from loopkernel.data.events import Event
from loopkernel.data.policy import Policy, Retry
from loopkernel.data.states import Backoff, Confirming, State
from loopkernel.data.thread_deltas import Created
from loopkernel.data.user_deltas import CancelAll, Say

from loopkernel_adapters.cli.countdown import Countdown
from loopkernel_adapters.cli.dialogue import Dialogue
from loopkernel_adapters.cli.invocation import command
from loopkernel_adapters.cli.line_input import LineInput, standard_input
from loopkernel_adapters.cli.outcomes import ExitStatus, Unusable
from loopkernel_adapters.cli.screen import Screen, for_questions
from loopkernel_adapters.cli.scripts import read_script
from loopkernel_adapters.cli.summary import summarise
from loopkernel_adapters.cli.trace import show
from loopkernel_adapters.cli.verification import Witnessed, WitnessStore
from loopkernel_adapters.driver.asyncio_driver import Driver
from loopkernel_adapters.driver.children import InProcessAgents
from loopkernel_adapters.driver.clocks import WallClock
from loopkernel_adapters.optional_ports import NO_PORTS, Address, OptionalPorts
from loopkernel_adapters.ports import Provider, Store, StoreError, ToolError, Tools
from loopkernel_adapters.providers.by_model import ProviderByModel
from loopkernel_adapters.providers.local import MODEL_NAME, LocalProvider, ModelMissing, find_model
from loopkernel_adapters.stores.folders import JsonlFolder
from loopkernel_adapters.stores.jsonl import JsonlStore, NotALog
from loopkernel_adapters.tools.delegation import delegate_tool
from loopkernel_adapters.tools.files import FileTools, Workspace
from loopkernel_adapters.tools.registry import Registry

LOCAL = "local"
SCRIPTED = "scripted:"
DEFAULT_MAX_TURNS = 10
DEFAULT_RETRIES = Retry().retries
LOG_FOLDER = Path(".loopkernel")  # hidden, so that no tool reads a log


class Approvals(enum.Enum):
    """Who lets a call run whose tool asks."""

    ASK = "ask"
    ALWAYS = "always"
    NEVER = "never"


MODES = {
    Approvals.ASK: ApprovalMode.DEFAULT,
    Approvals.ALWAYS: ApprovalMode.BYPASS,
    Approvals.NEVER: ApprovalMode.HEADLESS,
}

# What the embedded model can take in one request, at one byte a token, with room for the rest of the prompt.
READ_BYTES = 3_000


@frozen(kw_only=True)
class Task:
    """What `run` is asked for. Without a log it makes one of its own in LOG_FOLDER."""

    text: str
    workspace: Path = Path()
    log: Path | None = None
    provider: str = LOCAL
    fallback_providers: tuple[str, ...] = ()
    max_turns: int = DEFAULT_MAX_TURNS
    max_total_tokens: int | None = None
    retries: int = DEFAULT_RETRIES
    approvals: Approvals = Approvals.ASK
    sub_agents: bool = False

    @property
    def providers(self) -> dict[str, str]:
        """By the name of its model, what `--provider` or `--fallback-model` names, in the order of asking."""
        first = MODEL_NAME if self.provider == LOCAL else SCRIPTED.rstrip(":")
        others = {MODEL_NAME if name == LOCAL else name: name for name in self.fallback_providers}
        return {first: self.provider, **{model: name for model, name in others.items() if model != first}}

    @property
    def policy(self) -> Policy:
        """What the run goes by."""
        model, *fallback_models = self.providers
        return Policy(
            lifetime=Lifetime.TASK,
            model=model,
            fallback_models=tuple(fallback_models),
            max_turns=self.max_turns,
            max_total_tokens=self.max_total_tokens,
            retry=Retry(retries=self.retries),
            approval_mode=MODES[self.approvals],
        )


def run(task: Task, screen: Screen) -> ExitStatus:
    """Run the task, and say how it went. Raises Unusable when it cannot begin or the log cannot be written."""
    if not task.text.strip():
        raise Unusable('the task is empty; say what to do, for example "Read notes.txt and say what it says"')
    with ExitStack() as resources:
        tools = resources.enter_context(file_tools(task.workspace, sub_agents=task.sub_agents))
        loading = {model: opened_provider(name) for model, name in task.providers.items()}
        path = new_log_path() if task.log is None else task.log
        store = WitnessStore(opened_store(path))
        children = JsonlFolder(path.with_name(f"{path.name}.agents"))
        resources.callback(store.close)
        # Last, since it takes longest.
        models = {model: resources.enter_context(opening) for model, opening in loading.items()}
        answers = LineInput(None) if task.approvals is Approvals.NEVER else standard_input()
        session = Session(
            provider=ProviderByModel(models),
            tools=tools,
            store=store,
            policy=task.policy,
            screen=screen,
            answers=answers,
            optional=OptionalPorts(agents=InProcessAgents(children)),
        )
        try:
            witnessed = asyncio.run(session.run(task.text))
        except StoreError as error:
            raise Unusable(f"the run was stopped: {error}") from error
    return summarise(witnessed, path, children.files(), screen)


@contextmanager
def file_tools(folder: Path, *, sub_agents: bool) -> Iterator[Tools]:
    """The tools for a workspace, which is open meanwhile; with one for sub-agents, if wanted. Raises Unusable."""
    try:
        workspace = Workspace(folder)
    except OSError as error:
        raise Unusable(
            f"the workspace {folder} cannot be opened: {error.strerror}; name a folder with --workspace DIR"
        ) from error
    with workspace:
        try:
            tools = Registry((*FileTools(workspace, READ_BYTES).all(), *((delegate_tool(),) if sub_agents else ())))
        except ToolError as error:
            raise Unusable(f"the workspace {folder} cannot be listed: {error}") from error
        yield tools


def opened_provider(name: str) -> AbstractContextManager[Provider]:
    """The model that `--provider` names: sought now, loaded when the context is entered. Both raise Unusable."""
    if name.startswith(SCRIPTED):
        return nullcontext(read_script(Path(name.removeprefix(SCRIPTED))))
    if name != LOCAL:
        raise Unusable(f"there is no provider {name}; choose {LOCAL} or {SCRIPTED}FILE")
    try:
        find_model()
    except ModelMissing as error:
        raise Unusable(f"there is no model: {error}") from error
    return _loaded_model()


@contextmanager
def _loaded_model() -> Iterator[Provider]:
    try:
        provider = LocalProvider.load()
    except ModelMissing as error:
        raise Unusable(f"there is no model: {error}") from error
    try:
        yield provider
    finally:
        provider.close()


def new_log_path() -> Path:
    """A path for the log of this run, in a folder that is made if need be. Raises Unusable."""
    try:
        LOG_FOLDER.mkdir(exist_ok=True)
    except OSError as error:
        raise Unusable(
            f"the folder for logs, {LOG_FOLDER.absolute()}, cannot be made: {error.strerror}; "
            "say where the log may lie, with --log FILE"
        ) from error
    return LOG_FOLDER / f"run-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.jsonl"


def opened_store(path: Path) -> Store:
    """A new log at the path. Raises Unusable."""
    try:
        store = JsonlStore(path)
    except NotALog as error:
        raise Unusable(
            f"{path} is not a log of loopkernel (line 1 is no record), so no run is written to it. "
            "Nothing was changed. Name a new file with --log"
        ) from error
    except StoreError as error:
        raise Unusable(f"the log cannot be used: {error}") from error
    except OSError as error:
        raise Unusable(
            f"the log {path} cannot be opened: {error.strerror}; name a file in a folder that can be written"
        ) from error
    if store.load():
        store.close()
        raise Unusable(
            f"the log {path} already holds a run; show it with `{command('replay', path)}`, "
            "or give this run another log"
        )
    return store


@frozen(kw_only=True)
class Session:
    """One run under way: what it needs, where it is shown, and whence a person answers."""

    provider: Provider
    tools: Tools
    store: WitnessStore
    policy: Policy
    screen: Screen
    answers: LineInput
    optional: OptionalPorts = NO_PORTS

    async def run(self, text: str) -> Witnessed:
        """Say the text, put to the person what waits for one, and tell what was witnessed.

        Raises StoreError when the log fails.
        """
        seen: list[Event] = []
        shown = for_questions(self.screen) if self.answers.is_terminal else self.screen
        dialogue = Dialogue(self.answers, shown, self.store.records)
        countdown = Countdown(self.answers, shown)

        def show_of_child(within: Address, event: Event) -> None:
            show(self.screen, event, driver.state_of(within) or driver.state, within)

        driver = Driver.open(
            store=self.store,
            created=Created(session_id=uuid.uuid4().hex, policy=self.policy, tools=self.tools.offered()),
            provider=self.provider,
            tools=self.tools,
            clock=WallClock(),
            observers=(lambda event: show(self.screen, event, driver.state), seen.append, dialogue.see, countdown.see),
            optional=self.optional,
            child_observers=(show_of_child, dialogue.see_of_child),
        )
        async with driver:
            with interruptible(driver, self.screen):
                try:
                    await driver.send(Say(content=(TextBlock(text),)))
                    await countdown.wait(driver)
                    while isinstance(driver.state, Confirming | Backoff):
                        await (dialogue if isinstance(driver.state, Confirming) else countdown).attend(driver)
                        await countdown.wait(driver)
                except asyncio.CancelledError:
                    self.screen.labelled("interrupt", "quitting; what was under way is not recorded as ended")
        state: State = driver.state
        return Witnessed(records=tuple(self.store.records), events=tuple(seen), state=state)


@contextmanager
def interruptible(driver: Driver, screen: Screen) -> Iterator[None]:
    """Ctrl-C cancels everything and lets the turn end; a second one quits at once."""
    loop = asyncio.get_running_loop()
    running = asyncio.current_task()
    cancelling: list[asyncio.Task[None]] = []

    def interrupt() -> None:
        if cancelling and running is not None:
            loop.remove_signal_handler(signal.SIGINT)
            running.cancel()
            return
        screen.labelled("interrupt", "cancelling; press Ctrl-C again to quit at once")
        cancelling.append(loop.create_task(driver.send(CancelAll())))

    try:
        loop.add_signal_handler(signal.SIGINT, interrupt)
    except (RuntimeError, ValueError):  # not in the main thread: then Ctrl-C is not ours to handle
        yield
        return
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
