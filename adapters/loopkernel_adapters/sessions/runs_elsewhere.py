"""A run that somebody else carries out, as a program speaks to it from anywhere; the homes say how that gets there."""

from abc import ABC, abstractmethod

from loopkernel.data.states import State
from loopkernel.data.user_deltas import CancelAll, UserDelta
from loopkernel_adapters.driver.children import waiting_calls
from loopkernel_adapters.optional_ports import Address, NoSuchAgent
from loopkernel_adapters.ports import NoSuchRun
from loopkernel_adapters.sessions.session import Words, said
from loopkernel_adapters.sessions.waiting_calls import Answer, WaitingCall, answer_in_full, calls_waiting


class RunElsewhere(ABC):
    """What can be said to a run, and which of its calls wait for a person."""

    @abstractmethod
    async def send(self, delta: UserDelta, within: Address = ()) -> object:
        """Say anything that a person can say, to the run or to the sub-agent at that address. Raises NoSuchAgent."""

    @abstractmethod
    async def state(self, within: Address = ()) -> State:
        """The state of the run, or of the sub-agent at the address. Raises NoSuchAgent."""

    async def say(self, words: Words) -> None:
        """Say something to the model; on return it is durable. Raises what `send` does, as all that is said."""
        await self.send(said(words))

    async def approve(self, call: WaitingCall) -> None:
        """Let the call run."""
        await self.answer(call, True)

    async def reject(self, call: WaitingCall, why: str = "") -> None:
        """Do not let the call run; the model is told why."""
        await self.answer(call, why or False)

    async def answer(self, call: WaitingCall, answer: Answer) -> None:
        """Answer a call that waits for a person; see `Answer`. Raises TypeError where the answer does not fit."""
        await self.send(answer_in_full(call, answer), call.within)

    async def cancel(self) -> None:
        """Stop everything that is under way."""
        await self.send(CancelAll())

    async def waiting(self) -> tuple[WaitingCall, ...]:
        """The calls that wait for a person, those of sub-agents included."""
        own = await self.state()
        states: dict[Address, State | None] = {(): own}
        for asked in waiting_calls(own):
            address = asked.path[:-1]
            if address not in states:
                try:
                    states[address] = await self.state(address)
                except (NoSuchAgent, NoSuchRun):  # it has ended meanwhile
                    states[address] = None
        return calls_waiting(states.get)
