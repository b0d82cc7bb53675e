"""JSON for everything that leaves the process: log records, states, policies, and effects for comparison.

Each text is canonical: equal values give equal bytes, in any process. Reading raises CodecError, which
names every fault and its path.
"""

from functools import cache

from attrs import evolve

from loopkernel.codec.documents import dumps, loads
from loopkernel.codec.structure import Codec
from loopkernel.data.effects import AskHook, CallModel, CheckCorrection, Effect, HandOff, Summarise, TellHook
from loopkernel.data.json_text import JsonValue, exact_text
from loopkernel.data.policy import Policy
from loopkernel.data.records import LogRecord
from loopkernel.data.states import State
from loopkernel.data.threads import Thread

__all__ = [
    "POLICY_VERSION",
    "STATE_VERSION",
    "effects_to_text",
    "policy_from_text",
    "policy_to_text",
    "record_from_text",
    "record_to_text",
    "state_from_text",
    "state_to_text",
]

STATE_VERSION = 8
POLICY_VERSION = 7


@cache
def _record_codec() -> Codec[LogRecord]:
    return Codec.of(LogRecord)


@cache
def _state_codec() -> Codec[State]:
    codec: Codec[State] = Codec.of(State)
    return codec


@cache
def _policy_codec() -> Codec[Policy]:
    return Codec.of(Policy)


@cache
def _effect_codec() -> Codec[Effect]:
    codec: Codec[Effect] = Codec.of(Effect)
    return codec


def record_to_text(record: LogRecord) -> str:
    """One record of a log, as one line of JSON without its end."""
    return _record_codec().encode_text(record)


def record_from_text(text: str) -> LogRecord:
    """The record that a line holds."""
    return _record_codec().decode_text(text)


def effects_to_text(effects: tuple[Effect, ...]) -> str:
    """The effects of a step, for comparing runs.

    A thread in a command stands as its generation and length: the messages themselves are in the events
    that added them, so equal texts of all steps still mean equal threads.
    """
    return exact_text([_effect_to_json(effect) for effect in effects])


def _effect_to_json(effect: Effect) -> JsonValue:
    if isinstance(effect, CallModel):
        thread = effect.request.thread
        bare: Effect = evolve(effect, request=evolve(effect.request, thread=Thread()))
    elif isinstance(effect, AskHook | TellHook):
        thread = effect.context.thread
        bare = evolve(effect, context=evolve(effect.context, thread=Thread()))
    elif isinstance(effect, CheckCorrection | Summarise | HandOff):
        thread = effect.thread
        bare = evolve(effect, thread=Thread())
    else:
        return _effect_codec().encode(effect)
    handle: JsonValue = {"generation": thread.generation, "length": len(thread)}
    return {"thread": handle, "command": _effect_codec().encode(bare)}


def state_to_text(state: State) -> str:
    """A snapshot of a state, as a versioned document."""
    return dumps(state, "state", STATE_VERSION, _state_codec())


def state_from_text(text: str) -> State:
    """The state of a snapshot."""
    return loads(text, "state", STATE_VERSION, _state_codec())


def policy_to_text(policy: Policy) -> str:
    """A policy, as a versioned document; what equals its default is left out."""
    return dumps(policy, "policy", POLICY_VERSION, _policy_codec())


def policy_from_text(text: str) -> Policy:
    """The policy of a document; what it leaves out has its default."""
    return loads(text, "policy", POLICY_VERSION, _policy_codec())
