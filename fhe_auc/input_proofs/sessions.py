"""The input proofs of one session, as its roles have them: what a party adds to its submission, and what servers do.

    party         `InputProofs.made`        of its digits, as padded, and of the pad's seed: an `InputProof`
    aggregator    `InputProofs.check`       whether a proof is about the submission that it came with
                  `answers`                 of its shares, under a key that is there once all submissions are fixed
    helper        `held`                    of its own shares and these answers: whose proofs hold

The helper learns of each party whether its proofs hold, and the aggregator of the helper. "The proof did not hold" does
not say who lied: either server can make an honest proof fail.

**Joint randomness.** What a party's proofs hang on follows from all that the party has shared, before there is a proof.

    part of the aggregator   HMAC(blind; session, party, SHA-256 of the padded digits)
    part of the helper       HMAC(seed of the pad; session, party)
    seed                     SHA-256(session, party, both parts)
    weights                  ChaCha20 under the seed

A party could choose its digits by the weights otherwise. Both parts go into one hash, from which the weights of all
proofs come: who wants one of them to pass by luck has t tries to make, and has then to pass the other proofs as well.
(With a seed for each proof, a liar would look for one after the other.)

Each server works out its own part, and the helper compares the seed that the aggregator has used with its own. A party
that told each of them another part could look for weights at either server apart: of n tries at each, n² pairs, so that
all four proofs would pass after 2^84 of 42 bits, and two of them after 2^42.

The helper knows the pad, and would try counts until a part fits: so the aggregator's part is blinded by 32 bytes that
the party gives to it alone. The helper's hangs on the pad's seed, which nobody guesses.

**When servers may look at proofs**: once all submissions are fixed. Nobody can know the query before.

    query's key = HKDF(secret; the manifest's digest, the digest of ALL submissions)

Who knew the query could make a false proof that passes it. So whatever carries a session, `Submissions` is the only
way to a `QueryKey`, and has none while a submission is missing. The secret is the aggregator's; between machines it is
kept with the digest before an answer is worked out, so that no proof is asked at two points: that would tell counts.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import NamedTuple, NewType, TypeVar

import msgspec
import numpy as np

from fhe_auc.base.errors import DeserialisationError, EvaluationError
from fhe_auc.base.keystream import KeyStream, derived_key
from fhe_auc.base.serialise import encode
from fhe_auc.input_proofs.proofs import Query, decide, prove
from fhe_auc.input_proofs.statement import PROOFS, Statement
from fhe_auc.rlwe.modular import Residues, add, subtract, uniform
from fhe_auc.rlwe.packing import pack, packed_size, unpack

PART_BYTES = BLIND_BYTES = SEED_BYTES = 32
KEY_BYTES = 32  # of a query
NOT_PROVED = (
    "its proof did not hold that its rows are counts within its cap: it sent other numbers, or a server made the proof "
    "fail"
)
_BATCH = 2**19  # residues of joint randomness that are in memory at a time
_AGGREGATOR, _HELPER = b"fhe-auc input proofs: aggregator's part 1\0", b"fhe-auc input proofs: helper's part 1\0"
_WEIGHTS, _SHARE = b"fhe-auc input proofs: weights 1\0", b"fhe-auc input proofs: helper's share 1\0"
_QUERY = b"fhe-auc input proofs: query's key 1\0"

T = TypeVar("T")
QueryKey = NewType("QueryKey", bytes)
"""32 bytes, of `Submissions.query_key`; the helper's copy comes from the aggregator."""


class Submissions:
    """All submissions that are asked about, `number` of them or of groups of them, by their digests, in order."""

    def __init__(self, number: int) -> None:
        self._missing, self._digest = number, hashlib.sha256(encode(number))

    def add(self, digest: bytes) -> None:
        """Fix the next one; raise `EvaluationError` where all are fixed."""
        if not self._missing:
            raise EvaluationError("all submissions are fixed: there is no further one")
        self._missing -= 1
        self._digest.update(encode(digest))

    @property
    def digest(self) -> bytes:
        """That of all, 32 bytes; `EvaluationError` while one is missing."""
        if self._missing:
            raise EvaluationError(f"{self._missing} submissions are not fixed: nothing can be asked before all are")
        return self._digest.digest()

    def query_key(self, secret: bytes, manifest: bytes) -> QueryKey:
        """Return the key of the query, by 32 secret bytes and the manifest's digest; errors as `digest`."""
        return QueryKey(derived_key(secret, manifest, _QUERY, self.digest.hex()))


def aggregators_part(blind: bytes, digest: bytes, party: int, padded: bytes) -> bytes:
    """Return the part that binds the padded digits, 32 bytes.

    `blind` is 32 bytes, `digest` the manifest's, and `party` the index of a party in it, or of a fleet's member.
    """
    return hmac.digest(blind, encode((_AGGREGATOR, digest, party, hashlib.sha256(padded).digest())), "sha256")


def helpers_part(seed: bytes, digest: bytes, party: int) -> bytes:
    """Return the part that binds the seed of the pad, 32 bytes, and so the helper's shares of digits and proofs."""
    return hmac.digest(seed, encode((_HELPER, digest, party)), "sha256")


def joint_seed(digest: bytes, party: int, parts: tuple[bytes, bytes]) -> bytes:
    """Return what the weights hang on, 32 bytes, from the aggregator's part and the helper's."""
    return hashlib.sha256(encode((_WEIGHTS, digest, party, *parts))).digest()


def weights(statement: Statement, seed: bytes) -> Residues:
    """Return the weights of digits, shape (proofs, digits), from the joint seed."""
    return uniform(KeyStream(seed), statement.prime, PROOFS, statement.digits)


def helpers_share(statement: Statement, seed: bytes, digest: bytes, party: int) -> Residues:
    """Return the helper's share of the proofs, shape (proofs, `Shape.size`), from the seed of the pad."""
    stream = KeyStream(derived_key(seed, digest, _SHARE, party))
    return uniform(stream, statement.prime, PROOFS, statement.shape.size)


class InputProof(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a party sends the aggregator beside its padded digits; both parts it signs, for the helper, too."""

    parts: tuple[bytes, bytes]  # of the joint randomness: the aggregator's, the helper's
    blind: bytes  # of the aggregator's part; the helper must not have it
    share: bytes  # the aggregator's, of the proofs

    def __repr__(self) -> str:
        return "<an input proof (secret)>"


class Submitted(NamedTuple):
    """What the aggregator has of a party, by the party's index in the manifest, or in a fleet."""

    party: int
    padded: bytes  # its digits, as it has sent them
    proof: InputProof


class PartyAtHelper(NamedTuple):
    """What the helper has of a party: what opens its pad, what the party has signed, and the aggregator's answers."""

    party: int
    seed: bytes
    parts: tuple[bytes, ...]
    answers: bytes

    def __repr__(self) -> str:
        return f"<what opens the pad of party {self.party} (secret)>"


def proof_bytes(statement: Statement) -> int:
    """Return the bytes of an `InputProof`, encoded; all that pass `InputProofs.check` have as many."""
    part, share = bytes(PART_BYTES), bytes(packed_size(statement.proof_size, statement.prime))
    return len(encode(InputProof((part, part), bytes(BLIND_BYTES), share)))


def aggregators_share(statement: Statement, digits: Residues, of_digits: Residues, helpers: Residues) -> bytes:
    """Return fresh proofs of digits, by their weights, less the `helpers` share, as bytes; shapes as of `prove`."""
    seeds = uniform(KeyStream(secrets.token_bytes(32)), statement.prime, PROOFS, statement.shape.wires)
    share = subtract(prove(statement, digits, of_digits, seeds), helpers, statement.prime)
    return pack(share.reshape(-1), statement.prime)


class InputProofs:
    """The proofs of a session with this statement; `digest` is its manifest's, 32 bytes.

    `digits_in` returns the padded digits, shape (digits,), in the bytes of a submission, and `pad_of` the pad over them
    of a party's index and seed. `constants_of` returns a party's constants of the equations, shape (equations,).
    """

    def __init__(
        self,
        statement: Statement,
        digest: bytes,
        *,
        digits_in: Callable[[bytes], Residues],
        pad_of: Callable[[int, bytes], Residues],
        constants_of: Callable[[int], Residues],
    ) -> None:
        self._statement, self._digest = statement, digest
        self._digits_in, self._pad_of, self._constants_of = digits_in, pad_of, constants_of
        self._asked: tuple[bytes, Query | None] = b"", None

    @cached_property
    def proof_bytes(self) -> int:
        """Bytes of a proof, encoded."""
        return proof_bytes(self._statement)

    @property
    def answer_bytes(self) -> int:
        """Bytes of the aggregator's answers about one party: the joint seed that it used, and residues."""
        return SEED_BYTES + self._packed(self._statement.verifier_size)

    def made(self, party: int, digits: Residues, padded: bytes, seed: bytes) -> InputProof:
        """Return a party's proofs of its digits, shape (digits,).

        `padded` are the bytes that have the padded digits, as they are submitted; `seed`, 32 bytes, is the pad's, and
        for one proof: two under one seed show how they differ.
        """
        statement, blind = self._statement, secrets.token_bytes(BLIND_BYTES)
        parts = aggregators_part(blind, self._digest, party, padded), helpers_part(seed, self._digest, party)
        of_digits = weights(statement, joint_seed(self._digest, party, parts))
        share = aggregators_share(statement, digits, of_digits, helpers_share(statement, seed, self._digest, party))
        return InputProof(parts, blind, share)

    def check(self, party: int, padded: bytes, proof: InputProof) -> None:
        """Raise `DeserialisationError` unless a proof is one, and about these bytes: those that came with it."""
        lengths = len(proof.blind), len(proof.share), *map(len, proof.parts)
        if lengths != (BLIND_BYTES, self._packed(self._statement.proof_size), PART_BYTES, PART_BYTES):
            raise DeserialisationError("a part of its proof has another length")
        if not hmac.compare_digest(proof.parts[0], aggregators_part(proof.blind, self._digest, party, padded)):
            raise DeserialisationError("its proof is not about the numbers that it has submitted")
        self._share(proof)

    def answers(self, key: QueryKey, submitted: Iterable[Submitted]) -> list[bytes]:
        """Return the aggregator's answers about each party, for the helper; the proofs have passed `check`.

        `key` is the aggregator's, and then the helper's, too. Of one submission it is the only one: answers under two
        keys tell the helper what sums of digits are.
        """
        found: list[bytes] = []
        for each in self._batches(submitted):
            parties, padded, proofs = zip(*each, strict=True)
            digits = np.stack([self._digits_in(one) for one in padded])
            constants = np.stack([self._constants_of(party) for party in parties])
            shares = np.stack([self._share(proof) for proof in proofs])
            seeds = self._joint_seeds(parties, [proof.parts for proof in proofs])
            answers = self._query(key).answers(digits, shares, self._weights(seeds), constants)
            found += (seed + pack(own, self._statement.prime) for seed, own in zip(seeds, answers, strict=True))
        return found

    def held(self, key: bytes, parties: Iterable[PartyAtHelper]) -> list[bool]:
        """Return of each party whether its proofs hold; `key` is the one under which the answers were made.

        Raises `DeserialisationError` for answers that are none, and for a key or parts of another length.
        """
        other_length = DeserialisationError("the key of the query, or what a proof hangs on, has another length")
        if len(key) != KEY_BYTES:
            raise other_length
        statement, t, found = self._statement, self._statement.prime, list[bool]()
        for each in self._batches(parties):
            parties, seeds, parts, theirs = zip(*each, strict=True)
            if any([*map(len, both)] != [PART_BYTES, PART_BYTES] for both in parts):
                raise other_length
            own = [*zip(parties, seeds, strict=True)]
            pads = np.stack([self._pad_of(party, seed) for party, seed in own])
            shares = np.stack([helpers_share(statement, seed, self._digest, party) for party, seed in own])
            joint_seeds = self._joint_seeds(parties, parts)
            of_digits = subtract(np.zeros_like(pads), pads, t)  # digits are what is submitted less the pad
            answers = self._query(key).answers(of_digits, shares, self._weights(joint_seeds))
            others = np.stack([unpack(one[SEED_BYTES:], statement.verifier_size, t) for one in theirs])
            bound = [
                hmac.compare_digest(part, helpers_part(seed, self._digest, party))
                and hmac.compare_digest(joint, one[:SEED_BYTES])
                for (party, seed), (_, part), joint, one in zip(own, parts, joint_seeds, theirs, strict=True)
            ]
            found += (decide(statement, add(answers, others, t)) & np.array(bound)).tolist()
        return found

    def unproved(self, key: bytes, names: Iterable[T], parties: Iterable[PartyAtHelper]) -> tuple[T, ...]:
        """Return those, by name in the order of the parties, whose proofs do not hold; errors as `held`."""
        return tuple(name for name, holds in zip(names, self.held(key, parties), strict=True) if not holds)

    def _batches(self, items: Iterable[T]) -> Iterator[list[T]]:
        """Yield so many at a time that memory stays flat."""
        remaining, size = iter(items), max(1, _BATCH // (PROOFS * self._statement.digits))
        while batch := list(islice(remaining, size)):
            yield batch

    def _query(self, key: bytes) -> Query:
        known, query = self._asked
        if query is None or known != key:
            query = Query(self._statement, key, self._digest)
            self._asked = key, query
        return query

    def _joint_seeds(self, parties: Sequence[int], parts: Sequence[tuple[bytes, bytes]]) -> list[bytes]:
        return [joint_seed(self._digest, party, own) for party, own in zip(parties, parts, strict=True)]

    def _weights(self, joint_seeds: Sequence[bytes]) -> Residues:
        return np.stack([weights(self._statement, seed) for seed in joint_seeds])

    def _share(self, proof: InputProof) -> Residues:
        statement = self._statement
        return unpack(proof.share, statement.proof_size, statement.prime).reshape(PROOFS, -1)

    def _packed(self, count: int) -> int:
        return packed_size(count, self._statement.prime)
