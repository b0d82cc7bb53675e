"""Without OpenTelemetry, whoever asks for telemetry is told what to install."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("package", ["opentelemetry", "opentelemetry.sdk"])
@pytest.mark.parametrize("name", ["Telemetry", "export_log"])
def test_a_missing_extra_is_told_with_what_to_run(package: str, name: str) -> None:
    """In a process of its own, in which the package cannot be imported."""
    program = f"""
import sys
sys.modules[{package!r}] = None
try:
    from loopkernel_adapters import {name}
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert "pip install 'loopkernel[telemetry]'" in done.stdout
