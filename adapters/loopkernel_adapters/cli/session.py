"""A session at the command line: what it needs is opened, it is played, and what was witnessed is told."""

import asyncio
import signal
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Protocol

from attrs import frozen
from loopkernel.data.choices import Lifetime
from loopkernel.data.events import Event
from loopkernel.data.policy import Policy
from loopkernel.data.states import State
from loopkernel.data.thread_deltas import Created
from loopkernel.data.tools import Tool

from loopkernel_adapters.agent import new_run_id
from loopkernel_adapters.cli.beginnings import note
from loopkernel_adapters.cli.interrupts import Interrupts, ended_as_by_ctrl_c
from loopkernel_adapters.cli.models import SoughtModels
from loopkernel_adapters.cli.options import Options
from loopkernel_adapters.cli.outcomes import Unusable
from loopkernel_adapters.cli.places import OneFile, Place, kept_in, opened_place, resumption, told
from loopkernel_adapters.cli.rules import instructions_of, policy_of, secrets_of
from loopkernel_adapters.cli.screen import Screen
from loopkernel_adapters.cli.servers import Running, with_servers
from loopkernel_adapters.cli.toolbox import confinement_of, opened_tools
from loopkernel_adapters.cli.verification import Witnessed, WitnessStore
from loopkernel_adapters.driver.asyncio_driver import Driver
from loopkernel_adapters.driver.children import InProcessAgents
from loopkernel_adapters.driver.clocks import WallClock
from loopkernel_adapters.driver.taking_up import AS_IT_WAS, ResumeSettings
from loopkernel_adapters.optional_ports import Address, OptionalPorts
from loopkernel_adapters.ports import Provider, RunFailed, Tools
from loopkernel_adapters.provider_keys import keys_of
from loopkernel_adapters.secrets import Secrets


class Teller(Protocol):
    """Tells what happens to whoever watches."""

    def event(self, event: Event, state: State, within: Address = ()) -> None:
        """An event of the session, or of the sub-agent `within`, and the state that it led to."""
        ...


class Conversation(Protocol):
    """Holds the person's side of a session, or that of a program in the person's place."""

    def see(self, event: Event) -> None:
        """Note an event of the session."""
        ...

    def see_of_child(self, within: Address, event: Event) -> None:
        """Note an event of a sub-agent."""
        ...

    async def hold(self, driver: Driver, interrupts: Interrupts) -> None:
        """Speak with it until nothing is left to say. Raises as the driver's `send` and `rest`."""
        ...


@frozen(kw_only=True)
class Workbench:
    """All that a session needs, open. `created` begins it where its log is empty.

    `options`, `policy` and `offered` are what it goes by from now on, for whoever is told; `resume_with` gives them to
    a log that goes on. `doubt` is why nothing of the log is believed; None: it is.
    """

    running: Running
    place: Place
    run: str
    store: WitnessStore
    created: Created
    provider: Provider
    tools: Tools
    secrets: Secrets
    options: Options
    policy: Policy
    offered: tuple[Tool, ...]
    resume_with: ResumeSettings = AS_IT_WAS
    doubt: str | None = None


@frozen(kw_only=True)
class Played:
    """What was witnessed, and the signal that ended it, if one did."""

    witnessed: Witnessed
    ended_by: signal.Signals | None


@ended_as_by_ctrl_c()
def begun(options: Options, lifetime: Lifetime | None, resources: ExitStack) -> Workbench:
    """What a new session needs. What is wrong with the options is said before anything is made. Raises Unusable."""
    running = resources.enter_context(Running())
    confined = confinement_of(options, kept_in(options.store, options.log))
    opened = opened_tools(options.folder, options.tool_set, sub_agents=options.sub_agents, confined=confined)
    tools = resources.enter_context(opened)
    policy_of(options, lifetime, (options.first_model,))
    instructions, secrets = instructions_of(options), secrets_of(options)
    sought = SoughtModels((options.first_model, *options.fallback_models), options.base_url, resources)
    tools, options = with_servers(tools, options, running)
    place: Place
    if options.log is not None:
        place = OneFile(path=options.log)
    else:
        place = resources.enter_context(opened_place(options.store, make=True))
    run = new_run_id()
    store = WitnessStore(place.open(run))
    resources.callback(store.close)
    if store.load():
        raise Unusable(
            f"the log {options.log} already holds a run; show it with `{place.command('replay', str(options.log))}`, "
            f"go on with it with `{place.command('resume', str(options.log))}`, or give this run another log"
        )
    models = sought.opened()  # last, since it takes longest
    note(place, run, options)
    policy = policy_of(options, lifetime, models.names)
    created = Created(session_id=run, policy=policy, tools=tools.offered(), instructions=instructions)
    return Workbench(
        running=running,
        place=place,
        run=run,
        store=store,
        created=created,
        provider=models.provider,
        tools=tools,
        secrets=secrets.with_keys(keys_of(models.provider)),
        options=options,
        policy=policy,
        offered=created.tools,
    )


def play(
    bench: Workbench,
    conversation: Conversation,
    tellers: Sequence[Teller],
    screen: Screen,
    announce: Callable[[], None],
) -> Played:
    """Run the session until the conversation is over. Raises Unusable when the log cannot be written.

    `announce` says which run it is, once the store has it: what was announced can always be gone on with.
    """
    try:
        with told("the run was stopped"), bench.running as running:
            return running.run(_play(bench, conversation, tellers, screen, announce))
    except Unusable as error:
        where, go_on = bench.place.described(bench.run), resumption(bench.place, bench.run)
        then = "" if go_on is None else f"; go on with `{go_on}`"
        raise Unusable(f"{error}. It is {where}{then}") from error


async def _play(
    bench: Workbench,
    conversation: Conversation,
    tellers: Sequence[Teller],
    screen: Screen,
    announce: Callable[[], None],
) -> Played:
    seen: list[Event] = []

    def tell(event: Event) -> None:
        if not seen:  # the first one: the store has what it tells of
            announce()
        for teller in tellers:
            teller.event(event, driver.state)

    def tell_of_child(within: Address, event: Event) -> None:
        for teller in tellers:
            teller.event(event, driver.state_of(within) or driver.state, within)

    driver = await Driver.open(
        store=bench.store,
        created=bench.created,
        provider=bench.provider,
        tools=bench.tools,
        clock=WallClock(),
        observers=(tell, seen.append, conversation.see),
        secrets=bench.secrets,
        optional=OptionalPorts(agents=InProcessAgents(bench.place.children(bench.run))),
        child_observers=(tell_of_child, conversation.see_of_child),
        resume_with=bench.resume_with,
    )
    interrupts = Interrupts(driver, screen)
    with interrupts.heeded():
        async with driver:
            try:
                with screen.watching(lambda: driver.state):
                    await conversation.hold(driver, interrupts)
            except asyncio.CancelledError:
                about = "; what was under way is not recorded as ended" if interrupts.cut_short else ""
                screen.labelled("interrupt", f"quitting{about}")
            except RunFailed:  # `on_error: raise`: the error has been shown, and the outcome tells it again
                screen.end_stream()
            finally:
                interrupts.over()
    witnessed = Witnessed(
        records=tuple(bench.store.records), events=tuple(seen), state=driver.state, before=bench.store.before
    )
    return Played(witnessed=witnessed, ended_by=interrupts.ended_by)
