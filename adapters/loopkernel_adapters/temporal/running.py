"""A run in Temporal, as a program sees it from anywhere: begun, spoken to, looked at."""

from collections.abc import Sequence
from contextlib import suppress

from loopkernel.codec import record_from_text, state_from_text
from loopkernel.data.errors import CodecError
from loopkernel.data.events import Refused
from loopkernel.data.ids import CallId
from loopkernel.data.outside_deltas import ChildEnded
from loopkernel.data.states import State
from loopkernel.later_typing import override
from loopkernel.replaying import LogRecord
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowHandle, WorkflowUpdateFailedError
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from loopkernel_adapters.agent import Agent, new_run_id
from loopkernel_adapters.driver.children import WITH_CALLS, last_said
from loopkernel_adapters.driver.taking_up import new_nonce
from loopkernel_adapters.optional_ports import Address, NoSuchAgent
from loopkernel_adapters.secret_filter import SecretFilter
from loopkernel_adapters.secrets import NO_SECRETS, Secrets
from loopkernel_adapters.sessions.runs_elsewhere import RunElsewhere
from loopkernel_adapters.temporal.documents import RUN, Carried, Input, Pace, endings, inputs, refusals
from loopkernel_adapters.temporal.documents import carried as carried_codec
from loopkernel_adapters.temporal.updates import asked, queried, updated

DEFAULT_PACE = Pace()


class InputRefused(Exception):
    """The run has not taken an input. `refused` is the kernel's word, which is in the log; None: it was no input."""

    def __init__(self, message: str, refused: Refused | None = None) -> None:
        super().__init__(message)
        self.refused = refused


async def start(
    client: Client, task_queue: str, agent: Agent, run: str | None = None, *, pace: Pace = DEFAULT_PACE
) -> "TemporalRun":
    """Begin a run of the agent, or find the one of that id that is under way. A worker of that queue carries it out.

    The id of the run is that of its workflow.
    """
    name = new_run_id() if run is None else run
    secrets = agent.ports.secrets
    created = secrets.hide_in(agent.created(name, new_nonce()))
    carried = carried_codec().encode_text(Carried(pace=pace, created=created))
    await asked(
        lambda: client.start_workflow(
            RUN,
            carried,
            id=name,
            task_queue=task_queue,
            result_type=str,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        )
    )
    return TemporalRun(client, name, secrets)


class TemporalRun(RunElsewhere):
    """A run that was begun with `start`, here or elsewhere.

    `secrets` are hidden in all that is said; without them the run's worker refuses what holds one.
    """

    def __init__(self, client: Client, run: str, secrets: Secrets = NO_SECRETS) -> None:
        self.run = run
        self._client = client
        self._filter = SecretFilter(secrets)

    @override
    async def send(self, delta: Input, within: Address = ()) -> None:
        """Say anything that the kernel understands, to the run or to the sub-agent at that address; it is in the log.

        Raises InputRefused, and NoSuchAgent where there is none.
        """
        *between, last = await self._handles(within)
        for shown in self._filter.incoming(delta):
            try:
                text = await updated(last, "send", str, _text(shown))
            except WorkflowUpdateFailedError as error:
                cause = error.cause
                words = cause.message if isinstance(cause, ApplicationError) else str(cause)
                raise InputRefused(f"the run {self.run} did not take the input: {words}") from error
            except RPCError as error:
                if within and error.status is RPCStatusCode.NOT_FOUND:
                    raise no_agent(within) from error
                raise
            await _heard(between)
            refused = refusals().decode_text(text)
            if refused is not None:
                what = f"{refused.action.value} was refused as {refused.reason.value}"
                raise InputRefused(f"the run {self.run} did not take the input: {what}", refused)

    async def rest(self) -> str:
        """Wait until nothing goes on by itself, and give what the model said last. It may take as long as it likes."""
        while not await updated(self._of(self.run), "rest", bool):
            pass
        return last_said(await self.state())

    @override
    async def state(self, within: Address = ()) -> State:
        """The state of the run, or of the sub-agent at the address. Raises NoSuchAgent."""
        return await _state((await self._handles(within))[-1])

    async def over(self) -> ChildEnded:
        """Wait for the end of the run: why it ended, what it said last, what it used."""
        return endings().decode_text(await self._of(self.run).result())

    async def log(self) -> tuple[LogRecord, ...]:
        """All records, from all histories that the server still has."""
        lines: list[str] = []
        history: str | None = (await self._of(self.run).describe()).raw_description.workflow_execution_info.first_run_id
        while history is not None:
            lines += await queried(self._of(self.run, history), "records", list[str])
            history = await self._next_history(history)
        return tuple(map(record_from_text, lines))

    async def _next_history(self, history: str) -> str | None:
        """The history that goes on where that one ended."""
        handle = self._client.get_workflow_handle(self.run, run_id=history)
        async for event in handle.fetch_history_events(page_size=1_000):
            if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
                return event.workflow_execution_continued_as_new_event_attributes.new_execution_run_id
        return None

    def _of(self, run: str, history: str | None = None) -> WorkflowHandle[object, str]:
        return self._client.get_workflow_handle(run, run_id=history, result_type=str)

    async def _handles(self, within: Address) -> list[WorkflowHandle[object, str]]:
        """The workflow of the run, and behind it those of the sub-agents down to that address. Raises NoSuchAgent."""
        handles = [self._of(self.run)]
        for depth, call in enumerate(within, 1):
            session = _session_of(await _state(handles[-1]), call)
            if session is None:
                raise no_agent(within[:depth])
            handles.append(self._of(session))
        return handles


def no_agent(address: Address) -> NoSuchAgent:
    """That there is none at the address."""
    return NoSuchAgent(f"no sub-agent runs for call {'/'.join(map(str, address))}")


async def _heard(sessions: Sequence[WorkflowHandle[object, str]]) -> None:
    """Wait until what the last of them was told by its sub-agent is known to the first, by way of all between."""
    for handle in reversed(sessions[1:]):
        with suppress(RPCError):  # it has ended, and so it has told all that there was
            await updated(handle, "told", bool)


def _text(delta: object) -> str:
    """The input as text. Raises InputRefused for what is none."""
    try:
        return inputs().encode_text(delta)  # type: ignore[arg-type]  # the codec says what is wrong with it
    except CodecError as error:
        raise InputRefused(f"this is not an input of a run: {error}") from error


async def _state(handle: WorkflowHandle[object, str]) -> State:
    return state_from_text(await queried(handle, "state", str))


def _session_of(state: State, call: CallId) -> str | None:
    """The session of the sub-agent that runs for the call; None: there is none."""
    for entry in state.ledger.entries if isinstance(state, WITH_CALLS) else ():
        if entry.call.id == call and entry.child is not None and entry.is_open:
            return entry.child.session_id
    return None
