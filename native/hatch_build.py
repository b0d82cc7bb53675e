"""The hook of the build backend: a wheel with the kernel compiled, where that is asked for (LOOPKERNEL_COMPILE=1).

Without the variable nothing happens here, and the wheel is the same on every platform.
"""

import os
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing_extensions import override
else:

    def override(method):
        """The method as it is."""
        return method


VARIABLE = "LOOPKERNEL_COMPILE"
REQUIRED = ["attrs>=24.2", "mypy[mypyc]>=2.4", "setuptools>=65"]


class CompiledKernel(BuildHookInterface):  # type: ignore[type-arg]  # of the settings of a builder, which it does not read
    """Adds the compiled modules to the wheel."""

    @override
    def dependencies(self) -> list[str]:
        """What the build environment has to hold besides the backend."""
        return REQUIRED if asked() else []

    @override
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # Any: hatchling's, of every type
        """Compile, unless the installation is one that shows the sources as they are edited."""
        if not asked() or version == "editable":
            return
        sys.path.insert(0, self.root)  # the folder of this file is no package that is installed
        from native.compiling import compiled_modules

        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        found = compiled_modules(Path(self.root) / "kernel", Path(self.directory) / "native")
        build_data["force_include"].update({str(path): place for path, place in found.items()})


def asked() -> bool:
    """Whether the build is to compile."""
    return os.environ.get(VARIABLE, "") not in ("", "0")
