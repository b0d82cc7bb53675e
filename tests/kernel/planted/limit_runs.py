"""Runs for the planted bugs about limits of a reply under way."""

from collections.abc import Mapping
from types import MappingProxyType

from attrs import evolve
from loopkernel.data.model_deltas import ModelReasoning, ModelUsage
from loopkernel.data.usage import Usage
from loopkernel.data.user_deltas import ChangePolicy
from loopkernel.data.words import TimerPurpose
from loopkernel.testing.played.player import Player, Script
from loopkernel.testing.played.tools import POLICY, Call, path_of, write


def timed_reply(player: Player) -> None:
    """The time of a turn ends its reply, amid text, amid calls of which one runs, and after a change of policy."""
    player.begin(evolve(POLICY, max_wall_ms=500))
    player.say("go")
    player.stream(text="Once")
    player.expire(TimerPurpose.WALL_TIME)
    player.settle()
    player.say("again")
    player.stream(Call("glance", path_of("a")), write("b"), text="I look")
    player.check()
    player.expire(TimerPurpose.WALL_TIME)
    player.settle()
    player.say("and again")
    player.deliver(ChangePolicy(evolve(POLICY, max_wall_ms=300)))
    player.stream(text="Well")
    player.expire(TimerPurpose.WALL_TIME)
    player.settle()
    player.say("in time")
    player.settle()


def long_reply(player: Player) -> None:
    """A reply passes its size, by text, by reasoning, and by a call."""
    player.begin(evolve(POLICY, max_reply_chars=12))
    player.say("go")
    for piece in ("0123", "4567", "89ab", "cdef", "ghij"):
        player.stream(text=piece)
    player.settle()
    player.say("think")
    if player.model is not None:
        player.deliver(ModelReasoning(player.model, "so it is, I think"))
    player.settle()
    player.say("call")
    player.stream(Call("glance", path_of("a")), Call("glance", path_of("b")))
    player.check()
    player.settle()


def dear_reply(player: Player) -> None:
    """A reply reports more and more of what it has used, until that is too much."""
    player.begin(evolve(POLICY, max_total_tokens=50))
    player.say("go")
    for used in (20, 40, 60, 80):
        player.stream(text="and on ")
        if player.model is not None:
            player.deliver(ModelUsage(player.model, Usage(input=used)))
    player.settle()


LIMIT_SCRIPTS: Mapping[str, Script] = MappingProxyType(
    {script.__name__: script for script in (timed_reply, long_reply, dear_reply)}
)
