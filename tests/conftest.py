"""How many examples Hypothesis generates: the profile that HYPOTHESIS_PROFILE names, or `quick`. And less waste."""

import gc
import os

from hypothesis import HealthCheck, settings

EXAMPLES = {
    "quick": 50,  # make test, make check
    "matrix": 15,  # make matrix: the same suite again under another Python
    "fuzz": 250,  # a round of make fuzz, each from a seed of its own
    "deep": 2_000,  # for a test alone, and for every scope of the explorer
}

for profile, examples in EXAMPLES.items():
    settings.register_profile(
        profile,
        max_examples=examples,
        derandomize=profile in ("quick", "matrix"),  # the gate finds the same each time; make fuzz looks further
        deadline=None,  # a busy machine is no failure
        suppress_health_check=[HealthCheck.too_slow],  # nor is it a slow strategy
        print_blob=True,
    )
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


def pytest_collection_finish() -> None:
    """What has been collected stays to the end, so the garbage collector need not look through it time and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)
