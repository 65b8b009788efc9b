"""Sums of vectors under one-time pads, for roles that know neither the protocol nor who has which key.

What is added up, and why nobody changes a sum unnoticed: `fhe_auc.sums.vector_sums`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from fhe_auc.base.errors import CapacityError, InputError
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues
from fhe_auc.rlwe.packing import pack
from fhe_auc.rlwe.polynomials import Words
from fhe_auc.rlwe.ring_parameters import RingParameters
from fhe_auc.session.computation import PaddedComputation
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.plan import VECTOR_SUMS, Keys, Parameter, Terms, describe_download, describe_upload
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
    fleet: bool = False
    """Whether devices submit, who have no secret in common: no tags prove their sums, and no common pads hide them."""

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
        """What is added up; of a fleet all devices together keep to `max_total`."""
        return VectorSums(self.entries, 1, tags=0) if self.fleet else VectorSums(self.entries, self.parties)

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
        self.plan = plan = manifest.decoded_plan(VectorPlan)
        if plan.fleet != (manifest.fleet is not None):
            raise InputError("the session's plan is for sites where a fleet takes part, or the reverse")
        self.sums = plan.sums if plan.fleet else VectorSums(plan.entries, len(manifest.parties))
        super().__init__(manifest, (self.sums.size,), (self.sums.modulus,))

    @property
    def payload_limit(self) -> int:
        """More bytes than any honest submission, pad key or result has, with what a helper gets, but for names."""
        return self.sums.packed_bytes + HELPED_BYTES + 1024

    pad_key_limit = payload_limit

    def keys(self, context: bytes, pad_key: bytes) -> bytes:
        """Return the pad key."""
        self.unpacked(0, pad_key)
        return pad_key

    def secret(self, context: bytes) -> None:
        """Return None."""

    def authenticator(self, common_secret: bytes) -> VectorAuthenticator:
        """Return what parties add to their vectors, and prove sums by; the aggregator must not know it."""
        return VectorAuthenticator(self.sums, common_secret, self.manifest.digest)

    def pad_key(self, secret: None, pads: Sequence[Words]) -> bytes:
        """Return the sum of the pads itself."""
        return pack(pads[0][0], self.sums.modulus)

    def aggregate(self, keys: bytes, totals: Sequence[Words]) -> bytes:
        """Return the sum of submissions without the pads."""
        t = self.sums.modulus
        return pack(modular.subtract(totals[0][0], self.unpacked(0, keys)[0], t), t)

    def decrypt(self, secret: None, result: bytes) -> list[Residues]:
        """Return that sum, still under the common pads."""
        return [self.unpacked(0, result)[0]]

    def soundness(self) -> float | None:
        """Return a bound on the probability that any party accepts a wrong sum: 1/t^tags for each of them."""
        return None if self.plan.fleet else self.sums.parties / float(self.sums.modulus) ** self.sums.tags
