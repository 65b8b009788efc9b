"""An exchange in memory, for roles that are passes of one process."""

from __future__ import annotations

from itertools import count

from fhe_auc.base.errors import InputError
from fhe_auc.base.files import LONGEST
from fhe_auc.exchange.exchange import Exchange, Version


class Memory(Exchange):
    """Files in a dictionary, each with the number of the write that it is of."""

    def __init__(self) -> None:
        self.files: dict[str, tuple[bytes, int]] = {}
        self._in: dict[str, dict[str, None]] = {}  # by place, what lies there, folders with their slash
        self._writes = count(1)

    def __str__(self) -> str:
        return "memory"

    def list(self, place: str) -> dict[str, Version]:
        found = self._in.get(place, ())
        return {name: () if name.endswith("/") else (self.files[place + name][1],) for name in found}

    def read(self, name: str, longest: int = LONGEST) -> bytes:
        if name not in self.files:
            raise FileNotFoundError(2, "there is no such file", name)
        data, _ = self.files[name]
        if len(data) > longest:
            raise InputError(f"{name!r} is longer than {longest:,} bytes")
        return data

    def put(self, name: str, data: bytes) -> None:
        self.files[name] = data, next(self._writes)
        for place, part in _parts(name):
            self._in.setdefault(place, {})[part] = None

    def remove(self, name: str) -> None:
        if self.files.pop(name, None) is not None:
            for place, part in _parts(name):
                if not self._in.get(place + part):  # a file, or a folder that is empty now
                    self._in[place].pop(part)


def _parts(name: str) -> list[tuple[str, str]]:
    """Each place that a file is below, and what of it lies there: from the file's own folder up."""
    parts = name.split("/")
    whole = ["/".join(parts[:number]) + "/" * bool(number) for number in range(len(parts))]
    return [
        (place, part + "/" * (number < len(parts) - 1))
        for number, (place, part) in reversed(list(enumerate(zip(whole, parts, strict=True))))
    ]
