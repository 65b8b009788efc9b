"""What an object holds: everything that it refers to, directly or by way of others."""

import gc
from collections.abc import Iterator
from types import BuiltinFunctionType, CodeType, FrameType, FunctionType, ModuleType

_CODE = (type, ModuleType, FunctionType, BuiltinFunctionType, FrameType, CodeType)


def reachable(root: object) -> Iterator[object]:
    """Everything that `root` refers to, modules, classes and code left aside, which are not its own."""
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        item = waiting.pop()
        if id(item) not in seen and not isinstance(item, _CODE):
            seen.add(id(item))
            yield item
            waiting.extend(gc.get_referents(item))
