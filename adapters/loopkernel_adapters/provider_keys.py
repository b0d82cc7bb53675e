"""The keys that a provider uses: secrets of the session that nobody has registered, and that no tool is ever given.

A provider that has any names them in `secret_keys`; one that stands before others gives theirs. The driver hides them
wherever it hides the secrets of its session, and the providers here in all that they give, whoever asks them.
"""

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from typing import Protocol, cast, runtime_checkable

from loopkernel.data.model_deltas import ModelDelta

from loopkernel_adapters.secret_filter import SecretFilter
from loopkernel_adapters.secrets import NO_SECRETS

SHORTEST_KEY = 8  # characters; what is shorter, or is only a word, is a placeholder for a server that wants no key
SHORTEST_WORD = 20  # a key without any digit that is shorter than this is such a word
_HEADERS = frozenset({"authorization", "proxy-authorization", "x-api-key", "api-key", "cookie"})
_SCHEMES = ("bearer ", "basic ", "token ")


@runtime_checkable
class HoldsKeys(Protocol):
    """A provider that uses keys."""

    @property
    def secret_keys(self) -> Mapping[str, str]:
        """The keys that it uses now, each with a name, such as that of the variable that it came from."""
        ...


def keys_of(provider: object) -> Mapping[str, str]:
    """The keys of a provider; none of one that names none."""
    return provider.secret_keys if isinstance(provider, HoldsKeys) else {}


def keys_of_all(providers: Iterable[object]) -> dict[str, str]:
    """The keys of several providers; where two give different keys one name, the later ones have a number."""
    found: dict[str, str] = {}
    for provider in providers:
        for name, key in keys_of(provider).items():
            if key not in found.values():
                found[name if name not in found else f"{name}-{len(found) + 1}"] = key
    return found


def is_key(value: str) -> bool:
    """Whether this is a key, and no placeholder: hidden everywhere, a placeholder would take words out of texts."""
    return len(value) >= (SHORTEST_KEY if any(map(str.isdigit, value)) else SHORTEST_WORD)


def real_keys(named: Mapping[str, object], headers: Mapping[str, object] | None = None) -> dict[str, str]:
    """Those of the values that are keys, and the keys that the headers carry."""
    carried = {
        f"{name.lower()}-header": _credential(value)
        for name, value in (headers or {}).items()
        if name.lower() in _HEADERS and isinstance(value, str)
    }
    found: dict[str, str] = {}
    for name, value in (*named.items(), *carried.items()):
        key = value.strip() if isinstance(value, str) else ""
        if is_key(key) and key not in found.values():
            found[name] = key
    return found


def _credential(header: str) -> str:
    """What a header carries, without the word before it."""
    for scheme in _SCHEMES:
        if header.lower().startswith(scheme):
            return header[len(scheme) :]
    return header


async def without_keys(
    reply: AsyncGenerator[ModelDelta, None], keys: Mapping[str, str]
) -> AsyncGenerator[ModelDelta, None]:
    """The reply, with none of the keys in it, also where it says one piece by piece."""
    hiding = SecretFilter(NO_SECRETS.with_keys(keys))
    async with aclosing(reply) as deltas:
        async for delta in deltas:
            for told in hiding.incoming(delta):
                yield cast(ModelDelta, told)  # of a delta of a model come deltas of a model
