"""Sums of vectors under one-time pads, for roles that know neither the protocol nor who has which key.

    submitted    vector, common secret                                ->  residues     with tags, under a common pad
    under_pad    residues, the party's own pad                        ->  submission
    aggregate    the sum of all submissions, the sum of their pads    ->  result
    proved       result, common secret                                ->  sums         checked

What is added up, and why nobody changes a sum unnoticed: `fhe_auc.sums.vector_sums`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import CapacityError
from fhe_auc.rlwe.modular import Residues
from fhe_auc.rlwe.parameters import RingParameters
from fhe_auc.rlwe.polynomials import Polynomials, PolynomialSum, Words
from fhe_auc.session.aggregator import RunningSum
from fhe_auc.session.computation import PaddedComputation, Submission
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.plan import VECTOR_SUMS, Keys, Parameter, Terms, describe_download, describe_upload
from fhe_auc.sums.pads import pack
from fhe_auc.sums.vector_sums import VectorAuthenticator, VectorSums

HELPED_BYTES = 1240
"""What a party sends a helper beside its submission: a sealed seed, and a signature, with their lengths."""


class VectorPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything public that a session's roles must agree on for a sum of vectors.

    Raises `CapacityError` for a number below 1, or sums that are too large.
    """

    kind: ClassVar[str] = VECTOR_SUMS

    keys: Keys  # who has the seeds of the pads: a key holder, or a helper
    thresholds: int  # points of the session's grid
    entries: int  # integers of a vector
    parties: int  # most that submit
    max_total: int  # public bound on the absolute value of every sum

    def __post_init__(self) -> None:
        for name in ("thresholds", "entries", "parties", "max_total"):
            if getattr(self, name) < 1:
                raise CapacityError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.max_total > self.sums.largest:
            raise CapacityError(
                f"sums up to {self.max_total:,} over {self.parties:,} parties are too large; {self.sums.largest:,} at "
                "most: take fewer rows (--max-rows), or with noise a larger epsilon"
            )

    @property
    def parameters(self) -> RingParameters | None:
        """None: nothing is encrypted."""
        return None

    @property
    def sums(self) -> VectorSums:
        """What is added up."""
        return VectorSums(self.entries, self.parties)

    @property
    def submission_bytes(self) -> int:
        """Bytes of what one party submits, without envelopes; with a helper, and its part for that."""
        return self.sums.packed_bytes + (HELPED_BYTES if self.keys == "helper" else 0)

    @property
    def download_bytes(self) -> int:
        """Bytes that a party receives, without envelopes."""
        return self.sums.packed_bytes

    def describe(self) -> list[Parameter]:
        """Return the parameters with their reasons."""
        sums = self.sums
        return [
            Parameter("sums", f"{self.entries:,}", "added up exactly: bins, for each label if need be"),
            Parameter("modulus t, bits", f"{sums.modulus.bit_length()}", "a prime; no sum reaches half of it"),
            Parameter("tags", f"{sums.tags}", "integers behind each vector that prove the sum"),
            describe_upload(self, "one integer modulo t for each sum and each tag, under a one-time pad"),
            describe_download(self),
        ]

    def as_dict(self) -> dict[str, object]:
        """Return the parameters as plain data."""
        return {
            "sums": self.entries,
            "modulus": self.sums.modulus,
            "tags": self.sums.tags,
            "upload_bytes": self.submission_bytes,
            "download_bytes": self.download_bytes,
        }

    def terms(self) -> Terms:
        """Return what the session's parties agree to."""
        bound = f"over all parties, each {self.max_total:,} at most"
        return Terms([Parameter("released", f"{self.entries:,} sums", bound)], {"sums": self.entries})


class VectorComputation(PaddedComputation[bytes, None]):
    """One session's sum of vectors, of a manifest that has a `VectorPlan`; there are pads alone, and no keys.

    A task encodes its vector with `submitted`, and reads the sums with `proved`.
    """

    plan: VectorPlan
    parameters = None

    def __init__(self, manifest: Manifest) -> None:
        self.plan = manifest.decoded_plan(VectorPlan)
        self._manifest = manifest
        self.sums = VectorSums(self.plan.entries, len(manifest.parties))
        self._shape = Polynomials(self.sums.size, (self.sums.modulus,))

    @property
    def part_bytes(self) -> tuple[int, ...]:
        """Bytes of a vector with its tags."""
        return (self.sums.packed_bytes,)

    @property
    def payload_limit(self) -> int:
        """More bytes than any honest submission, pad key or result has, with what a helper gets, but for names."""
        return self.sums.packed_bytes + HELPED_BYTES + 1024

    pad_key_limit = payload_limit

    def keys(self, context: bytes, pad_key: bytes) -> bytes:
        """Return the pad key."""
        self.sums.unpacked(pad_key)
        return pad_key

    def secret(self, context: bytes) -> None:
        """Return None."""

    def submitted(self, party: str, vector: NDArray[np.int64], common_secret: bytes) -> Residues:
        """Return a party's vector and tags under its common pad, for `under_pad`."""
        return self._authenticator(common_secret).submitted(self._manifest.parties.index(party), vector)

    def under_pad(self, index: int, seed: bytes, values: Sequence[Residues]) -> Submission:
        """Return a submission, of one part."""
        (submitted,) = values
        return Submission((self.sums.padded(submitted, self.sums.pad(seed, self._manifest.session, index)),))

    def running_sum(self) -> RunningSum:
        """Return an empty sum of submissions."""
        return RunningSum([self._shape], lambda _, part, __: self.sums.unpacked(part)[None])

    def sum_of_pads(self, seeds: Iterable[tuple[int, bytes]]) -> list[Words]:
        """Return the sum of these pads."""
        return self.added([self.sums.pad(seed, self._manifest.session, index)[None]] for index, seed in seeds)

    def added(self, sums: Iterable[Sequence[Words]]) -> list[Words]:
        """Return the sum of such sums."""
        total = PolynomialSum(self._shape)
        for (words,) in sums:
            total.add(words)
        return [total.words]

    def pad_key(self, secret: None, pads: Sequence[Words]) -> bytes:
        """Return the sum of the pads itself."""
        return pack(pads[0][0], self.sums.modulus)

    def aggregate(self, keys: bytes, totals: Sequence[Words]) -> bytes:
        """Return the sum of submissions without the pads."""
        ((total,),) = totals
        return self.sums.result(total, keys)

    def decrypt(self, secret: None, result: bytes) -> list[Residues]:
        """Return that sum, still under the common pads."""
        return [self.sums.unpacked(result)]

    def proved(
        self, decrypted: Sequence[Residues], counted: Sequence[str], common_secret: bytes, *, least: int, most: int
    ) -> NDArray[np.int64]:
        """Return the sums, shape (entries,): proved, and between these bounds; errors as `VectorAuthenticator.read`."""
        indices = [self._manifest.parties.index(party) for party in counted]
        return self._authenticator(common_secret).read(decrypted[0], indices, least, most)

    def soundness(self) -> float:
        """Return a bound on the probability that any party accepts a wrong sum: 1/t^tags for each of them."""
        return self.sums.parties / float(self.sums.modulus) ** self.sums.tags

    def _authenticator(self, common_secret: bytes) -> VectorAuthenticator:
        return VectorAuthenticator(self.sums, common_secret, self._manifest.digest)
