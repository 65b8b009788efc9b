"""Carry only coefficients over the wire: what an encryption library's parser sees of foreign bytes is never its header.

Both libraries serialise an object as a header (parameters, sizes, pointers) around long runs of 64-bit coefficients.
A changed header can abort the process (OpenFHE) and a coefficient outside its modulus is accepted (OpenFHE) or costs
time (SEAL). So nobody sends headers: the receiver makes an object of the same kind itself, learns from it where the
coefficients stand, and fills received coefficients into its own header after checking that each is below its modulus.
As a second gain every coefficient takes only the bytes that its modulus needs (`fhe_auc.rlwe.polynomials`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.rlwe.polynomials import WORD, Polynomials, Words


class Run(NamedTuple):
    """One polynomial modulo one prime: N words from byte `offset`, each in [0, modulus)."""

    offset: int
    modulus: int


class CoefficientLayout:
    """Where the coefficients of one kind of object stand, polynomials modulo primes: of the shape `polynomials`.

    It is learned from `template`, a serialised object of that kind that the receiver has made itself. `find` returns
    where runs stand in the library's bytes.
    """

    def __init__(self, template: bytes, ring_dimension: int, find: Callable[[bytes], list[Run]]) -> None:
        self._find = find
        self._runs = find(template)
        self.polynomials = Polynomials(ring_dimension, tuple(run.modulus for run in self._runs))
        header = bytearray(template)  # of what it is learned from, maybe keys in use, no coefficient is kept
        for run in self._runs:
            header[run.offset : run.offset + ring_dimension * WORD] = bytes(ring_dimension * WORD)
        self._template = bytes(header)

    def words(self, raw: bytes) -> Words:
        """Return the coefficients of the serialised object `raw`, which this process has made itself.

        Raises `DeserialisationError` where it is not an object of this kind.
        """
        runs = self._find(raw)
        if tuple(run.modulus for run in runs) != self.polynomials.moduli:
            raise DeserialisationError("the library's object does not have the layout that these parameters call for")
        size = self.polynomials.ring_dimension
        return np.array([np.frombuffer(raw, "<u8", size, run.offset) for run in runs], np.uint64)

    def raw(self, words: Words) -> bytes:
        """Return bytes that the library can parse: this layout's header, and these coefficients."""
        raw = bytearray(self._template)
        for run, row in zip(self._runs, words, strict=True):
            raw[run.offset : run.offset + row.nbytes] = row.data.cast("B")
        return bytes(raw)
