"""Import once what every forked process would import again: all that the tests use except what is mutated."""

import gc
import importlib

MODULES = (
    "attrs",
    "asyncio",
    "hypothesis.stateful",
    "hypothesis.extra",
    "pytest",
    "typing_extensions",
    "unittest.mock",
    "yaml",
)


def load() -> None:
    """Import the modules into this process, from which the others are forked."""
    for name in MODULES:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # so that a forked process does not copy all of it when it collects its own
