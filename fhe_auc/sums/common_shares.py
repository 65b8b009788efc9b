"""Vectors that parties derive for each of them from their common secret: x_i = g_i − g_{i+1}, where the g are uniform.

The x of all parties are uniform and independent, and the sum over a run of neighbours takes two g, however many they
are. Whoever lacks the common secret knows none of them.
"""

from collections.abc import Sequence
from functools import partial, reduce
from itertools import pairwise

from fhe_auc.base.errors import InputError
from fhe_auc.base.keystream import KeyStream, derived_key
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues


class CommonShares:
    """The vectors of one session and purpose, each of shape (size,), modulo one prime; never printed.

    `session` is the manifest's digest; `label` and `purpose` are those of `derived_key`, which refuses a secret that
    has not 32 bytes (`InputError`) once a vector is asked for.
    """

    def __init__(
        self, secret: bytes, session: bytes, label: bytes, *purpose: str | int, modulus: int, size: int
    ) -> None:
        self._key = partial(derived_key, secret, session, label, *purpose)
        self._modulus = modulus
        self._size = size

    def __repr__(self) -> str:
        return "CommonShares(...)"

    def total(self, counted: Sequence[int]) -> Residues:
        """Return the sum of the vectors of the parties with these indices, shape (size,).

        Raises `InputError` unless there are some, each once, in ascending order. A party that is named twice would be
        summed twice, and any check that is linear would find that in order.
        """
        if not counted:
            raise InputError("a sum of no parties")
        if counted[0] < 0 or any(following <= this for this, following in pairwise(counted)):
            raise InputError("the parties that count must be listed once each, by index, in ascending order")
        parties = set(counted)
        added = (self._drawn(party) for party in counted if party - 1 not in parties)
        taken = (self._drawn(party + 1) for party in counted if party + 1 not in parties)
        left, right = (reduce(lambda x, y: modular.add(x, y, self._modulus), vectors) for vectors in (added, taken))
        return modular.subtract(left, right, self._modulus)

    def _drawn(self, index: int) -> Residues:
        """Return g of this index."""
        return modular.uniform(KeyStream(self._key(index)), self._modulus, self._size)
