"""Sums of whole vectors under one-time pads: exact, of degree 1, with two tags that prove them.

    party         `VectorAuthenticator.submitted`     (w_i ‖ τ_i) + k_i
    party         under its pad                       s_i = that + m_i
    key holder    the pad key                         M_L = Σ m_i over the parties L that count
    aggregator    the result                          y = Σ s_i − M_L
    party         `VectorAuthenticator.proved_sums`   y − Σ k_i = W ‖ T, and W = Σ w_i if T_j = Σ_k r_{j,k}·W_k

docs/security/histograms.md, "Sums of vectors", says what the letters mean, and why a wrong W passes with probability
1/t² only. m_i hides w_i from who has the common secret, k_i from who has the pads, and k_i hides r from the aggregator.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import CapacityError, InputError, ResultCheckError, VerificationError
from fhe_auc.base.keystream import KeyStream, derived_key
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues
from fhe_auc.rlwe.packing import packed_size
from fhe_auc.sums.proof import CommonShares
from fhe_auc.sums.terms import MOST_ENTRIES

MODULUS = 2**41 + 27  # the least prime above 2^41: a residue takes 42 bits
_LABEL = b"fhe-auc vector sums 1\0"
_DIGEST_BYTES = 32


@dataclass(frozen=True)
class VectorSums:
    """What everybody knows of a session's vectors; key holder, helper and aggregator need no more.

    Raises `InputError` where entries or parties are fewer than one, `CapacityError` where there are too many. Tests
    count at a small prime what holds for any.
    """

    entries: int  # n, of each party's vector, 1 to 2^20
    parties: int  # of the manifest
    modulus: int = MODULUS  # t
    tags: int = 2  # behind each vector

    def __post_init__(self) -> None:
        if min(self.entries, self.parties) < 1:
            raise InputError(f"no sums of {self.parties} vectors of {self.entries} entries; at least one of each")
        if self.entries > MOST_ENTRIES or self.largest < 1:
            raise CapacityError(
                f"sums of {self.parties:,} vectors of {self.entries:,} entries are too large; vectors have at most "
                f"{MOST_ENTRIES:,} entries, and parties are at most {self.modulus // 2:,}"
            )

    @property
    def size(self) -> int:
        """Residues of a submission, a pad, a pad key or a result: the entries, then the tags."""
        return self.entries + self.tags

    @property
    def packed_bytes(self) -> int:
        """Bytes of each of these."""
        return packed_size(self.size, self.modulus)

    @property
    def largest(self) -> int:
        """Of a party's entry, in absolute value: no sum is then beyond t/2, where it would wrap around."""
        return self.modulus // 2 // self.parties

    def check_indices(self, counted: Iterable[int]) -> None:
        """Raise `InputError` unless all are indices of parties."""
        if not all(0 <= index < self.parties for index in counted):
            raise InputError(f"there are {self.parties} parties; a party that counts has an index below that")


class VectorAuthenticator:
    """The session's weights and common pads, which its parties have and the aggregator must not know; never printed.

    They follow from the parties' common secret and the manifest's digest, 32 bytes each (`InputError` for others).
    """

    def __init__(self, sums: VectorSums, common_secret: bytes, digest: bytes) -> None:
        if len(digest) != _DIGEST_BYTES:
            raise InputError(f"a manifest's digest has {_DIGEST_BYTES} bytes, got {len(digest)}")
        self._sums = sums
        weights = KeyStream(derived_key(common_secret, digest, _LABEL, "weights"))
        self._weights = modular.uniform(weights, sums.modulus, sums.tags, sums.entries)
        self._pads = CommonShares(common_secret, digest, _LABEL, "pad", modulus=sums.modulus, size=sums.size)

    def __repr__(self) -> str:
        return "VectorAuthenticator(...)"

    def submitted(self, party: int, values: NDArray[np.int64]) -> Residues:
        """Return (w_i ‖ τ_i) + k_i of the party with this index, shape (size,), to be padded.

        `values` are w_i, integers of shape (entries,), at most `VectorSums.largest` in absolute value, with their noise
        if any. Raises `InputError` for anything else; it says no value.
        """
        sums, t = self._sums, self._sums.modulus
        sums.check_indices([party])
        if values.shape != (sums.entries,) or values.dtype != np.int64:
            raise InputError(f"a party's vector has {sums.entries} integers, got {values.dtype} {values.shape}")
        if (beyond := (values > sums.largest) | (values < -sums.largest)).any():
            raise InputError(f"entry {int(beyond.argmax())} of a party's vector is beyond ±{sums.largest:,}")
        entries = modular.residues(values, t)
        return modular.add(np.concatenate([entries, self._tags(entries)]), self._pads.total([party]), t)

    def proved_sums(self, result: Residues, counted: Sequence[int], least: int, most: int) -> NDArray[np.int64]:
        """Return W, the sum of the vectors of the parties that count, shape (entries,).

        `result` is y, shape (size,), and `counted` L, indices in ascending order, as the aggregator sent them; every
        entry of W lies between `least` and `most` where parties have kept to what was agreed on.

        Raises `InputError` where these are not some of the session's parties, each once; `VerificationError` where W is
        not the sum of what these parties have submitted, and nothing else is said of it; `ResultCheckError` where it
        is, and an entry is below `least` or above `most`.

        All is computed whatever fails: the time it takes tells the aggregator nothing.
        """
        sums, t = self._sums, self._sums.modulus
        sums.check_indices(counted)
        pooled = modular.subtract(result, self._pads.total(counted), t)
        differs = self._tags(pooled[: sums.entries]) ^ pooled[sums.entries :]
        right = np.bitwise_or.reduce(differs) == 0
        entries = pooled[: sums.entries].astype(np.int64)
        entries -= np.where(entries > t // 2, t, 0)
        outside = np.count_nonzero((entries < least) | (entries > most))
        if not right:
            raise VerificationError(
                "the sums fail their check, so no number is given: the aggregator has not summed what the parties that "
                "it names have submitted, a party has submitted twice or numbers that do not fit together, or a "
                "message is damaged",
                check="authenticator",
            )
        if outside:
            raise ResultCheckError(
                f"the sums are those of what parties submitted, but {outside} of {sums.entries} lie outside {least:,} "
                f"to {most:,}, so no number is given: a party has entered more than the session allows",
                check="rows",
            )
        return entries

    def _tags(self, entries: Residues) -> Residues:
        """Return the tags Σ_k r_k·w_k of vectors, shape (…, entries), as shape (…, tags)."""
        t = self._sums.modulus
        return modular.total(modular.multiply(entries[..., None, :], self._weights, t), t)
