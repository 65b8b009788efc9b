"""Carry only coefficients over the wire: what an encryption library's parser sees of foreign bytes is never its header.

Both libraries serialise an object as a header (parameters, sizes, pointers) around long runs of 64-bit coefficients.
A changed header can abort the process (OpenFHE) and a coefficient outside its modulus is accepted (OpenFHE) or costs
time (SEAL). So nobody sends headers: the receiver makes an object of the same kind itself, learns from it where the
coefficients stand, and fills received coefficients into its own header after checking that each is below its modulus.
As a second gain every coefficient takes only the bytes that its modulus needs (`fhe_auc.rlwe.polynomials`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.rlwe.polynomials import WORD, Polynomials, Words


@dataclass(frozen=True)
class Run:
    """One polynomial modulo one prime: `count` words (N) from byte `offset`, each in [0, modulus)."""

    offset: int
    count: int
    modulus: int

    @property
    def end(self) -> int:
        """First byte behind the run."""
        return self.offset + self.count * WORD


Found: TypeAlias = tuple[Sequence[Run], Sequence[tuple[int, int]]]
"""What differs from object to object in a library's format: coefficients, and (offset, length) of seeds in keys."""


class CoefficientLayout:
    """Where the coefficients of one kind of object stand.

    It is learned from `template`, a serialised object of that kind that the receiver has made itself. `find` returns
    where runs and seeds stand in the library's bytes. `tag` is the key's name in `template`: names are never sent.
    """

    def __init__(self, template: bytes, find: Callable[[bytes], Found], *, tag: bytes = b"") -> None:
        self._find = find
        runs, seeds = find(template)
        self._runs, self._seeds = tuple(runs), tuple(seeds)
        self.polynomials = Polynomials(runs[0].count if runs else 0, tuple(run.modulus for run in runs))
        self.tag = tag
        """The key's name in the template."""
        header = bytearray(template)  # of what it is learned from, maybe keys in use, no coefficient is kept
        for run in self._runs:
            header[run.offset : run.end] = bytes(run.end - run.offset)
        for offset, length in self._seeds:
            header[offset : offset + length] = bytes(length)
        self._template = bytes(header)

    def same_format(self, template: bytes) -> CoefficientLayout:
        """Return the layout of objects like `template`, which the same library writes in the same way."""
        return CoefficientLayout(template, self._find, tag=self.tag)

    @cached_property
    def packed_size(self) -> int:
        """Bytes of a packed object."""
        return self.polynomials.packed_size + sum(length for _, length in self._seeds)

    def pack(self, raw: bytes) -> bytes:
        """Return coefficients and seeds of the serialised object `raw`, which this process has made itself.

        Raises `DeserialisationError` where it is not an object of this kind.
        """
        runs, seeds = self._found(raw)
        packed = self.polynomials.pack(_words(raw, runs))
        return packed + b"".join(raw[offset : offset + length] for offset, length in seeds)

    def words(self, raw: bytes) -> Words:
        """Return the coefficients alone, not packed; errors as `pack`."""
        return _words(raw, self._found(raw)[0])

    def unpack(self, packed: bytes, tag: bytes = b"") -> bytes:
        """Return bytes that the library can parse: this layout's header, the coefficients in `packed`, the name `tag`.

        Raises `DeserialisationError` for a wrong length, or a coefficient that is not below its modulus.
        """
        if len(packed) != self.packed_size:
            raise DeserialisationError(f"expected {self.packed_size} bytes of coefficients, got {len(packed)}")
        size = self.polynomials.packed_size
        return self.raw(self.polynomials.unpack(packed[:size]), tag, packed[size:])

    def raw(self, words: Words, tag: bytes = b"", seeds: bytes = b"") -> bytes:
        """Return the same for coefficients that are not packed, shape (polynomials, N), and seeds.

        Raises `DeserialisationError` where `tag` has another length than the template's.
        """
        if len(tag) != len(self.tag):
            raise DeserialisationError(f"expected a key name of {len(self.tag)} bytes, got {len(tag)}")
        raw = bytearray(self._template.replace(self.tag, tag) if self.tag else self._template)
        for run, row in zip(self._runs, words, strict=True):
            raw[run.offset : run.end] = row.data.cast("B")
        position = 0
        for offset, length in self._seeds:
            raw[offset : offset + length] = seeds[position : position + length]
            position += length
        return bytes(raw)

    def _found(self, raw: bytes) -> Found:
        runs, seeds = self._find(raw)
        shape = [(run.count, run.modulus) for run in runs], [length for _, length in seeds]
        if shape != ([(run.count, run.modulus) for run in self._runs], [length for _, length in self._seeds]):
            raise DeserialisationError("the library's object does not have the layout that these parameters call for")
        return runs, seeds


def _words(raw: bytes, runs: Sequence[Run]) -> Words:
    return np.array([np.frombuffer(raw, "<u8", run.count, run.offset) for run in runs], np.uint64)
