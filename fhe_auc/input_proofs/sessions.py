"""The input proofs of one session, as its roles have them: what a party adds to its submission, and what servers do.

    party         `InputProofs.made`        of its digits, as padded, and of the pad's seed: an `InputProof`
    aggregator    `InputProofs.is_bound`    whether a proof is about the submission that it came with
                  `answers`                 of its shares, under a key that it draws once all submissions are in
    helper        `held`                    of its own shares and these answers: whose proofs hold

The helper learns of each party whether its proofs hold, and the aggregator of the helper. "The proof did not hold" does
not say who lied: either server can make an honest proof fail.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.base.keystream import KeyStream
from fhe_auc.input_proofs.joint_randomness import (
    BLIND_BYTES,
    PART_BYTES,
    SEED_BYTES,
    Author,
    aggregators_part,
    helpers_part,
    helpers_share,
    joint_seed,
    weights,
)
from fhe_auc.input_proofs.prove import prove
from fhe_auc.input_proofs.statement import PROOFS, Statement
from fhe_auc.input_proofs.verify import Query, decide
from fhe_auc.rlwe.modular import Residues, add, subtract, uniform
from fhe_auc.sums.residues import pack, packed_size, unpack

KEY_BYTES = 32  # of a query
NOT_PROVED = (
    "its proof did not hold that its rows are counts within its cap: it sent other numbers, or a server made the proof "
    "fail"
)


class InputProof(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What a party sends the aggregator beside its padded digits; both parts it signs, for the helper, too."""

    parts: tuple[bytes, bytes]  # of the joint randomness: the aggregator's, the helper's
    blind: bytes  # of the aggregator's part; the helper must not have it
    share: bytes  # the aggregator's, of the proofs


class Submitted(NamedTuple):
    """What the aggregator has of a party."""

    author: Author
    digits: Residues  # padded, shape (digits,)
    proof: InputProof
    constants: Residues  # of the equations, shape (equations,)


class Opened(NamedTuple):
    """What the helper has of a party: what opens its pad, what the party has signed, and the aggregator's answers."""

    author: Author
    seed: bytes
    pad: Residues  # of the digits, shape (digits,)
    parts: tuple[bytes, bytes]
    answers: bytes

    def __repr__(self) -> str:
        return f"<what opens the pad of {self.author!r} (secret)>"


class InputProofs:
    """The proofs of a session with this statement; `digest` is its manifest's, 32 bytes."""

    def __init__(self, statement: Statement, digest: bytes) -> None:
        self._statement, self._digest = statement, digest
        self._asked: tuple[bytes, Query | None] = b"", None

    @property
    def proof_bytes(self) -> int:
        """Bytes of an `InputProof`, but for some of its envelope."""
        return self._packed(self._statement.proof_size) + 2 * PART_BYTES + BLIND_BYTES

    @property
    def answer_bytes(self) -> int:
        """Bytes of the aggregator's answers about one party: the joint seed that it used, and residues."""
        return SEED_BYTES + self._packed(self._statement.verifier_size)

    def made(self, author: Author, digits: Residues, padded: bytes, seed: bytes) -> InputProof:
        """Return a party's proofs of its digits, shape (digits,).

        `padded` are the bytes that have the padded digits, as they are submitted; `seed`, 32 bytes, is the pad's.
        """
        statement, t = self._statement, self._statement.prime
        blind = secrets.token_bytes(BLIND_BYTES)
        parts = aggregators_part(blind, self._digest, author, padded), helpers_part(seed, self._digest, author)
        seeds = uniform(KeyStream(secrets.token_bytes(32)), t, PROOFS, statement.shape.wires)
        proofs = prove(statement, digits, weights(statement, joint_seed(self._digest, author, parts)), seeds)
        share = subtract(proofs, helpers_share(statement, seed, self._digest, author), t)
        return InputProof(parts, blind, pack(share.reshape(-1), t))

    def check(self, author: Author, padded: bytes, proof: InputProof) -> None:
        """Raise `DeserialisationError` unless a proof is one, and about these bytes: those that came with it."""
        lengths = len(proof.blind), len(proof.share), *map(len, proof.parts)
        if lengths != (BLIND_BYTES, self._packed(self._statement.proof_size), PART_BYTES, PART_BYTES):
            raise DeserialisationError("a part of its proof has another length")
        if not hmac.compare_digest(proof.parts[0], aggregators_part(proof.blind, self._digest, author, padded)):
            raise DeserialisationError("its proof is not about the numbers that it has submitted")
        self._share(proof)

    def answers(self, key: bytes, submitted: Sequence[Submitted]) -> list[bytes]:
        """Return the aggregator's answers about each party, for the helper; the proofs have passed `check`.

        `key`, 32 bytes, is drawn once all submissions are in, and is the helper's and the aggregator's alone.
        """
        authors, digits, proofs, constants = zip(*submitted, strict=True)
        seeds = self._joint_seeds(authors, [proof.parts for proof in proofs])
        found = self._query(key).answers(
            np.stack(digits),
            np.stack([self._share(proof) for proof in proofs]),
            self._weights(seeds),
            np.stack(constants),
        )
        return [seed + pack(each, self._statement.prime) for seed, each in zip(seeds, found, strict=True)]

    def held(self, key: bytes, opened: Sequence[Opened]) -> NDArray[np.bool_]:
        """Return of which parties the proofs hold, shape (parties,); `key` is the one under which answers were made.

        Raises `DeserialisationError` for answers that are none.
        """
        statement, t = self._statement, self._statement.prime
        authors, seeds, pads, parts, theirs = zip(*opened, strict=True)
        of_pads = subtract(np.zeros_like(pads[0]), np.stack(pads), t)  # the digits are what is submitted less the pad
        shares = [
            helpers_share(statement, seed, self._digest, author) for author, seed in zip(authors, seeds, strict=True)
        ]
        joint_seeds = self._joint_seeds(authors, parts)
        answers = self._query(key).answers(of_pads, np.stack(shares), self._weights(joint_seeds))
        others = np.stack([unpack(each[SEED_BYTES:], statement.verifier_size, t) for each in theirs])
        bound = [
            hmac.compare_digest(part, helpers_part(seed, self._digest, author))
            and hmac.compare_digest(joint, each[:SEED_BYTES])
            for author, seed, (_, part), joint, each in zip(authors, seeds, parts, joint_seeds, theirs, strict=True)
        ]
        return np.asarray(decide(statement, add(answers, others, t)) & np.array(bound))

    def _query(self, key: bytes) -> Query:
        known, query = self._asked
        if query is None or known != key:
            query = Query(self._statement, key, self._digest)
            self._asked = key, query
        return query

    def _joint_seeds(self, authors: Sequence[Author], parts: Sequence[tuple[bytes, bytes]]) -> list[bytes]:
        return [joint_seed(self._digest, author, own) for author, own in zip(authors, parts, strict=True)]

    def _weights(self, joint_seeds: Sequence[bytes]) -> Residues:
        return np.stack([weights(self._statement, seed) for seed in joint_seeds])

    def _share(self, proof: InputProof) -> Residues:
        statement = self._statement
        return unpack(proof.share, statement.proof_size, statement.prime).reshape(PROOFS, -1)

    def _packed(self, count: int) -> int:
        return packed_size(count, self._statement.prime)
