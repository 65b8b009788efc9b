"""What one branch of an aggregator hands on: a sum of submissions, and whose they are.

    each branch   submissions of its parties  ->  partial sum
    aggregator    partial sums                ->  their sum; it evaluates the circuit once

Sums of ciphertexts are sums modulo primes: any tree over any number of processes or machines gives the very bits that
one process gives. Every party's submission is in at most one partial sum, and each says which are in it.

Between machines a branch signs its sum with the aggregator's key, and the aggregator checks that before it parses it:
whoever can write on the link could otherwise add a plaintext, and move the AUC.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

import msgspec
import numpy as np

from fhe_auc.errors import DeserialisationError, MessageError
from fhe_auc.manifest import Manifest
from fhe_auc.party_names import AGGREGATOR
from fhe_auc.serialise import decode, encode, frame, unframe
from fhe_auc.signatures import Signatures

_MAGIC = b"fhepart"
_PURPOSE = b"partial sum 1"
_WHAT = "partial sum"

MAX_REASON = 500
"""Characters kept of why a submission was refused."""


class _Envelope(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    body: bytes  # a `PartialSum`
    signature: bytes  # the aggregator's, of the body's SHA-256; empty where messages are not signed


class PartialSum(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A sum of some parties' submissions of one session."""

    manifest: bytes  # digest of the session's
    counted: bytes  # a bit for each of the manifest's parties, in its order, the lowest of each byte first
    sums: tuple[bytes, ...]  # packed polynomials, one entry a ciphertext of a submission
    refused: tuple[tuple[str, str], ...]  # parties of which a submission was refused, and the latest reason
    digests: tuple[bytes, ...]  # of the submissions counted, in the same order; empty where they are not signed

    @classmethod
    def of(
        cls,
        manifest: Manifest,
        parties: Iterable[str],
        sums: tuple[bytes, ...],
        refused: tuple[tuple[str, str], ...],
        digests: Mapping[str, bytes],
    ) -> PartialSum:
        """Return the partial sum of these parties of the manifest; `digests` are those of signed submissions."""
        chosen = frozenset(parties)
        bits = np.array([party in chosen for party in manifest.parties])
        shortened = tuple((party, reason[:MAX_REASON]) for party, reason in refused)
        listed = tuple(digests[party] for party in manifest.parties if party in digests)
        return cls(manifest.digest, np.packbits(bits, bitorder="little").tobytes(), sums, shortened, listed)

    def parties(self, manifest: Manifest) -> tuple[str, ...]:
        """Return the names of the parties counted.

        Raise `DeserialisationError` where it is about another number of parties than the manifest's.
        """
        names = manifest.parties
        bits = np.unpackbits(np.frombuffer(self.counted, np.uint8), bitorder="little")
        if len(self.counted) != (len(names) + 7) // 8 or bits[len(names) :].any():
            raise DeserialisationError("the parties counted are not those of the session", field="counted")
        return tuple(names[index] for index in np.flatnonzero(bits))

    def to_bytes(self, signatures: Signatures | None) -> bytes:
        """Serialise, and sign; None: messages of the session are not signed."""
        body = encode(self)
        signature = b"" if signatures is None else signatures.sign(_PURPOSE, hashlib.sha256(body).digest())
        return frame(_MAGIC, _Envelope(body, signature))

    @classmethod
    def from_bytes(cls, data: bytes, *, limit: int, signatures: Signatures | None) -> PartialSum:
        """Parse at most `limit` bytes, whose signature is checked first; None as of `to_bytes`.

        Raise `MessageError` for more bytes, or where the aggregator has not signed them for this session;
        `DeserialisationError` where they are no partial sum.
        """
        if isinstance(data, bytes) and len(data) > limit:  # type: ignore[redundant-expr] # from a transport
            raise MessageError(f"partial sum of {len(data):,} bytes, at most {limit:,} expected", field="length")
        found = unframe(_MAGIC, data, _Envelope, _WHAT)
        if signatures is not None:
            signatures.check(AGGREGATOR, _PURPOSE, hashlib.sha256(found.body).digest(), found.signature)
        return decode(found.body, cls, _WHAT)
