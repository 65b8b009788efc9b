"""Libraries that take long to import, loaded once something of them is called: every worker imports every test file."""

from functools import reduce
from importlib import import_module
from typing import Any


class Lazy:
    """A module by its name, of which functions, classes and what these have can be called: ``Lazy("pandas")``."""

    def __init__(self, module: str, *path: str) -> None:
        self._module, self._path = module, path

    def __getattr__(self, name: str) -> Any:
        return Lazy(self._module, *self._path, name)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return reduce(getattr, self._path, import_module(self._module))(*arguments, **named)
