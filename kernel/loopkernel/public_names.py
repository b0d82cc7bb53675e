"""How a package offers names without loading what is behind them: each is imported when it is first asked for."""

from collections.abc import Callable, Mapping
from importlib import import_module


def offered_names(
    package: str, names_by_home: Mapping[str, str], namespaces: str = ""
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """The `__getattr__`, `__dir__` and `__all__` of a package that offers these names, and these modules of its own.

    `names_by_home` gives for each module its names, apart by blanks, as `namespaces` does.
    """
    homes = {name: home for home, names in names_by_home.items() for name in names.split()}
    modules = namespaces.split()
    offered = sorted((*homes, *modules))

    def get(name: str) -> object:
        if name in homes:
            return getattr(import_module(homes[name]), name)
        if name in modules:
            return import_module(f"{package}.{name}")
        raise AttributeError(f"{package} offers no {name!r}: {package}.__all__ lists what it offers")

    return get, lambda: list(offered), offered
