"""How many examples Hypothesis generates: the profile that HYPOTHESIS_PROFILE names, or `quick`."""

import os

from hypothesis import HealthCheck, settings

EXAMPLES = {
    "quick": 50,  # make test, make check
    "matrix": 15,  # make matrix: the same suite again under another Python
    "deep": 2_000,  # make fuzz
}

for profile, examples in EXAMPLES.items():
    settings.register_profile(
        profile,
        max_examples=examples,
        derandomize=profile != "deep",  # the gate finds the same each time; make fuzz looks further
        deadline=None,  # a busy machine is no failure
        suppress_health_check=[HealthCheck.too_slow],  # nor is it a slow strategy
        print_blob=True,
    )
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
