"""Sums of vectors under one-time pads, for roles that know neither the protocol nor who has which key.

    encode        a party's rows                                      ->  vector        `VectorTask`, by the protocol
    submission    vector, common secret, pad                          ->  submission    `VectorComputation`
    aggregate     the sum of all submissions, the sum of their pads   ->  result        `VectorComputation`
    outcome       result                                              ->  outcome       checked, then `VectorTask.read`

Roles: `fhe_auc_keys.roles.padded_roles` and `helper_roles`. What is added up, and why nobody changes a sum
unnoticed: `fhe_auc.sums.vector_sums`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Generic

import msgspec
import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import CapacityError
from fhe_auc.rlwe.modular import Residues
from fhe_auc.rlwe.polynomials import Polynomials, Words
from fhe_auc.session.computation import Padded, Result
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.party import R
from fhe_auc.session.plan import VECTOR_SUMS, Keys, Parameter, Terms, describe_download, describe_upload
from fhe_auc.session.running_sum import RunningSum
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

    def as_dict(self) -> dict[str, Any]:
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


class VectorTask(ABC, Generic[R]):
    """One party's part in a sum of vectors: it encodes its rows, which are checked already, and reads the sums."""

    party: str  # name
    least: int
    most: int  # every entry of the sum lies between these two, where the parties have kept to the session's bounds

    @abstractmethod
    def encode(self) -> NDArray[np.int64]:
        """Return the party's vector, shape (entries,), each at most the plan's `max_total` in absolute value."""

    @abstractmethod
    def read(self, sums: NDArray[np.int64], counted: Sequence[str]) -> R:
        """Return the outcome of the sums over these parties, shape (entries,): proved, and within the bounds.

        Raises `EvaluationError` where no rows have such sums, or they have no outcome.
        """


class VectorComputation:
    """One session's sum of vectors, of a manifest that has a `VectorPlan`; everything about it is public.

    Roles ask the same of it as of a `PaddedComputation`; but there are no keys to load.
    """

    def __init__(self, manifest: Manifest) -> None:
        self.plan = manifest.decoded_plan(VectorPlan)
        self._manifest = manifest
        self._sums = VectorSums(self.plan.entries, len(manifest.parties))
        self._indices = {party: index for index, party in enumerate(manifest.parties)}
        self.proofs = None  # nothing is proved of what parties put in
        self.size, self.modulus = self._sums.size, self._sums.modulus  # residues of a pad; the prime t

    @property
    def payload_limit(self) -> int:
        """More bytes than any honest submission, opening or result has, with what a helper gets, but for names."""
        return self._sums.packed_bytes + HELPED_BYTES + 1024

    opening_limit = payload_limit

    def load_public(self, material: bytes) -> None:
        """Return None."""

    load_secret = load_public

    def opening(self, material: bytes, seeds: Mapping[str, bytes]) -> bytes:
        """Return the sum of the pads from these seeds, by party; one only in a session."""
        return self._sums.pad_key(self._manifest.session, {self._indices[party]: seeds[party] for party in seeds})

    def opened(self, public: None, opening: bytes) -> bytes:
        """Return the opening; raise `DeserialisationError` for bytes that are none."""
        self._sums.unpacked(opening)
        return opening

    def under_pad(self, task: VectorTask[Any], index: int, seed: bytes, common_secret: bytes) -> Padded:
        """Return a submission under the pad of this index and seed, 32 bytes."""
        return Padded(self.submission(task, self._sums.pad(seed, self._manifest.session, index), common_secret))

    def submission(self, task: VectorTask[Any], pad: Residues, common_secret: bytes) -> tuple[bytes]:
        """Return a party's submission, of one part; the pad is for nothing else."""
        return (self._authenticator(common_secret).submission(self._indices[task.party], task.encode(), pad),)

    def running_sum(self) -> RunningSum:
        """Return an empty sum of submissions; it checks what it adds."""
        return RunningSum(
            [Polynomials(self.size, (self.modulus,))], lambda _, part, __: self._sums.unpacked(part)[None]
        )

    def aggregate(self, opening: bytes, totals: Sequence[Words]) -> bytes:
        """Return the result from the sum of submissions, and of their pads."""
        ((total,),) = totals
        return self._sums.result(total, opening)

    def outcome(self, keys: None, task: VectorTask[R], result: Result, common_secret: bytes) -> R:
        """Return the outcome of a result; errors as `VectorAuthenticator.read` and `task.read`."""
        counted = [self._indices[party] for party in result.counted]
        sums = self._authenticator(common_secret).read(result.content, counted, task.least, task.most)
        return task.read(sums, result.counted)

    def soundness(self) -> float:
        """Return a bound on the probability that any party accepts a wrong sum: 1/t^tags for each of them."""
        return len(self._indices) / float(self._sums.modulus) ** self._sums.tags

    def _authenticator(self, common_secret: bytes) -> VectorAuthenticator:
        return VectorAuthenticator(self._sums, common_secret, self._manifest.digest)
