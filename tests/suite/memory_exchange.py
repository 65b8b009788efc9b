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
        self._writes = count(1)

    def __str__(self) -> str:
        return "memory"

    def list(self, place: str) -> dict[str, Version]:
        found: dict[str, Version] = {}
        for name, (_, number) in self.files.items():
            if name.startswith(place):
                first, slash, _ = name[len(place) :].partition("/")
                found[first + slash] = () if slash else (number,)
        return found

    def read(self, name: str, longest: int = LONGEST) -> bytes:
        if name not in self.files:
            raise FileNotFoundError(2, "there is no such file", name)
        data, _ = self.files[name]
        if len(data) > longest:
            raise InputError(f"{name!r} is longer than {longest:,} bytes")
        return data

    def put(self, name: str, data: bytes) -> None:
        self.files[name] = data, next(self._writes)

    def remove(self, name: str) -> None:
        self.files.pop(name, None)
