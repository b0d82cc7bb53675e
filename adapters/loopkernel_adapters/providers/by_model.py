"""Several models behind one port: each request goes to the provider of the model that it names."""

from collections.abc import AsyncIterator, Mapping

from loopkernel.data.effects import Request
from loopkernel.data.ids import ModelOperation
from loopkernel.data.model_deltas import ModelDelta, ModelFailed
from loopkernel.data.words import ErrorClass
from loopkernel.later_typing import override

from loopkernel_adapters.ports import Provider
from loopkernel_adapters.provider_keys import keys_of_all


class ProviderByModel(Provider):
    """Asks the provider that is listed under the model's name. A model that nobody offers fails as `bad_request`."""

    def __init__(self, providers: Mapping[str, Provider]) -> None:
        self._providers = dict(providers)

    @property
    def secret_keys(self) -> Mapping[str, str]:
        """The keys of all of them."""
        return keys_of_all(self._providers.values())

    @override
    def stream(self, request: Request, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
        provider = self._providers.get(request.model)
        return _unknown(request.model, operation) if provider is None else provider.stream(request, operation)


async def _unknown(model: str, operation: ModelOperation) -> AsyncIterator[ModelDelta]:
    message = f"no provider offers the model {model}"
    yield ModelFailed(operation=operation, error=ErrorClass.BAD_REQUEST, message=message)
