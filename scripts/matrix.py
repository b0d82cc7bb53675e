"""Run the tests under other supported Pythons that this machine has, each in its own environment.

Usage: python scripts/matrix.py. The version that runs this file is left out: make test and make slow cover it. The
newest other one that is there runs the quick suite (profile `again`); with ALL=1 each of them runs every test (profile
`matrix`).
Interpreters are looked for on PATH and under pyenv. A version that is missing is announced loudly and does
not fail the run; with REQUIRE_ALL_PYTHONS=1 it does. Exits 1 when a suite fails.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = ("3.11", "3.12", "3.13")
PROBE = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"


def main() -> None:
    """Run the suite under every other supported version and sum up."""
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    outcomes: dict[str, str] = {}
    every = os.environ.get("ALL") == "1"
    profile = "matrix" if every else "again"
    for version in reversed(VERSIONS):
        if version == own:
            outcomes[version] = "the version of .venv: make test and make slow run it"
            continue
        if not every and not {"passed", "FAILED"}.isdisjoint(outcomes.values()):
            outcomes[version] = "not run: ALL=1 runs it"
            continue
        interpreter = find_interpreter(version)
        if interpreter is None:
            outcomes[version] = "MISSING"
            announce_missing(version)
        else:
            outcomes[version] = "passed" if run_suite(version, interpreter, profile) else "FAILED"
    print("\nPython versions:")
    for version, outcome in outcomes.items():
        print(f"  {version}  {outcome}")
    missing_fails = os.environ.get("REQUIRE_ALL_PYTHONS") == "1" and "MISSING" in outcomes.values()
    sys.exit(1 if missing_fails or "FAILED" in outcomes.values() else 0)


def find_interpreter(version: str) -> str | None:
    """Return a working interpreter of that version, or None."""
    candidates = [shutil.which(f"python{version}")]
    pyenv = pyenv_root()
    if pyenv is not None:
        candidates += sorted(map(str, pyenv.glob(f"versions/{version}.*/bin/python{version}")), reverse=True)
    return next((path for path in candidates if path and answers(path, version)), None)


def pyenv_root() -> Path | None:
    """Return the folder of pyenv, from its variable or its own word."""
    if root := os.environ.get("PYENV_ROOT"):
        return Path(root)
    if (pyenv := shutil.which("pyenv")) is None:
        return None
    result = subprocess.run([pyenv, "root"], capture_output=True, text=True)
    return Path(result.stdout.strip()) if result.returncode == 0 else None


def answers(path: str, version: str) -> bool:
    """Say whether the file really runs as that version and can make an environment: a shim may do neither."""
    result = subprocess.run([path, "-c", PROBE], capture_output=True, text=True)
    return result.returncode == 0 and result.stdout.strip() == version


def run_suite(version: str, interpreter: str, profile: str) -> bool:
    """Run the tests in the version's own environment, with fewer generated examples."""
    directory = f".venv-{version}"
    print(f"\n=== Python {version}: {interpreter}", flush=True)
    if subprocess.run([interpreter, "scripts/environment.py", directory], cwd=ROOT).returncode != 0:
        return False
    workers = os.environ.get("WORKERS", "2")
    command = [str(ROOT / directory / "bin" / "python"), "-m", "pytest", "-q", "-n", workers, "--dist", "worksteal"]
    if profile == "again":
        command += ["-m", "not slow"]
    environment = {"HYPOTHESIS_PROFILE": profile, **os.environ}
    return subprocess.run(command, cwd=ROOT, env=environment).returncode == 0


def announce_missing(version: str) -> None:
    """Say so that nobody overlooks it that a version goes untested."""
    line = f"!!! Python {version} IS NOT ON THIS MACHINE: NOT TESTED UNDER IT !!!"
    print(f"\n{'!' * len(line)}\n{line}\n{'!' * len(line)}", flush=True)


if __name__ == "__main__":
    main()
