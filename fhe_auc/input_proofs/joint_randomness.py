"""The joint randomness of a party's proofs: it follows from all that the party has shared, before there is a proof.

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
"""

from __future__ import annotations

import hashlib
import hmac

from fhe_auc.base.keystream import KeyStream, derived_key
from fhe_auc.base.serialise import encode
from fhe_auc.input_proofs.statement import PROOFS, Statement
from fhe_auc.rlwe.modular import Residues, uniform

PART_BYTES = BLIND_BYTES = SEED_BYTES = 32

_AGGREGATOR, _HELPER = b"fhe-auc input proofs: aggregator's part 1\0", b"fhe-auc input proofs: helper's part 1\0"
_WEIGHTS, _SHARE = b"fhe-auc input proofs: weights 1\0", b"fhe-auc input proofs: helper's share 1\0"


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
