"""What a bare installation costs: the time of an import, and how many distributions come with it (T12 and T13)."""

import importlib.metadata
import os
import re
import resource
import statistics
import subprocess
import sys

from bench.drivers import verdict

SAMPLES = 7
NOTHING = "pass"
FLOOR = "import attrs, asyncio"
WHOLE = "import loopkernel.loop.transition, loopkernel_adapters.driver.asyncio_driver"
INSTALLED = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}  # pip compiles
KERNEL = "import sys, loopkernel.loop.transition; sys.exit('asyncio' in sys.modules)"


def import_ms(program: str) -> float:
    """Milliseconds of CPU of a process of its own."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", program], check=True, env=INSTALLED)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1e3


def bare_distributions(name: str = "loopkernel") -> set[str]:
    """What an installation without extras brings along, by the metadata of what is installed here."""
    found = {name}
    for wanted in importlib.metadata.requires(name) or ():
        if "extra ==" not in wanted:
            found |= bare_distributions(re.split(r"[^A-Za-z0-9._-]", wanted, maxsplit=1)[0])
    return found


def measure() -> None:
    """Print the figures, each with its target."""
    print(f"a bare installation; medians of {SAMPLES} alternate fresh processes, over a bare interpreter")
    samples = [(import_ms(NOTHING), import_ms(FLOOR), import_ms(WHOLE)) for _ in range(SAMPLES)]
    floor = statistics.median(low - nothing for nothing, low, _ in samples)
    whole = statistics.median(high - nothing for nothing, _, high in samples)
    ratio = whole / floor
    print(
        f"T12  {'import of kernel and driver, ms':<34} {whole:>9.0f} {floor:>9.0f} {ratio:>7.2f}  {verdict(ratio, 1.5)}"
    )
    alone = subprocess.run([sys.executable, "-c", KERNEL], check=False).returncode == 0
    print(f"T12  {'the kernel alone, without asyncio':<34} {'':>27}  {'met' if alone else 'MISSED'}")
    names = sorted(bare_distributions())
    told = f"{verdict(len(names), 2)}: {', '.join(names)}"
    print(f"T13  {'distributions':<34} {len(names):>9} {'':>17}  {told}")
