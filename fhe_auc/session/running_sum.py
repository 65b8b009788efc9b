"""Submissions added up as they arrive: each is parsed and checked before it counts.

Sums of ciphertexts are sums of coefficients modulo primes. They need no encryption library, and come out the same
whatever the order and grouping.
"""

from collections.abc import Callable, Sequence
from typing import Any

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.rlwe.polynomials import Polynomials, PolynomialSum, Words


class RunningSum:
    """The sum of all submissions so far, part by part; memory does not grow with their number.

    `shapes` are those of the parts of a submission. `parse` takes the number of a part and its bytes; it returns
    coefficients of the part's shape, or raises `DeserialisationError`. By default the bytes are packed coefficients.
    """

    def __init__(self, shapes: Sequence[Polynomials], parse: Callable[[int, Any], Words] | None = None) -> None:
        self._sums = [PolynomialSum(shape) for shape in shapes]
        self._parse = parse or self._unpacked

    def add(self, parts: Sequence[bytes | memoryview]) -> None:
        """Add one party's submission, or raise `DeserialisationError` and leave the sum as it was."""
        if len(parts) != len(self._sums):
            raise DeserialisationError(f"expected {len(self._sums)} parts, got {len(parts)}")
        parsed = [self._parse(number, part) for number, part in enumerate(parts)]
        for total, words in zip(self._sums, parsed, strict=True):
            total.add(words)

    @property
    def totals(self) -> list[Words]:
        """Coefficients of the sum, part by part, each of the shape (polynomials, N)."""
        return [total.words for total in self._sums]

    def _unpacked(self, number: int, part: bytes | memoryview) -> Words:
        return self._sums[number].polynomials.unpack(part)
