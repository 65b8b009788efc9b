"""Where values sit in the slots of a ciphertext.

c interleaved classes, B bins, period 2cB, repeated to fill all N/2 slots:

    slot q + c·k        holds u·X[q, k]    (class q, bin k)
    slot cB + q + c·k   holds Y[q, k]

u, a public power of two below 1, evens out what X and Y do to precision: noise on the one is multiplied by the other,
and all X together weigh up to √B times their largest, all Y no more than their sum. It makes room in the modulus, too.
A workload with more bins than fit is cut into blocks, one ciphertext each; their products are added up.
"""

from __future__ import annotations

import math

import msgspec
import numpy as np

from fhe_auc.ckks import Slots
from fhe_auc_protocols.blinded_auc.workload import Workload

CHECK_WEIGHT = 2.0 ** (-5 / 3)
"""κ: den travels as den·(1 + iκ), so that overflow shows.

A total that exceeds the modulus Q is off by integer multiples of Q in the four coefficients that carry two classes. In
the slots these are numbers of Q(√2), in which κ, a cube root, does not lie: no such multiple keeps Im = κ·Re. For small
multiples the gap is far above the tolerance (about 10^-6 of den); a workload a million times too large comes out as
good as random, and passes with about that probability.
"""

_MAX_X_BITS = 32


class Packing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The layout of `blocks` ciphertexts; ValueError where a number is out of range, or bins do not fit the slots."""

    slots: int
    """Slots of a ciphertext, N/2: a power of two."""
    classes: int
    """c, a power of two."""
    bins: int
    """B, bins of one block: a power of two with 2cB ≤ slots."""
    blocks: int
    """Ciphertexts of a submission, at least 1."""
    x_bits: int
    """-log2 u, 0 to 32."""

    def __post_init__(self) -> None:
        for name in ("slots", "classes", "bins"):
            value = getattr(self, name)
            if value < 1 or value & (value - 1):
                raise ValueError(f"{name} must be a power of two, got {value}")
        if not 0 <= self.x_bits <= _MAX_X_BITS:
            raise ValueError(f"x_bits must lie between 0 and {_MAX_X_BITS}, got {self.x_bits}")
        if 2 * self.classes * self.bins > self.slots or self.blocks < 1:
            raise ValueError(f"{self.classes} classes of {self.bins} bins do not fit {self.slots} slots")

    @property
    def copies(self) -> int:
        """How often each product stands in the slots."""
        return self.slots // (self.classes * self.bins)

    @property
    def x_unit(self) -> float:
        """u, what X is multiplied by."""
        return float(2.0**-self.x_bits)

    @property
    def gain(self) -> float:
        """What class totals come multiplied by."""
        return self.copies * self.x_unit

    @property
    def half(self) -> int:
        """Distance between X and Y: the rotation that brings factors together."""
        return self.classes * self.bins

    @property
    def trace_steps(self) -> tuple[int, ...]:
        """Rotations of the full trace: c, 2c, 4c, … below the number of slots; cB is one of them."""
        steps = []
        step = self.classes
        while step < self.slots:
            steps.append(step)
            step *= 2
        return tuple(steps)

    def pack(self, x: Slots, y: Slots) -> list[Slots]:
        """Return the slot vectors of all blocks for X and Y of shape (c, m), m ≤ blocks·B; missing bins are zero.

        Each is of shape (slots,). Raise `ValueError` for X and Y of other shapes.
        """
        if x.shape != y.shape or x.ndim != 2 or x.shape[0] != self.classes or x.shape[1] > self.blocks * self.bins:
            raise ValueError(
                f"expected X and Y of {self.classes} classes and at most {self.blocks * self.bins} bins, "
                f"got shapes {x.shape} and {y.shape}"
            )
        padded = np.zeros((2, self.classes, self.blocks * self.bins), complex)
        padded[0, :, : x.shape[1]] = x * self.x_unit
        padded[1, :, : y.shape[1]] = y
        vectors = []
        for block in np.split(padded, self.blocks, axis=2):
            period = block.transpose(0, 2, 1).reshape(-1)  # X then Y, bins in order, classes interleaved
            vectors.append(np.tile(period, self.slots // period.size))
        return vectors

    def by_class(self, slots: Slots) -> Slots:
        """Return a result's slots as an array of shape (c, slots/c): row q holds the copies of class q's total."""
        return slots.reshape(-1, self.classes).T


def split_norms(workload: Workload, bins: int) -> tuple[float, float]:
    """Return bounds on the norm of X, in 2P, and of Y, in N, over all positions of split shares: `bins` in all blocks.

    S weights that add up to 1, each at most 3/2 from 1/2, have squares that add up to 2S + 1 at most. All positives may
    count in every bin, all negatives in one. The extra element has |x| ≤ 1, and Σ|y|² ≤ 25/n at n ≥ 24 positions.
    """
    main = 2 * workload.splits + 1
    extra = bins - workload.splits * workload.thresholds
    return math.sqrt(main * workload.thresholds + extra), math.sqrt(main + 25 / extra)
