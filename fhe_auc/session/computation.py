"""An encrypted computation, for roles that know neither its encryption scheme nor its protocol.

    encode      a party's rows                     ->  values          `PartyTask`, by the protocol
    encrypt     values                             ->  submission      by the scheme, or under a pad
    aggregate   the sum of all submissions         ->  result          by the scheme; the circuit is the protocol's
    decrypt     result                             ->  values          by the scheme
    read        values                             ->  outcome         `PartyTask`

A protocol brings one for each way in which keys may be held; `fhe_auc_keys.roles` makes roles of it:

    `SealedComputation`    `sealed_roles`: a key holder makes the keys, and parties encrypt
    `PaddedComputation`    `padded_roles`: a key holder makes the keys, and parties pad; `helper_roles`: a helper does

Sums of vectors, which need no encryption: `fhe_auc.session.vector_computation`.

The common secret, 32 bytes that all parties of the session have and the aggregator has not, is an argument wherever it
is needed: nothing that a protocol makes holds it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar, cast

import msgspec

from fhe_auc.base.errors import InputError
from fhe_auc.input_proofs.sessions import InputProof, InputProofs
from fhe_auc.rlwe.context import BasePublicContext, BaseSecretContext
from fhe_auc.rlwe.modular import Residues
from fhe_auc.rlwe.polynomials import Words
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.party import R
from fhe_auc.session.plan import EncryptedPlan
from fhe_auc.session.running_sum import RunningSum

Task = TypeVar("Task", bound="PartyTask[Any, Any, Any]")
Public = TypeVar("Public")  # what the aggregator computes with
Secret = TypeVar("Secret")  # what a party encrypts with: the secret key
Values = TypeVar("Values")  # what is encrypted as one part of a submission
Decrypted = TypeVar("Decrypted")  # what a decrypted result holds


class Result(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What the aggregator sends once it has computed: the parties that count, and the result."""

    counted: tuple[str, ...]  # in the manifest's order
    content: bytes  # a ciphertext, from `Computation.aggregate`; or of a `VectorComputation`


class PartyTask(ABC, Generic[Values, Decrypted, R]):
    """One party's part in a computation: it encodes its rows, which are checked already, and reads the result."""

    party: str  # name
    masked: bool = False  # whether ciphertexts get masks, which vanish in the sum over all parties alone

    @abstractmethod
    def encode(self, common_secret: bytes) -> Sequence[Values]:
        """Return what to encrypt, part by part; `common_secret` is 32 bytes that the aggregator has not."""

    @abstractmethod
    def read(self, decrypted: Decrypted, counted: Sequence[str], common_secret: bytes) -> R:
        """Return the outcome of the decrypted result over these parties, without the session's costs.

        Raises `EvaluationError` where the result fails a check, or is undefined.
        """


class Computation(ABC, Generic[Task, Public, Secret, Decrypted]):
    """One session's encrypted computation; everything about it is public."""

    plan: EncryptedPlan

    @property
    def payload_limit(self) -> int:
        """More bytes than any honest submission or result has: at most two polynomials a part."""
        return 2 * self.plan.submission_bytes + 1024 * (1 + self.plan.blocks)

    @abstractmethod
    def aggregate(self, keys: Public, totals: Sequence[Words]) -> bytes:
        """Return the encrypted result, from the sum of all submissions, part by part."""


class WholeKeyComputation(Computation[Task, Public, Secret, Decrypted]):
    """A computation under keys that one role has made as a whole, for the manifest `_manifest`."""

    library: ClassVar[Any]  # the scheme's package, `fhe_auc.bfv` or `fhe_auc.ckks`
    _manifest: Manifest

    def load_public(self, material: bytes) -> Any:
        """Return the public context in these bytes.

        Raises `DeserialisationError` for damaged or other bytes, `InputError` for another session's keys.
        """
        return self._checked(self.library.load_public(material))

    def load_secret(self, material: bytes) -> Secret:
        """Return the secret key that these bytes hold; errors as `load_public`."""
        return cast("Secret", self._checked(self.library.load_secret(material)))

    @abstractmethod
    def decrypt(self, keys: Secret, result: bytes) -> Decrypted:
        """Return what an encrypted result holds; raise `DeserialisationError` where it is none of this session."""

    def outcome(self, keys: Secret, task: PartyTask[Any, Decrypted, R], result: Result, common_secret: bytes) -> R:
        """Return what a party reads of a result; errors as `decrypt` and `task.read`."""
        return task.read(self.decrypt(keys, result.content), result.counted, common_secret)

    def _checked(self, context: BasePublicContext[Any] | BaseSecretContext[Any]) -> Any:
        if self.plan.parameters != context.parameters:
            raise InputError("the keys were made with other parameters than the session's manifest names")
        if self._manifest.keys == "sealed" and self._manifest.context != context.fingerprint:
            raise InputError("the keys are not those of this session (fingerprint mismatch)")
        return context


class SealedComputation(WholeKeyComputation[Task, Public, Secret, Decrypted]):
    """A computation on what parties encrypt, under a key that they all have: `load_public` returns `Public`."""

    @abstractmethod
    def encrypt(self, keys: Secret, task: Task, common_secret: bytes) -> tuple[bytes, ...]:
        """Return a party's submission, part by part."""

    @abstractmethod
    def running_sum(self, keys: Public) -> RunningSum:
        """Return an empty sum of submissions; it checks what it adds."""


class Padded(NamedTuple):
    """A party's submission under its pad, part by part, and the proof that its counts are within its row cap."""

    parts: tuple[bytes, ...]
    proof: InputProof | None = None  # None where the session has none


class PaddedComputation(WholeKeyComputation[Task, Public, Secret, list[Residues]]):
    """A computation on what parties submit under one-time pads; the opening of the pads' sum stands for a key.

    A pad comes from a seed that only its party and the role that opens have. `aggregate` takes what `opened` returns.
    """

    proofs: InputProofs | None = None
    """What checks the parties' proofs, where the session has any."""

    @property
    @abstractmethod
    def part_bytes(self) -> tuple[int, ...]:
        """Bytes of each part of a submission, without its proof."""

    @property
    @abstractmethod
    def opening_limit(self) -> int:
        """More bytes than a public context and an opening have together."""

    @abstractmethod
    def under_pad(self, task: Task, index: int, seed: bytes, common_secret: bytes) -> Padded:
        """Return a submission under the pad of this index and seed, 32 bytes."""

    @abstractmethod
    def running_sum(self) -> RunningSum:
        """Return an empty sum of submissions; it checks what it adds."""

    @abstractmethod
    def sum_of_pads(self, seeds: Iterable[tuple[int, bytes]]) -> list[Words]:
        """Return the sum of these pads, by index, part by part, each of the shape (1, entries)."""

    @abstractmethod
    def added(self, sums: Iterable[Sequence[Words]]) -> list[Words]:
        """Return the sum of such sums, of pads or of submissions; of none it is zero."""

    @abstractmethod
    def open_sum(self, material: bytes, pads: Sequence[Words]) -> bytes:
        """Return the opening of such a sum; `material` is for `load_secret`."""

    def opening(self, material: bytes, seeds: Mapping[str, bytes]) -> bytes:
        """Return the opening of the sum of the pads from these seeds, by party.

        A session has one opening only: two of them tell what the pads between them hide.
        """
        indices = {party: index for index, party in enumerate(self._manifest.parties)}
        return self.open_sum(material, self.sum_of_pads((indices[party], seed) for party, seed in seeds.items()))

    @abstractmethod
    def opened(self, public: Any, opening: bytes) -> Public:
        """Return what the aggregator computes with, of a public context and an opening; errors as `load_public`."""
