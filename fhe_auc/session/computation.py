"""What roles ask of a computation; they know neither its encryption scheme nor its protocol.

    encode      a party's rows                     ->  values          `PartyTask`, by the protocol
    submit      values                             ->  submission      under a key, or under a pad
    aggregate   the sum of all submissions         ->  result          the circuit is the protocol's
    decrypt     result                             ->  values
    read_result values                             ->  outcome         `PartyTask`

Who has which key is a role's business (`fhe_auc_keys.roles`). `PaddedComputation` is the contract where parties pad.
Where they encrypt under a key that they all have, there is `fhe_auc.session.ckks_computation`.

The common secret, 32 bytes that all parties of the session have and the aggregator has not, is an argument wherever it
is needed: nothing that a protocol makes holds it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Generic, NamedTuple, TypeAlias, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import InputError
from fhe_auc.input_proofs.sessions import InputProofs
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues
from fhe_auc.rlwe.packing import Octets, pack, packed_size, unpack, unpack_rows
from fhe_auc.rlwe.polynomials import Polynomials, PolynomialSum, Words
from fhe_auc.rlwe.ring_parameters import RingParameters
from fhe_auc.session.aggregator import RunningSum
from fhe_auc.session.manifest import Manifest
from fhe_auc.session.party import R
from fhe_auc.session.plan import Plan
from fhe_auc.sums.pads import pads

Keys = TypeVar("Keys")  # what the aggregator computes with
Secret = TypeVar("Secret")  # the secret key
Values = TypeVar("Values")  # what is encrypted as one part of a submission
Decrypted = TypeVar("Decrypted")  # what a decrypted result holds


class Result(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What the aggregator sends once it has computed: the parties that count, and the result."""

    counted: tuple[str, ...]  # in the manifest's order
    content: bytes  # from `PaddedComputation.aggregate`, or encrypted


class Submission(NamedTuple):
    """What a party submits, part by part, and the proof that its counts are within its row cap."""

    parts: tuple[bytes, ...]
    proof: bytes = b""  # empty where the session has none


class PartyTask(ABC, Generic[Values, Decrypted, R]):
    """One party's part in a computation: it encodes its rows, which are checked already, and reads the result."""

    party: str  # name

    @abstractmethod
    def encode(self, common_secret: bytes) -> Sequence[Values]:
        """Return what to submit, part by part; `common_secret` is 32 bytes that the aggregator has not."""

    @abstractmethod
    def read_result(self, decrypted: Decrypted, counted: Sequence[str], common_secret: bytes) -> R:
        """Return the outcome of the decrypted result over these parties, without the session's costs.

        It is the same for all parties of a session: nothing of this party's own rows is in it.

        Raises `EvaluationError` where the result fails a check, or is undefined.
        """


PaddedTask: TypeAlias = PartyTask[Residues, Sequence[Residues], R]
"""One where parties pad: it encodes residues for each prime, and reads their sums."""


class PaddedComputation(ABC, Generic[Keys, Secret]):
    """One session's computation on what parties submit under one-time pads; everything about it is public.

    A submission has a part for each of the `primes`: residues modulo it, as many as `sizes` says. A pad comes from a
    seed that only its party has, and the role that makes the *pad key*: what takes the sum of the pads off. Methods
    that take what another role has made raise `DeserialisationError` for damaged or other bytes, and `InputError` for
    another session's keys.
    """

    plan: Plan
    parameters: RingParameters | None  # of the encryption; None where there are pads alone, and no keys
    proofs: InputProofs | None = None  # what checks the parties' proofs, where the session has any

    def __init__(self, manifest: Manifest, sizes: Sequence[int], primes: Sequence[int]) -> None:
        self.manifest, self.sizes, self.primes = manifest, tuple(sizes), tuple(primes)
        self._shapes = [Polynomials(size, (prime,)) for size, prime in zip(sizes, primes, strict=True)]

    @property
    def part_bytes(self) -> tuple[int, ...]:
        """Bytes of each part of a submission, without its proof."""
        return tuple(map(packed_size, self.sizes, self.primes))

    @property
    @abstractmethod
    def payload_limit(self) -> int:
        """More bytes than any honest submission or result has, but for names."""

    @property
    @abstractmethod
    def pad_key_limit(self) -> int:
        """More bytes than a public context and a pad key have together."""

    @abstractmethod
    def keys(self, context: bytes, pad_key: bytes) -> Keys:
        """Return what the aggregator computes with, of a public context, if there is any, and the pad key."""

    @abstractmethod
    def secret(self, context: bytes) -> Secret:
        """Return the secret key that a secret context, if there is any, holds."""

    def pads(self, indices: Sequence[int], seeds: Sequence[bytes]) -> list[Residues]:
        """Return the pads of the parties of these indices and seeds, 32 bytes, part by part, shape (parties, size).

        Where parties prove their counts, that of the first part is longer: its last residues pad the proof.
        """
        sizes = list(self.sizes)
        sizes[0] += 0 if self.proofs is None else self.proofs.size
        own = enumerate(zip(self.primes, sizes, strict=True))
        return [pads(seeds, self.manifest.session, indices, which, prime, size) for which, (prime, size) in own]

    def under_pad(self, index: int, seed: bytes, values: Sequence[Residues]) -> Submission:
        """Return what a task has encoded under the pad of the party's index and seed."""
        return Submission(self.padded(values, self.pads([index], [seed])))

    def padded(self, values: Sequence[Residues], pads: Sequence[Residues]) -> tuple[bytes, ...]:
        """Return what a task has encoded under one party's pad, part by part."""
        own = zip(values, pads, self.primes, strict=True)
        return tuple([pack(modular.add(value, pad[0, : len(value)], prime), prime) for value, pad, prime in own])

    def unpacked(self, number: int, part: bytes, into: Words | None = None) -> Residues:
        """Return the residues of a part of a submission, shape (1, size); `DeserialisationError` where it is none."""
        return unpack(part, self.sizes[number], self.primes[number])[None]

    def unpacked_rows(self, number: int, parts: Octets) -> tuple[Residues, NDArray[np.bool_]]:
        """Return those of several submissions, shape (parties, size), of their bytes; and which of them are some."""
        return unpack_rows(parts, self.sizes[number], self.primes[number])

    def running_sum(self) -> RunningSum:
        """Return an empty sum of submissions; it checks what it adds."""
        return RunningSum(self._shapes, self.unpacked)

    def sum_of_pads(self, seeds: Iterable[tuple[int, bytes]]) -> list[Words]:
        """Return the sum of these pads, by index, part by part, each of the shape (1, size)."""
        # One after the other: a pad is as large as a submission.
        pads = (self.pads([index], [seed]) for index, seed in seeds)
        return self.added([own[:, :size] for own, size in zip(each, self.sizes, strict=True)] for each in pads)

    def added(self, sums: Iterable[Sequence[Words]]) -> list[Words]:
        """Return the sum of such sums, of pads or of submissions; of none it is zero."""
        totals = [PolynomialSum(shape) for shape in self._shapes]
        for words in sums:
            for total, own in zip(totals, words, strict=True):
                total.add(own)
        return [total.words for total in totals]

    @abstractmethod
    def pad_key(self, secret: Secret, pads: Sequence[Words]) -> bytes:
        """Return the pad key for a sum of pads, under the secret key.

        A session has one only: two of them tell what the pads between them hide.
        """

    @abstractmethod
    def aggregate(self, keys: Keys, totals: Sequence[Words]) -> bytes:
        """Return the result, from the sum of all submissions, part by part."""

    @abstractmethod
    def decrypt(self, secret: Secret, result: bytes) -> list[Residues]:
        """Return what a result holds; raise `DeserialisationError` where it is none of this session."""


def check_rows(rows: int, max_rows: int, *, party: str | None = None, what: str = "rows") -> None:
    """Raise `InputError` where all parties together, or one alone, have more rows than a session may have."""
    if rows > max_rows:
        raise InputError(too_many_rows(rows, max_rows, party=party, what=what), party=party)


def too_many_rows(rows: int, max_rows: int, *, party: str | None = None, what: str = "rows") -> str:
    """Say how many rows are too many, of all parties together or of one alone, and which option takes them."""
    who = f"the parties have {rows:,} {what} in all" if party is None else f"party {party!r} alone has {rows:,} {what}"
    excess, option = f"{rows - max_rows:,} more than max_rows = {max_rows:,}", f"--max-rows {rows} (max_rows={rows})"
    return f"{who}, {excess}; give {option} or more"
