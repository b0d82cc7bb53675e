"""How a command begins: as a module too, in words when it is interrupted at once, or when something is missing."""

import subprocess
import sys
from functools import partial

import pytest
from loopkernel_adapters.cli import commands
from loopkernel_adapters.cli.main import INTERRUPTED, MISSING, main
from loopkernel_adapters.cli.outcomes import ExitStatus

# Ctrl-C, pressed while the module of that name is being imported.
INTERRUPTED_IMPORT = """
import runpy, signal, sys

class Interrupter:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupter())
sys.argv = ["loopkernel", "replay", "absent.jsonl"]
runpy.run_module("loopkernel_adapters", run_name="__main__")
"""

WITHOUT_CYCLOPTS = """
import runpy, sys
sys.modules["cyclopts"] = None  # as if it were not installed
sys.argv = ["loopkernel", "--version"]
runpy.run_module("loopkernel_adapters", run_name="__main__")
"""

WITHOUT_YAML = """
import runpy, sys
sys.modules["yaml"] = None  # as if it were not installed
sys.argv = ["scenarios", "specs/scenarios"]
runpy.run_module("loopkernel.testing.scenarios", run_name="__main__")
"""


def ran(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True)


def test_the_package_is_the_command_line_too() -> None:
    ended = ran("-m", "loopkernel_adapters", "--version")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("loopkernel ")


@pytest.mark.parametrize(
    "name",
    ["loopkernel_adapters.cli.commands", "attrs", "loopkernel.loop.transition", "loopkernel_adapters.stores.jsonl"],
)
def test_ctrl_c_while_it_begins_is_told_in_words(name: str) -> None:
    ended = ran("-c", INTERRUPTED_IMPORT.format(name=name))
    assert (ended.returncode, ended.stdout, ended.stderr) == (INTERRUPTED, "", "loopkernel: interrupted\n")
    assert INTERRUPTED == ExitStatus.OTHER_END


def test_ctrl_c_while_a_class_is_made_is_told_in_words_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(arguments: object, cause: BaseException) -> None:
        raise RuntimeError("Error calling __set_name__") from cause

    monkeypatch.setattr(commands, "run_command_line", partial(fail, cause=KeyboardInterrupt()))
    assert main([]) == INTERRUPTED
    assert capsys.readouterr().err == "loopkernel: interrupted\n"
    monkeypatch.setattr(commands, "run_command_line", partial(fail, cause=ValueError()))
    with pytest.raises(RuntimeError):
        main([])


def test_without_its_extra_the_command_line_says_what_to_install() -> None:
    ended = ran("-c", WITHOUT_CYCLOPTS)
    assert (ended.returncode, ended.stdout) == (MISSING, "")
    assert ended.stderr == "loopkernel: the command line is an extra: pip install 'loopkernel[cli]'\n"
    assert MISSING == ExitStatus.UNUSABLE


def test_the_scenarios_say_what_they_need() -> None:
    ended = ran("-c", WITHOUT_YAML)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "install loopkernel[testing]" in ended.stderr
    assert "Traceback" not in ended.stderr
