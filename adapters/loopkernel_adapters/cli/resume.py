"""`loopkernel resume RUN`: a run gone on with where its log ends, as it was begun."""

from contextlib import ExitStack

from loopkernel.data.choices import Lifetime
from loopkernel.data.sessions import Settings
from loopkernel.data.states import Done, State
from loopkernel.data.thread_deltas import Created
from loopkernel.data.tools import Tool
from loopkernel.replaying import START, replay

from loopkernel_adapters.blocking_ports import BlockingStore
from loopkernel_adapters.cli.approvals import tell_allowed
from loopkernel_adapters.cli.beginnings import note_again, remembered
from loopkernel_adapters.cli.chat import play_chat
from loopkernel_adapters.cli.interrupts import ended_as_by_ctrl_c
from loopkernel_adapters.cli.json_lines import tell_over, tell_result
from loopkernel_adapters.cli.models import SoughtModels
from loopkernel_adapters.cli.options import Options
from loopkernel_adapters.cli.outcomes import ExitStatus, Unusable
from loopkernel_adapters.cli.places import Place, located, run_or_file, told
from loopkernel_adapters.cli.recording_files import to_be_no_recording
from loopkernel_adapters.cli.rules import instructions_of, policy_from_now_on, policy_of, secrets_of
from loopkernel_adapters.cli.run import play_turn
from loopkernel_adapters.cli.screen import NoScreen, Screen
from loopkernel_adapters.cli.servers import Running, with_servers
from loopkernel_adapters.cli.session import Workbench
from loopkernel_adapters.cli.summary import status_of, summarise
from loopkernel_adapters.cli.toolbox import confinement_of, opened_tools
from loopkernel_adapters.cli.verification import WitnessStore
from loopkernel_adapters.cli.words import counted, tell_open
from loopkernel_adapters.driver.taking_up import ResumeSettings
from loopkernel_adapters.ports import Tools, demand_same_rules
from loopkernel_adapters.provider_keys import keys_of
from loopkernel_adapters.stores.jsonl import JsonlStore


def resume(name: str, given: Options, screen: Screen) -> ExitStatus:
    """Go on with the run. Raises Unusable when it is not there, is open elsewhere, or cannot be trusted."""
    with ExitStack() as resources:
        place, run = resources.enter_context(located(name, given.store))
        with to_be_no_recording(name, "continue", "goes on with it"):
            before = place.read(run)  # first, so that a log that is not there is not made
        store = place.open(run)
        resources.callback(store.close)
        state, doubt = found_in(store, run)
        if state.session is None:
            raise Unusable(f"{place.described(run)} holds no run yet; begin one with `{place.command('chat')}`")
        settings, shown = state.session.settings, NoScreen() if given.json else screen
        if isinstance(state, Done) and given.json:
            return tell_over(state, run, screen)
        if isinstance(state, Done):
            shown.labelled("run", f"{settings.session_id} is over: {state.reason.value}; nothing can be added to it")
            shown.labelled("see", place.command("log", run_or_file(place, run)))
            return status_of(state.reason)
        shown.labelled("run", f"{settings.session_id}, session of {counted(len(state.session.thread), 'message')}")
        if isinstance(store, JsonlStore) and store.torn_tail is not None:
            shown.labelled("torn tail", f"line {store.torn_tail.line} was never finished, and has been cut off")
        tell_open(state, shown)
        if doubt is None:
            tell_allowed(settings, shown)
        bench = workbench_of(place, run, WitnessStore(store, before), settings, given, doubt, resources)
        if settings.policy.lifetime is Lifetime.SESSION:
            return play_chat(bench, (), given, screen)
        played = play_turn(bench, (), given, screen)
        if given.json:
            return tell_result(played, bench, screen)
        return summarise(played, bench, screen)


@ended_as_by_ctrl_c()
def workbench_of(
    place: Place,
    run: str,
    store: WitnessStore,
    settings: Settings,
    given: Options,
    doubt: str | None,
    resources: ExitStack,
) -> Workbench:
    """What the run needs to go on: as it was begun, but for what is given. Raises Unusable.

    Of a run that is doubted, what is not given is as for a new one.
    """
    options = remembered(place, settings.session_id, given)
    confined = confinement_of(options, place.folder())
    opened = opened_tools(options.folder, options.tool_set, sub_agents=options.sub_agents, confined=confined)
    tools = resources.enter_context(opened)
    running = resources.enter_context(Running())
    tools, options = with_servers(tools, options, running)
    secrets = secrets_of(options)
    specs = (options.first_model, *options.fallback_models)
    models = SoughtModels(specs, options.base_url, resources).opened()
    if doubt is None:
        policy, offered = policy_from_now_on(settings.policy, given, models.names), _offered(tools, settings, given)
    else:
        policy, offered = policy_of(given, settings.policy.lifetime, models.names), tools.offered()
    instructions = None if given.instructions is None else instructions_of(given)
    note_again(place, settings.session_id, given, options)
    return Workbench(
        running=running,
        place=place,
        run=run,
        store=store,
        created=Created(session_id=settings.session_id, policy=policy, tools=offered),
        provider=models.instead_of((settings.policy.model, *settings.policy.fallback_models)),
        tools=tools,
        secrets=secrets.with_keys(keys_of(models.provider)),
        options=options,
        policy=policy,
        offered=offered,
        resume_with=ResumeSettings(policy=policy, tools=offered, instructions=instructions),
        doubt=doubt,
    )


def _offered(tools: Tools, settings: Settings, given: Options) -> tuple[Tool, ...]:
    """The tools that the run had, unless others are asked for, or some of them, as of a recording, are not here."""
    here = tools.offered()
    if given.tools is not None or given.isolation is not None or given.sub_agents or given.servers:
        return here
    return settings.tools if {tool.name for tool in settings.tools} <= {tool.name for tool in here} else here


def found_in(store: BlockingStore, run: str) -> tuple[State, str | None]:
    """The state that the log leads to, and why it is not believed, if it is not."""
    with told(f"run {run} cannot be opened"):
        restored = store.restore()
        demand_same_rules(restored)
        return replay(restored.records, START if restored.state is None else restored.state), restored.doubt
