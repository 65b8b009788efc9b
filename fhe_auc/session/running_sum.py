"""Submissions added up as they arrive: each is parsed and checked before it counts.

Sums of ciphertexts are sums of coefficients modulo primes. They need no encryption library, and come out the same
whatever the order and grouping.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.rlwe.polynomials import Polynomials, PolynomialSum, Words

Parse: TypeAlias = Callable[[int, Any, Words], Words]


class RunningSum:
    """The sum of all submissions so far, part by part; memory does not grow with their number.

    `shapes` are those of the parts of a submission. `parse` takes the number of a part, its bytes, and an array of the
    part's shape that it may write into; it returns coefficients of that shape, or raises `DeserialisationError`. By
    default the bytes are packed coefficients.
    """

    def __init__(self, shapes: Sequence[Polynomials], parse: Parse | None = None) -> None:
        self._sums = [PolynomialSum(shape) for shape in shapes]
        self._arrays = [np.empty(shape.shape, np.uint64) for shape in shapes]  # the same ones for every submission
        self._parse = parse or self._unpacked

    def add(self, parts: Sequence[bytes | memoryview]) -> None:
        """Add one party's submission, or raise `DeserialisationError` and leave the sum as it was."""
        if len(parts) != len(self._sums):
            raise DeserialisationError(f"expected {len(self._sums)} parts, got {len(parts)}")
        parsed = [self._parse(number, *each) for number, each in enumerate(zip(parts, self._arrays, strict=True))]
        for total, words in zip(self._sums, parsed, strict=True):
            total.add(words)

    @property
    def totals(self) -> list[Words]:
        """Coefficients of the sum, part by part, each of the shape (polynomials, N)."""
        return [total.words for total in self._sums]

    def _unpacked(self, number: int, part: bytes | memoryview, into: Words) -> Words:
        return self._sums[number].polynomials.unpack(part, into)
