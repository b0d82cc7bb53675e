"""How the command line is called from where the user stands, for advice that can be pasted into a shell."""

import os
import shlex
import shutil
import sys
from pathlib import Path

PROGRAM = "loopkernel"
MODULE = "loopkernel_adapters"


def command(*arguments: str | Path) -> str:
    """The command with these arguments, quoted for a shell."""
    return shlex.join([*_program(), *map(str, arguments)])


def _program() -> list[str]:
    """The program that runs now, or else the one beside this interpreter, or else the module."""
    here = Path(sys.argv[0])
    program = here if here.name == PROGRAM and here.is_file() else Path(sys.executable).with_name(PROGRAM)
    if not program.is_file():
        return [sys.executable, "-m", MODULE]
    named = shutil.which(PROGRAM)
    if named is not None and program.samefile(named):
        return [PROGRAM]
    return [min(_relative(program), str(program.absolute()), key=len)]


def _relative(program: Path) -> str:
    path = os.path.relpath(program)
    return path if os.sep in path else os.path.join(os.curdir, path)
