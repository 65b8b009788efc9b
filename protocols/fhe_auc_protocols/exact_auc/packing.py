"""Where values sit in the slots of an exact session's ciphertexts.

The aggregator multiplies two ciphertexts, left and right, slot by slot. What parties need of the product are sums over
slots: of num, of den, and with `ties` of tie (`fhe_auc.counts`). Entries of a block, one for each product X·Y:

    num of every bin | tie of every bin | den                  n entries

Without authentication a ciphertext holds X on the left, Y on the right, and nothing else. With it, entries stand four
times, with their authenticators X' and Y' (`fhe_auc_protocols.exact_auc.authenticator`); behind them, two slots a sum:

    left    X | X  | X' | X' | μ   | μ'                        μ, μ' one slot for each of the sums
    right   Y | Y' | Y  | Y' | one | one
            0   1    1    2    1     2                         power of z that the product belongs to

More bins than fit are cut into pairs of ciphertexts, whose products are added up.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from fhe_auc.keystream import KeyStream
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues

UNUSED = -1
_COPIES = ((0, 0), (0, 1), (1, 0), (1, 1))  # which of X, X' meets which of Y, Y'


class Entries(NamedTuple):
    """What a party contributes to the products: X and Y, of shape (…, pairs, n), in any one ring."""

    x: NDArray[np.int64]
    y: NDArray[np.int64]


class ExactPacking(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The layout of an exact session's ciphertexts.

    Raises `ValueError`: the bins do not fit the pairs, or leave one empty.
    """

    slots: int
    """Slots of a ciphertext, N."""
    bins: int
    """m, bins of the session: at least 1."""
    pairs: int
    """Pairs of ciphertexts, at least 1."""
    ties: bool
    """Whether tie is computed beside num and den: in every session, though not in every experiment on the check."""
    authenticated: bool
    """Whether entries stand four times, with authenticators."""

    def __post_init__(self) -> None:
        if min(self.bins, self.pairs) < 1 or self.used > self.slots or (self.pairs - 1) * self.per_pair >= self.bins:
            raise ValueError(f"{self.bins} bins do not fit {self.pairs} pairs of {self.slots} slots")

    @classmethod
    def fitting(cls, slots: int, bins: int, *, ties: bool, authenticated: bool) -> ExactPacking:
        """Return the layout with the fewest pairs; raise `ValueError` where not even one bin fits."""
        one = cls(slots, 1, 1, ties, authenticated)
        copies, behind = (4, 2 * one.sums) if authenticated else (1, 0)
        most = ((slots - behind) // copies - 1) // (one.sums - 1)
        return cls(slots, bins, -(-bins // most), ties, authenticated)

    @property
    def sums(self) -> int:
        """How many sums there are: num, with `ties` tie, and den, in this order."""
        return 3 if self.ties else 2

    @property
    def per_pair(self) -> int:
        """Bins of a pair; the last one may have fewer."""
        return -(-self.bins // self.pairs)

    @property
    def entries(self) -> int:
        """n, entries of a pair."""
        return (self.sums - 1) * self.per_pair + 1

    @property
    def used(self) -> int:
        """Slots in use."""
        return 4 * self.entries + 2 * self.sums if self.authenticated else self.entries

    @property
    def sum_of_entry(self) -> NDArray[np.int64]:
        """Which sum each entry belongs to, shape (n,)."""
        return np.append(np.repeat(np.arange(self.sums - 1), self.per_pair), self.sums - 1)

    @property
    def groups(self) -> NDArray[np.int64]:
        """Which group each slot of a product belongs to, shape (slots,): power·sums + sum, or `UNUSED`."""
        groups = np.full(self.slots, UNUSED)
        entries = self.sum_of_entry
        if not self.authenticated:
            groups[: len(entries)] = entries
            return groups
        blocks = [self.sums * sum(powers) + entries for powers in _COPIES]
        tags = [self.sums * power + np.arange(self.sums) for power in (1, 2)]
        groups[: self.used] = np.concatenate([*blocks, *tags])
        return groups

    @property
    def group_count(self) -> int:
        """Number of groups."""
        return (3 if self.authenticated else 1) * self.sums

    def place(self, heights: NDArray[np.int64], positives: NDArray[np.int64], negatives: NDArray[np.int64]) -> Entries:
        """Return a party's entries in integers, shape (pairs, n), from T_k, p_k and F_k of each bin, shape (m,)."""
        padded = self.pairs * self.per_pair
        rows, columns = (heights, positives)[: self.sums - 1], (negatives,) * (self.sums - 1)
        last = np.zeros((2, self.pairs, 1), np.int64)
        last[:, 0, 0] = 2 * positives.sum(), negatives.sum()

        def spread(vectors: tuple[NDArray[np.int64], ...], den: NDArray[np.int64]) -> NDArray[np.int64]:
            cut = [np.pad(each, (0, padded - self.bins)).reshape(self.pairs, self.per_pair) for each in vectors]
            return np.concatenate([*cut, den], axis=1)

        return Entries(spread(rows, last[0]), spread(columns, last[1]))

    def plain(self, x: Residues, y: Residues) -> tuple[Residues, Residues]:
        """Return left and right, of shape (…, pairs, slots), from X and Y, (…, pairs, n), without authentication."""
        return self._filled([x]), self._filled([y])

    def tagged(
        self, x: tuple[Residues, Residues], y: tuple[Residues, Residues], tags: Residues, one: Residues
    ) -> tuple[Residues, Residues]:
        """Return left and right, of shape (…, pairs, slots).

        From X and X', Y and Y', shape (…, pairs, n) each; μ and μ' of each sum, shape (…, 2, sums); and `one`, shape
        (…), which is 1 for one party, 0 for the others.
        """
        left = [x[which] for which, _ in _COPIES]
        right = [y[which] for _, which in _COPIES]
        ends = np.zeros((2, *left[0].shape[:-1], 2 * self.sums), np.uint64)
        ends[0, ..., 0, :] = tags.reshape(*tags.shape[:-2], 2 * self.sums)
        ends[1, ..., 0, :] = one[..., None]
        return self._filled([*left, ends[0]]), self._filled([*right, ends[1]])

    def _filled(self, parts: list[Residues]) -> Residues:
        together = np.concatenate(parts, axis=-1)
        whole = np.zeros((*together.shape[:-1], self.slots), np.uint64)
        whole[..., : together.shape[-1]] = together
        return whole

    def mask(self, stream: KeyStream, prime: int) -> Residues:
        """Return residues, shape (slots,), uniform but for their sums over the groups, which are zero."""
        drawn = modular.uniform(stream, prime, self.slots)
        groups = self.groups
        for group in range(self.group_count):
            first, *others = np.flatnonzero(groups == group)
            drawn[first] = (prime - int(modular.total(drawn[others], prime))) % prime
        return drawn

    def totals(self, product: Residues, modulus: int) -> Residues:
        """Return the sums over each group, shape (…, powers, sums), of a product's slots, shape (…, slots)."""
        groups = self.groups
        found = [
            product[..., groups == group].sum(axis=-1, dtype=np.uint64) % np.uint64(modulus)
            for group in range(self.group_count)
        ]
        return np.stack(found, axis=-1).reshape(*product.shape[:-1], -1, self.sums)
