"""How many examples Hypothesis generates (the profile that HYPOTHESIS_PROFILE names, or `quick`); what is slow."""

import gc
import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# The secret that seals logs is not that of whoever runs the tests. Each worker has its own, with the marks of the
# latest logs: logs that two tests write at the same time may begin alike, and each would be taken for an older copy.
if "LOOPKERNEL_TEST_CONFIGURATION" not in os.environ:
    os.environ["LOOPKERNEL_TEST_CONFIGURATION"] = tempfile.mkdtemp(prefix="loopkernel-")
os.environ["XDG_CONFIG_HOME"] = os.environ["XDG_STATE_HOME"] = str(
    Path(os.environ["LOOPKERNEL_TEST_CONFIGURATION"], os.environ.get("PYTEST_XDIST_WORKER", "main"))
)

EXAMPLES = {
    "quick": 35,  # make test, make check, make slow
    "again": 15,  # make matrix: under the newest other Python the quick suite
    "matrix": 15,  # make matrix ALL=1: under each other Python every test, each with all that it can look at
    "fuzz": 250,  # a round of make fuzz, each from a seed of its own
    "deep": 2_000,  # for a test alone
}

for profile, examples in EXAMPLES.items():
    settings.register_profile(
        profile,
        max_examples=examples,
        derandomize=profile
        in ("quick", "matrix", "again"),  # the gate finds the same each time; make fuzz looks further
        deadline=None,  # a busy machine is not a failure
        suppress_health_check=[HealthCheck.too_slow],  # nor is it a slow strategy
        print_blob=True,
    )
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "quick")
settings.load_profile(PROFILE)


# The files and functions that `make test` leaves to `make slow` (scripts/slow_tests.py says how they were chosen).
SLOW = frozenset(Path(__file__).with_name("slow.txt").read_text(encoding="utf-8").split())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is listed as slow."""
    for item in items:
        function = item.nodeid.partition("[")[0]
        if function in SLOW or function.partition("::")[0] in SLOW:
            item.add_marker("slow")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even read a file that is slow as a whole where nothing slow is asked for."""
    if config.option.markexpr != "not slow":
        return None
    return True if collection_path.relative_to(config.rootpath).as_posix() in SLOW else None


def pytest_pycollect_makeitem(collector: pytest.Collector, name: str) -> list[pytest.Item] | None:
    """Nor make the cases of a function that is slow: they are more than all others together."""
    if collector.config.option.markexpr != "not slow" or f"{collector.nodeid}::{name}" not in SLOW:
        return None
    return []


def pytest_collection_finish() -> None:
    """What has been collected stays to the end, so the garbage collector need not look through it time and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)
