"""scripts/environment.py: a folder that cannot be written is told in words."""

import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "environment.py"


def test_a_place_that_cannot_be_written_is_told_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ended = subprocess.run(
        [sys.executable, str(SCRIPT), str(tmp_path / "file" / "env")], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert "env.lock cannot be written" in ended.stderr
    assert "run the same command again" in ended.stderr
    assert "Traceback" not in ended.stderr
