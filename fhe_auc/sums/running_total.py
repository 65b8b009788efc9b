"""The sum of the padded sketches of any number of parties, in the memory of one."""

from __future__ import annotations

import numpy as np

from fhe_auc.rlwe.modular import Residues
from fhe_auc.rlwe.polynomials import Polynomials, Sum


class RunningTotal:
    """A sum of vectors of `size` residues modulo a prime below 2^63; any number of them."""

    def __init__(self, size: int, prime: int) -> None:
        self._shape = (size,)
        self._prime = prime
        self._sum = Sum(Polynomials(size, (prime,)))  # which reduces before a word can overflow

    def add(self, values: Residues) -> None:
        """Add residues, shape (size,); raise ValueError for anything else."""
        if values.shape != self._shape or values.dtype != np.uint64 or int(values.max()) >= self._prime:
            raise ValueError(f"expected {self._shape[0]} residues modulo {self._prime}")
        self._sum.add(values[None])

    @property
    def residues(self) -> Residues:
        """The sum, shape (size,); the caller's own."""
        return np.array(self._sum.words[0])
