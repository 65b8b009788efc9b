"""One-time pads of vectors, and the pad key, which takes the sum of pads off.

With a pad, uniform and used once, a vector is as secret as with any encryption, in as many bytes as it has in the
clear. Two vectors under the same pad tell their difference.

**Pad key**: the pads' sum, encrypted in products, with which the aggregator evaluates sums under the pads.

    key holder    `make_pad_key`      for each prime, the monomials of the pads' sum
    aggregator    `PadKey.result`     for each prime, Σ coefficient · monomial, masked and flooded
    party         `Layout.totals`     the sums for each prime, from the slots that it decrypts; integers by
                  `modular.centred`

A result shows those who decrypt it the sums, and nothing else: its slots are uniform but for the sums' totals, and
flooding hides the noise, a function of the coefficients (`fhe_auc.bfv.context`).
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.base.keystream import KeyStream, derived_key
from fhe_auc.base.serialise import encode, frame, unframe
from fhe_auc.bfv import Ciphertext, PublicContext, SecretContext
from fhe_auc.rlwe import modular
from fhe_auc.rlwe.modular import Residues
from fhe_auc.sums.expansion import coefficients, monomials
from fhe_auc.sums.layout import Layout
from fhe_auc.sums.terms import Release

_LABEL = b"fhe-auc pad 1\0"
_MAGIC = b"fhepads"
_SEED_BYTES = 32


def pads(
    seeds: Sequence[bytes], session: bytes, parties: Sequence[int], prime: int, modulus: int, size: int
) -> Residues:
    """Return the pads of parties for one prime, shape (parties, size), uniform in [0, modulus).

    Each of the `seeds`, 32 bytes (`InputError` for another length), is known to its party and to who makes the pad key;
    `session`, the session's random id, before that is made. `parties` and `prime` are indices, `modulus` is the prime.
    """
    own = zip(seeds, parties, strict=True)
    keys = [derived_key(seed, session, _LABEL, party, prime) for seed, party in own]
    return modular.uniform_rows(keys, modulus, size)


class _Stored(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    releases: bytes  # SHA-256
    ciphertexts: tuple[tuple[bytes, ...], ...]  # of each prime


def make_pad_key(secret: SecretContext, releases: Sequence[Release], pads: Sequence[Residues]) -> bytes:
    """Return the pad key for the sum of all pads; for each prime a release, and the sum, shape (sketch.size,).

    It is for the aggregator alone, as parties have the secret key; and for one sum of pads, as two would tell their
    difference. Raises ValueError for anything but residues modulo each prime; `CapacityError` as `Layout.of`.
    """
    ciphertexts = []
    of_primes = zip(releases, pads, secret.parameters.plain_moduli, strict=True)
    for prime, (release, pad, modulus) in enumerate(of_primes):
        at, layout = release.evaluate(pad, modulus), Layout.of(release, secret.parameters.slots)
        placed = layout.monomials([monomials(total, at, modulus) for total in release.sums])
        ciphertexts.append(tuple([secret.encrypt(slots, prime) for slots in placed]))
    return frame(_MAGIC, _Stored(_digest(releases), tuple(ciphertexts)))


@dataclass(frozen=True, repr=False, eq=False)
class PadKey:
    """A pad key that the aggregator has read: release, layout and ciphertexts for each prime."""

    public: PublicContext
    releases: Sequence[Release]
    layouts: Sequence[Layout]
    ciphertexts: Sequence[Sequence[Ciphertext]]

    @classmethod
    def load(cls, public: PublicContext, releases: Sequence[Release], data: bytes) -> PadKey:
        """Read what `make_pad_key` wrote; `DeserialisationError` for other bytes, `CapacityError` as `Layout.of`."""
        stored = unframe(_MAGIC, data, _Stored, "pad key")
        if stored.releases != _digest(releases):
            raise DeserialisationError("the pad key is for other sums", field="release")
        layouts = [Layout.of(release, public.parameters.slots) for release in releases]
        counts, found = ([own.ciphertexts for own in layouts], list(map(len, stored.ciphertexts)))
        if found != counts:
            raise DeserialisationError(f"a pad key for these sums has {sum(counts)} ciphertexts, got {sum(found)}")
        ciphertexts = [
            [public.read_submission(data, prime) for data in own] for prime, own in enumerate(stored.ciphertexts)
        ]
        return cls(public, releases, layouts, ciphertexts)

    def result(self, pooled: Sequence[Residues], kept: int) -> tuple[bytes, ...]:
        """Return the results for each prime, one for each layer, for `SecretContext.decrypt`.

        `pooled` is the sum of all padded sketches for each prime, shape (sketch.size,); ValueError for anything else.
        `kept` is as of `PublicContext.dump_result`.
        """
        results = list[bytes]()
        for prime, (values, release, layout) in enumerate(zip(pooled, self.releases, self.layouts, strict=True)):
            modulus = self.public.parameters.plain_moduli[prime]
            at = release.evaluate(values, modulus)
            clear, hidden = zip(*[coefficients(total, at, modulus) for total in release.sums], strict=True)
            for layer in range(layout.layers):
                stream = KeyStream(secrets.token_bytes(_SEED_BYTES))
                mask = layout.mask(stream, np.concatenate(clear), modulus, layer)  # each sum is the total of both
                factors = list(layout.coefficients(hidden, layer))
                encrypted = self.public.sum_of_products(prime, self.ciphertexts[prime], factors)
                results.append(self.public.dump_result(self.public.flood(encrypted, mask), kept))
        return tuple(results)


def _digest(releases: Sequence[Release]) -> bytes:
    return hashlib.sha256(encode(tuple(releases))).digest()
