"""Scripted commands: what they do to the shell that runs them."""

import subprocess
from pathlib import Path

from loopkernel_adapters.conform.script import Called, command_of, output_of


def test_a_command_that_fails_leaves_the_shell_to_the_next_one(tmp_path: Path) -> None:
    commands = (
        command_of(each, str(tmp_path / "effects")) for each in (Called(label="a", status=3), Called(label="b"))
    )
    done = subprocess.run(["sh"], input="\necho $?\n".join(commands), capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == [output_of("a"), "3", output_of("b")]
    assert (tmp_path / "effects").read_text(encoding="utf-8").split()[-2:] == ["end", "b"]
