"""Where a release's sums stand in the slots of a pad key's ciphertexts, and in results.

    ciphertext 1    place 1: numbers 1 … w_1       | place 2: 1 … w_2         | … | unused
    ciphertext 2    place 1: w_1 + 1 … 2·w_1       | place 2: w_2 + 1 … 2·w_2 | … | unused

A sum has a place, the same slots in every ciphertext. So the products of all ciphertexts with their coefficients can be
added up to one result, whose slots need only be added up over each place. It does not matter which slot of its place a
number is in, or in which ciphertext.

**Two layers.** Two products of the same bases, as difference and ties are, take the same numbers but for one. They may
share a place: the second then stands in a second result, made of the same ciphertexts with other coefficients. A result
goes to each party, so there are two layers only where they save as many ciphertexts as with the default thresholds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate

import numpy as np

from fhe_auc.base.errors import CapacityError
from fhe_auc.base.keystream import KeyStream
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues
from fhe_auc.sums.expansion import encrypted_numbers
from fhe_auc.sums.terms import Factor, Release

MOST_CIPHERTEXTS = 2**10
MOST_SLOTS = 2**14  # so many residues of 50 bits add up in 64
LEAST_SAVED = 5  # ciphertexts, for which there is a second result


@dataclass(frozen=True)
class Layout:
    """Places of so many slots each, one after the other, in so many ciphertexts of `slots` slots."""

    slots: int
    ciphertexts: int
    widths: tuple[int, ...]  # of each place
    places: tuple[tuple[int, int], ...]  # of each sum: its layer, and its place

    @classmethod
    @lru_cache(maxsize=16)  # every role of a process asks for it
    def of(cls, release: Release, slots: int) -> "Layout":
        """Return the layout with the fewest ciphertexts of at most 2^14 slots; `CapacityError` beyond 2^10 of them."""
        if slots > MOST_SLOTS:
            raise CapacityError(f"a ciphertext may have at most {MOST_SLOTS:,} slots, got {slots:,}")
        counts = [encrypted_numbers(total, release.sketch.lengths) for total in release.sums]
        alone = _fewest(counts, slots)
        places, shared = _paired(release, counts)
        together = _fewest(shared, slots)
        if together is not None and (alone is None or alone - together >= LEAST_SAVED):
            return cls(slots, together, tuple([-(-count // together) for count in shared]), places)
        if alone is None:
            raise CapacityError(
                f"{len(counts):,} sums of {sum(counts):,} numbers take more than {MOST_CIPHERTEXTS:,} ciphertexts of "
                f"{slots:,} slots"
            )
        own = tuple([(0, place) for place in range(len(counts))])
        return cls(slots, alone, tuple([-(-count // alone) for count in counts]), own)

    @property
    def layers(self) -> int:
        """How many results there are."""
        return 1 + max(layer for layer, _ in self.places)

    def monomials(self, of_sums: Sequence[Sequence[Residues]]) -> Residues:
        """Return what is encrypted for each sum in its slots, shape (ciphertexts, slots); zero elsewhere."""
        found: list[list[Residues]] = [[] for _ in self.widths]
        for (layer, place), vectors in sorted(zip(self.places, of_sums, strict=True), key=lambda own: own[0]):
            found[place] += vectors[-1:] if layer else vectors
        return self._placed(found)

    def coefficients(self, of_sums: Sequence[Sequence[Residues]], layer: int) -> Residues:
        """Return the coefficients of a layer's sums in the slots of their monomials, in the same shape."""
        found: list[list[Residues]] = [[] for _ in self.widths]
        for (own, place), vectors in zip(self.places, of_sums, strict=True):
            if own == layer:
                found[place] = [*vectors[:-1], *[np.zeros(1, np.uint64)] * layer, vectors[-1]]
        return self._placed(found)

    def mask(self, stream: KeyStream, totals: Residues, prime: int, layer: int = 0) -> Residues:
        """Return residues, shape (slots,), uniform but for what each place of a layer's sums adds up to: its total.

        `totals` are those of all sums, shape (sums,).
        """
        drawn = modular.uniform(stream, prime, self.slots)
        found = self._added(drawn, prime)
        for (own, place), total in zip(self.places, totals, strict=True):
            if own == layer:
                first, missing = self._starts[place], int(total) - int(found[place])
                drawn[first] = (int(drawn[first]) + missing) % prime
        return drawn

    def totals(self, slots: Sequence[Residues], prime: int) -> Residues:
        """Return the residues of all sums, shape (sums,), from each layer's slots modulo a prime of at most 50 bits."""
        found = [self._added(own, prime) for own in slots]
        return np.array([found[layer][place] for layer, place in self.places], np.uint64)

    def _added(self, slots: Residues, prime: int) -> Residues:
        *firsts, end = self._starts
        return np.asarray(np.add.reduceat(slots[:end], firsts) % np.uint64(prime))

    @cached_property
    def _starts(self) -> list[int]:
        """First slot of each place, and the first unused one."""
        return list(accumulate(self.widths, initial=0))

    def _placed(self, of_places: Sequence[Sequence[Residues]]) -> Residues:
        placed = np.zeros((self.ciphertexts, self.slots), np.uint64)
        for start, width, vectors in zip(self._starts[:-1], self.widths, of_places, strict=True):
            joined = np.concatenate([np.zeros(0, np.uint64), *vectors])
            together = np.pad(joined, (0, self.ciphertexts * width - len(joined)))
            placed[:, start : start + width] = together.reshape(self.ciphertexts, width)
        return placed


def _fewest(counts: Sequence[int], slots: int) -> int | None:
    """Return how many ciphertexts places of so many numbers take; None beyond 2^10."""
    for ciphertexts in range(-(-sum(counts) // slots), MOST_CIPHERTEXTS + 1):
        if sum(-(-count // ciphertexts) for count in counts) <= slots:
            return ciphertexts
    return None


def _paired(release: Release, counts: Sequence[int]) -> tuple[tuple[tuple[int, int], ...], list[int]]:
    """Return layer and place of each sum where every two that can share a place do, and the numbers of each place."""
    places, shared = list[tuple[int, int]](), list[int]()
    waiting: dict[tuple[Factor, ...], int] = {}
    for total, count in zip(release.sums, counts, strict=True):
        bases = tuple(total.bases)
        if total.degree == 2 and bases in waiting:
            place = waiting.pop(bases)
            shared[place] += 1
            places.append((1, place))
            continue
        if total.degree == 2:
            waiting[bases] = len(shared)
        places.append((0, len(shared)))
        shared.append(count)
    return tuple(places), shared
