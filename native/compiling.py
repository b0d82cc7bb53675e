"""Compiles the kernel: its sources are rewritten into a folder of the build, and mypyc makes one library of them.

The modules stay in the wheel as they are written, beside what was compiled, which Python prefers.
"""

import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from native.rewriting import SUPPORT, rewritten

PACKAGE = "loopkernel"
# What every step passes through. The rest of the package is as fast as what it calls.
COMPILED = ("data/**/*.py", "loop/**/*.py", "replaying.py")
# These stay as they are: classes that inherit from a builtin, functions that are given attributes, what writes code.
LEFT_OUT = ("__init__.py", "errors.py", "checked_fields.py", "value_classes.py")
# The sources are checked as they are written. mypyc does not look at generic functions once for each of their types.
SETTINGS = "[mypy]\nmypy_path = .\nfollow_imports = silent\ndisable_error_code = arg-type\n"
_REFERENCES = r"\(\*\(\(PyObject \*\*\)\(\(char \*\)self \+ sizeof\(PyObject \*\) \+ sizeof\(\w+\)\)\)\);"
_VISITS, _CLEARS = re.compile("Py_VISIT" + _REFERENCES), re.compile("Py_CLEAR" + _REFERENCES)


def compiled_modules(kernel: Path, folder: Path) -> dict[Path, str]:
    """Compile the kernel, which lies in that room, within the folder: each file that came of it, and its place."""
    sources = write_sources(kernel, folder)
    (folder / "mypy.ini").write_text(SETTINGS)
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parent.parent)}
    command = [sys.executable, "-m", "native.compiling", *map(str, sources)]
    subprocess.run(command, check=True, cwd=folder, env=environment)
    support = Path(*SUPPORT.split(".")).with_suffix(".py")
    made = [folder / support, *folder.glob("*.so"), *(folder / PACKAGE).rglob("*.so"), *folder.rglob("*.pyd")]
    return {path: path.relative_to(folder).as_posix() for path in made}


def write_sources(kernel: Path, folder: Path) -> list[Path]:
    """Write the package into the folder, with native classes where it is compiled; what is compiled, from there."""
    package = kernel / PACKAGE
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(package, folder / PACKAGE, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    shutil.copy(Path(__file__).with_name("native_records.py"), folder.joinpath(*SUPPORT.split(".")).with_suffix(".py"))
    sys.path.insert(0, str(kernel))
    sources = []
    for path in sorted(path for pattern in COMPILED for path in package.glob(pattern) if path.name not in LEFT_OUT):
        place = path.relative_to(kernel)
        module = ".".join(place.with_suffix("").parts)
        (folder / place).write_text(rewritten(path.read_text(encoding="utf-8"), module), encoding="utf-8")
        sources.append(place)
    return sources


def mend_weak_references(folder: Path) -> None:
    """Let generic classes bear that somebody refers to their instances weakly, in the C files of the folder.

    mypyc takes the list of weak references, which an instance does not own, for a field that it does: when the instance
    goes, a reference too many is let go of, and a later collection reads what is gone (seen with mypy 2.4.1).
    """
    for path in folder.rglob("*.c"):
        written = path.read_text()
        mended = _VISITS.sub("", written)
        mended = _CLEARS.sub("if (Py_REFCNT(self) == 0) PyObject_ClearWeakRefs((PyObject *)self);", mended)
        if mended != written:
            path.write_text(mended)


def compile_here(sources: list[str]) -> None:
    """Compile what lies in this folder, in a process of its own: setuptools looks at all of it."""
    from mypyc.build import mypycify
    from setuptools import Distribution  # type: ignore[import-untyped]  # it has no types, nor needs them here
    from setuptools.command.build_ext import build_ext  # type: ignore[import-untyped]  # as above

    options = ["--config-file=mypy.ini", *sources]
    level = os.environ.get("LOOPKERNEL_COMPILE_LEVEL", "2")
    extensions = mypycify(options, opt_level=level, debug_level="0", multi_file=True, group_name=PACKAGE)
    mend_weak_references(Path())

    class BuildAtOnce(build_ext):  # type: ignore[misc]  # as above
        """Compiles as many files at a time as there are processors: setuptools does one after the other."""

        def build_extensions(self) -> None:
            one_by_one = self.compiler.compile

            def compile_all(sources: list[str], *given: object, **named: object) -> list[str]:
                with ThreadPoolExecutor(os.cpu_count()) as threads:
                    made = threads.map(lambda source: one_by_one([source], *given, **named), sources)
                    return [name for names in made for name in names]

            self.compiler.compile = compile_all
            super().build_extensions()

    command = BuildAtOnce(Distribution({"name": PACKAGE, "ext_modules": extensions}))
    command.inplace = True
    command.build_temp = "objects"
    command.ensure_finalized()
    command.run()


if __name__ == "__main__":
    compile_here(sys.argv[1:])
