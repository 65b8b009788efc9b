"""What all parties of an exact session derive from their common secret, each value for one purpose."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from functools import cached_property

from fhe_auc.keystream import COMMON_SECRET_BYTES, KeyStream, derived_key
from fhe_auc.serialise import encode
from fhe_auc_protocols.exact_auc.authenticator import Pads, Secrets
from fhe_auc_protocols.exact_auc.packing import ExactPacking

_LABEL = b"fhe-auc verified 1\0"


@dataclass(frozen=True, repr=False, eq=False)
class CommonSecrets:
    """The secrets of one session.

    Raises `ValueError`: the secret has another length: a task that was not given it has none.
    """

    secret: bytes
    """32 bytes that the session's parties have in common, and the aggregator does not know."""
    transcript: bytes
    """The manifest's digest, which binds session id, ordered parties, thresholds, parameters and public key: another
    session has other secrets."""
    packing: ExactPacking
    primes: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.secret) != COMMON_SECRET_BYTES:
            raise ValueError(f"a common secret has {COMMON_SECRET_BYTES} bytes")

    @cached_property
    def of_primes(self) -> tuple[Secrets, ...]:
        """Point, keys and totals for each prime."""
        return tuple(
            Secrets.draw(self._stream("secrets", which), self.packing, prime) for which, prime in enumerate(self.primes)
        )

    def pads(self, which: int, party: int) -> Pads:
        """Return the pads of the party with this index for the prime with this index."""
        return Pads.draw(self._stream("pads", which, party), self.packing, self.primes[which])

    def echoes(self, parties: int, result: bytes) -> list[bytes]:
        """Return what so many parties tell each other about the result they were given: 32 bytes each, by index."""
        key, digest = self._key("echo"), hashlib.sha256(result).digest()
        return [hmac.digest(key, encode((party, digest)), "sha256") for party in range(parties)]

    def _stream(self, *purpose: str | int) -> KeyStream:
        return KeyStream(self._key(*purpose))

    def _key(self, *purpose: str | int) -> bytes:
        return derived_key(self.secret, self.transcript, _LABEL, *purpose)
