"""The input proofs of one session, as its roles have them: what a party adds to its submission, and what servers do.

    party         `InputProofs.made`        of its digits, as padded, and of the pad's seed: a proof, as bytes
    aggregator    `InputProofs.received`    which proofs are about the submissions that they came with
                  `answers`                 of its shares, under a key that is there once all submissions are fixed
    helper        `held`                    of its own shares and these answers: whose proofs hold

Proofs are padded as digits are, by what follows in the same pad. All have one length:

    aggregator's part 32 | helper's part 32 | blind 32 | padded proof

The helper tells the aggregator whose proofs hold, not who lied: either server can make an honest one fail.

**Joint randomness.** What a party's proofs hang on follows from all that the party has shared, before there is a proof.

    part of the aggregator   HMAC(blind; session, party, SHA-256 of the padded digits)
    part of the helper       HMAC(seed of the pad; session, party)
    seed                     SHA-256(session, party, both parts)
    weights                  ChaCha20 under the seed

A party could choose its digits by the weights otherwise. Both parts go into one hash, from which the weights of all
proofs come: who wants one of them to pass by luck has t tries to make, and has then to pass the others as well. (With a
seed for each, a liar would look for one after the other.) The helper alone weighs, and compares the seed that the
aggregator has found with its own: a party that told them two parts could choose the weights by one.

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
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple, NewType

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import DeserialisationError, EvaluationError
from fhe_auc.base.keystream import KeyStream, derived_key
from fhe_auc.base.serialise import encode
from fhe_auc.input_proofs.proofs import Query, prove
from fhe_auc.input_proofs.statement import Statement
from fhe_auc.rlwe.modular import Residues, add, subtract, uniform, uniform_rows
from fhe_auc.rlwe.packing import Octets, byte_rows, octet_rows, pack, pack_rows, packed_size, unpack_rows

PART_BYTES = BLIND_BYTES = SEED_BYTES = 32
RANDOMNESS_BYTES = 2 * PART_BYTES  # at the front of a proof: both parts
KEY_BYTES = 32  # of a query
NOT_PROVED = (
    "its proof did not hold that its rows are counts within its cap: it sent other numbers, or a server made the proof "
    "fail"
)
_HEAD_BYTES = RANDOMNESS_BYTES + BLIND_BYTES
_BLOCK = 2**16  # residues of digits and proofs that are worked on at a time
_AGGREGATOR, _HELPER = b"fhe-auc input proofs: aggregator's part 1\0", b"fhe-auc input proofs: helper's part 1\0"
_WEIGHTS = b"fhe-auc input proofs: weights 2\0"
_QUERY = b"fhe-auc input proofs: query's key 1\0"

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


def weights(statement: Statement, seeds: Sequence[bytes]) -> Residues:
    """Return the weights, shape (parties, chunk, proofs), from the joint seed of each party."""
    shape = statement.shape
    return uniform_rows(seeds, statement.prime, shape.seeds).reshape(len(seeds), shape.chunk, shape.proofs)


def proof_bytes(statement: Statement) -> int:
    """Return the bytes of a proof."""
    return _HEAD_BYTES + packed_size(statement.shape.size, statement.prime)


def padded_proof(statement: Statement, digits: Residues, weights: Residues, pad: Residues) -> bytes:
    """Return a fresh proof of digits under its pad, shape (`Shape.size`,), as bytes; other shapes as of `prove`."""
    seeds = uniform(KeyStream(secrets.token_bytes(32)), statement.prime, *weights.shape)
    return pack(add(prove(statement, digits, weights, seeds), pad, statement.prime), statement.prime)


class Received(NamedTuple):
    """What the aggregator has of several parties' proofs."""

    whole: NDArray[np.bool_]  # shape (parties,): those that are proofs, about the numbers that came with them
    joint_seeds: Octets  # shape (parties, 32)
    padded: Residues  # proofs, shape (parties, size)


class InputProofs:
    """The proofs of a session with this statement; `digest` is its manifest's, 32 bytes.

    `constants_of` returns the constants of parties' equations, shape (parties, equations), by their indices. Servers
    look at several parties at once, which are the first axis of all that they are given: at a few hundred, as each
    takes some 20 kB with 500 digits.
    """

    def __init__(
        self, statement: Statement, digest: bytes, *, constants_of: Callable[[Sequence[int]], Residues]
    ) -> None:
        self.digits, self.size = statement.digits, statement.shape.size  # residues, of the digits and of a proof
        self._statement, self._digest, self._constants_of = statement, digest, constants_of
        self._asked: tuple[bytes, Query | None] = b"", None

    @cached_property
    def proof_bytes(self) -> int:
        """Bytes of a proof."""
        return proof_bytes(self._statement)

    @cached_property
    def answer_bytes(self) -> int:
        """Bytes of the aggregator's answers about one party: the joint seed that it used, and residues."""
        return SEED_BYTES + packed_size(self._statement.shape.verifier_size, self._statement.prime)

    def made(self, party: int, digits: Residues, padded: bytes, seed: bytes, pad: Residues) -> bytes:
        """Return a party's proof of its digits, shape (digits,).

        `padded` are the bytes that have the padded digits, as they are submitted; `seed`, 32 bytes, is the pad's, and
        `pad` what of it is for the proof, shape (size,). They are for one proof: two under one pad show how they
        differ.
        """
        statement, blind = self._statement, secrets.token_bytes(BLIND_BYTES)
        parts = aggregators_part(blind, self._digest, party, padded), helpers_part(seed, self._digest, party)
        (of_digits,) = weights(statement, [joint_seed(self._digest, party, parts)])
        return b"".join((*parts, blind, padded_proof(statement, digits, of_digits, pad)))

    def received(self, parties: Sequence[int], padded: Octets, proofs: Octets) -> Received:
        """Return what the aggregator needs of proofs, shape (parties, proof_bytes), and which ones are whole.

        `padded`, shape (parties, bytes), are the bytes that the digits came in. Raises ValueError for other shapes.
        """
        shares, fit = unpack_rows(proofs[:, _HEAD_BYTES:], self.size, self._statement.prime)
        seeds, bound = list[bytes](), list[bool]()
        for party, own, head in zip(parties, byte_rows(padded), byte_rows(proofs[:, :_HEAD_BYTES]), strict=True):
            parts = _parts_of(head)
            expected = aggregators_part(head[RANDOMNESS_BYTES:], self._digest, party, own)
            bound.append(hmac.compare_digest(parts[0], expected))
            seeds.append(joint_seed(self._digest, party, parts))
        return Received(fit & np.array(bound, np.bool_), octet_rows(seeds, SEED_BYTES), shares)

    def answers(self, key: QueryKey, parties: Sequence[int], digits: Residues, received: Received) -> Octets:
        """Return the aggregator's answers for the helper, shape (parties, answer_bytes).

        `digits` are the padded ones, shape (parties, digits); of parties whose proofs are not whole, answers say
        nothing. `key` is the aggregator's, and then the helper's, too. Of one submission it is the only one: answers
        under two keys tell the helper what sums of digits are.
        """
        query, constants, t = self._query(key), self._constants_of(parties), self._statement.prime
        found = np.empty((len(digits), self.answer_bytes), np.uint8)
        found[:, :SEED_BYTES] = received.joint_seeds
        for block in self._blocks(len(digits)):
            answers = query.answers(digits[block], received.padded[block], constants[block])
            found[block, SEED_BYTES:] = pack_rows(answers, t)
        return found

    def held(
        self,
        key: bytes,
        parties: Sequence[int],
        seeds: Sequence[bytes],
        pads: Residues,
        randomness: Octets,
        answers: Octets,
    ) -> NDArray[np.bool_]:
        """Return of which parties the proofs hold, shape (parties,).

        `key` is the one under which the aggregator made its `answers`, (parties, answer_bytes). `pads` are those of the
        seeds, shape (parties, residues): of the digits first, and of the proof last. `randomness`, (parties, 64), is
        what parties have signed, the front of their proofs. Raises `DeserialisationError` for a key of another length.
        """
        if len(key) != KEY_BYTES:
            raise DeserialisationError("the key of the query has another length")
        statement, query, joint_seeds, bound = self._statement, self._query(key), list[bytes](), list[bool]()
        theirs = byte_rows(answers[:, :SEED_BYTES])
        for party, seed, head, joint in zip(parties, seeds, byte_rows(randomness), theirs, strict=True):
            parts = _parts_of(head)
            joint_seeds.append(joint_seed(self._digest, party, parts))
            as_signed = hmac.compare_digest(parts[1], helpers_part(seed, self._digest, party))
            bound.append(as_signed and hmac.compare_digest(joint_seeds[-1], joint))
        found = np.array(bound, np.bool_)
        for block in self._blocks(len(pads)):
            own = query.answers(pads[block, : self.digits], pads[block, -self.size :])
            others, fit = unpack_rows(answers[block, SEED_BYTES:], own.shape[1], statement.prime)
            both = subtract(others, own, statement.prime)  # of what is padded, less that of the pad
            found[block] &= fit & query.decide(both, weights(statement, joint_seeds[block]))
        return found

    def _blocks(self, parties: int) -> Iterator[slice]:
        """Yield so many at a time that what is made of them fits a processor's cache."""
        size = max(1, _BLOCK // (self.digits + self.size))
        return (slice(start, start + size) for start in range(0, parties, size))

    def _query(self, key: bytes) -> Query:
        known, query = self._asked
        if query is None or known != key:
            query = Query.drawn(self._statement, key, self._digest)
            self._asked = key, query
        return query


def _parts_of(head: bytes) -> tuple[bytes, bytes]:
    return head[:PART_BYTES], head[PART_BYTES:RANDOMNESS_BYTES]
