"""Both lasting stores work where there is no `fcntl`, as on Windows, as far as that can be tried elsewhere."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("without_posix.py")


@pytest.mark.skipif(sys.platform != "linux", reason="the simulation locks by the lock of Linux")
def test_the_stores_lock_keep_and_seal_without_fcntl(tmp_path: Path) -> None:
    variables = os.environ | {"XDG_CONFIG_HOME": str(tmp_path / "configuration")}
    ended = subprocess.run([sys.executable, PROGRAM], cwd=tmp_path, env=variables, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == "both stores keep their runs\n"
