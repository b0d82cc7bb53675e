"""The models that a session asks: opened by their names, in the order of asking."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager

from attrs import evolve, frozen
from loopkernel.data.effects import Request
from loopkernel.data.ids import ModelOperation
from loopkernel.data.model_deltas import ModelDelta
from loopkernel.later_typing import override

from loopkernel_adapters.cli.options import LOCAL
from loopkernel_adapters.cli.outcomes import Unusable
from loopkernel_adapters.ports import Provider
from loopkernel_adapters.provider_keys import keys_of
from loopkernel_adapters.providers.named import ProviderByModel

Opening = AbstractContextManager[tuple[Provider, str]]


@frozen
class Models:
    """A provider, and the names of the models behind it, in the order of asking. `specs` is what was typed for them."""

    provider: Provider
    names: tuple[str, ...]
    specs: tuple[str, ...]

    def instead_of(self, names: Sequence[str]) -> Provider:
        """The provider, for a log that names other models: the first model is asked in their place."""
        others = {name: Renamed(self.provider, self.names[0]) for name in names if name not in self.names}
        return ProviderByModel({**dict.fromkeys(self.names, self.provider), **others})


class Renamed(Provider):
    """A provider whose model is known under another name to those who ask."""

    def __init__(self, provider: Provider, model: str) -> None:
        self._provider = provider
        self._model = model

    @property
    def secret_keys(self) -> Mapping[str, str]:
        """Its keys."""
        return keys_of(self._provider)

    @override
    def stream(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        return self._provider.stream(evolve(request, model=self._model), operation)


class SoughtModels:
    """The models of those names: found when this is made, the embedded one loaded only by `opened`.

    Raises Unusable, both times. They are let go of with `resources`.
    """

    def __init__(self, specs: Sequence[str], base_url: str | None, resources: ExitStack) -> None:
        self._resources = resources
        self._sought: dict[str, tuple[Provider, str] | Opening] = {}
        for wanted in dict.fromkeys(specs):
            opening = opened_model(wanted, base_url)
            self._sought[wanted] = opening if wanted == LOCAL else resources.enter_context(opening)

    def opened(self) -> Models:
        """All of them, ready to be asked."""
        providers: dict[str, Provider] = {}
        for wanted, found in self._sought.items():
            provider, model = found if isinstance(found, tuple) else self._resources.enter_context(found)
            if model in providers:  # the same name twice: the second is known by what was typed
                provider, model = Renamed(provider, model), wanted
            providers[model] = provider
        return Models(ProviderByModel(providers), tuple(providers), tuple(self._sought))


def opened_model(wanted: str, base_url: str | None) -> Opening:
    """The model of that name and its own name: sought now, ready when the context is entered. Both raise Unusable."""
    from loopkernel_adapters.ports import ProviderUnavailable
    from loopkernel_adapters.providers.named import opened

    try:
        return _told(opened(wanted, base_url=base_url))
    except ProviderUnavailable as error:
        raise Unusable(str(error)) from error


@contextmanager
def _told(opening: Opening) -> Iterator[tuple[Provider, str]]:
    from loopkernel_adapters.ports import ProviderUnavailable

    with ExitStack() as resources:
        try:
            found = resources.enter_context(opening)
        except ProviderUnavailable as error:
            raise Unusable(str(error)) from error
        yield found
