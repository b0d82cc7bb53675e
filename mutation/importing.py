"""Import chosen modules from a syntax tree of ours instead of from their file; nothing is written to any cache."""

import ast
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType

from typing_extensions import override

Transform = Callable[[str], ast.Module]  # from the text of a file to what is run instead


class _TreeLoader(SourceFileLoader):
    """Compiles what the transform makes of the file, with what it may name."""

    def __init__(self, name: str, path: str, transform: Transform, names: Mapping[str, object]) -> None:
        super().__init__(name, path)
        self.transform = transform
        self.names = names

    @override
    def get_code(self, fullname: str) -> CodeType:
        text = self.get_data(self.path).decode("utf-8")
        return compile(self.transform(text), self.path, "exec", dont_inherit=True)

    @override
    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(self.names)
        super().exec_module(module)


class TreeFinder(MetaPathFinder):
    """Finds the modules that it has a transform for, and no others."""

    def __init__(self, transforms: Mapping[str, Transform], names: Mapping[str, object] | None = None) -> None:
        self.transforms = transforms
        self.names = names or {}

    @override
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname not in self.transforms:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None:
            spec.loader = _TreeLoader(fullname, spec.origin, self.transforms[fullname], self.names)
        return spec

    def install(self) -> None:
        """Look here first, from now on. Raises RuntimeError when one of the modules is there already."""
        loaded = self.transforms.keys() & sys.modules.keys()
        if loaded:
            raise RuntimeError(f"already imported: {', '.join(sorted(loaded))}")
        sys.meta_path.insert(0, self)
