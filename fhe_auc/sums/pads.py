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
from fhe_auc.sums.terms import Layout, Release, coefficients, monomials, running_sums

_LABEL = b"fhe-auc pad 1\0"
_MAGIC = b"fhepads"
_SEED_BYTES = 32


def pad(seed: bytes, session: bytes, party: int, prime: int, modulus: int, size: int) -> Residues:
    """Return the pad of one party for one prime, shape (size,), uniform in [0, modulus).

    The `seed`, 32 bytes (`InputError` for another length), is known to the party and to who makes the pad key;
    `session`, the session's random id, before that is made. `party` and `prime` are indices, `modulus` is the prime.
    """
    return modular.uniform(KeyStream(derived_key(seed, session, _LABEL, party, prime)), modulus, size)


class _Stored(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    release: bytes  # SHA-256
    ciphertexts: tuple[bytes, ...]  # of the first prime, in order, then of the next


def make_pad_key(secret: SecretContext, release: Release, pads: Sequence[Residues]) -> bytes:
    """Return the pad key for the sum of all pads, one vector of shape (sketch.size,) for each prime.

    It is for the aggregator alone, as parties have the secret key; and for one sum of pads, as two would tell their
    difference. Raises ValueError for anything but residues modulo each prime; `CapacityError` as `Layout.of`.
    """
    layout = Layout.of(release, secret.parameters.slots)
    ciphertexts: list[bytes] = []
    for prime, (pad, modulus) in enumerate(zip(pads, secret.parameters.plain_moduli, strict=True)):
        at = release.evaluate(pad, modulus)
        vectors = [
            [monomial for term in total.terms for monomial in monomials(term, at, modulus)] for total in release.sums
        ]
        ciphertexts += [secret.encrypt(slots, prime) for slots in layout.place(vectors)]
    return frame(_MAGIC, _Stored(_digest(release), tuple(ciphertexts)))


@dataclass(frozen=True, repr=False, eq=False)
class PadKey:
    """A pad key that the aggregator has read; ciphertexts for each prime."""

    public: PublicContext
    release: Release
    layout: Layout
    ciphertexts: Sequence[Sequence[Ciphertext]]

    @classmethod
    def load(cls, public: PublicContext, release: Release, data: bytes) -> PadKey:
        """Read what `make_pad_key` wrote; `DeserialisationError` for other bytes, `CapacityError` as `Layout.of`."""
        stored = unframe(_MAGIC, data, _Stored, "pad key")
        if stored.release != _digest(release):
            raise DeserialisationError("the pad key is for other sums", field="release")
        layout = Layout.of(release, public.parameters.slots)
        count = len(public.parameters.plain_moduli) * layout.ciphertexts
        if len(stored.ciphertexts) != count:
            raise DeserialisationError(
                f"a pad key for these sums has {count} ciphertexts, got {len(stored.ciphertexts)}"
            )
        ciphertexts: list[list[Ciphertext]] = [[] for _ in public.parameters.plain_moduli]
        for number, data in enumerate(stored.ciphertexts):
            prime = number // layout.ciphertexts
            ciphertexts[prime].append(public.ciphertext(public.read_submission(data, prime), prime))
        return cls(public, release, layout, ciphertexts)

    def result(self, pooled: Sequence[Residues], kept: int) -> tuple[bytes, ...]:
        """Return a result for each prime, for `SecretContext.decrypt`.

        `pooled` is the sum of all padded sketches for each prime, shape (sketch.size,); ValueError for anything else.
        `kept` is as of `PublicContext.dump_result`.
        """
        flooded = [self.public.flood(*self.evaluated(values, prime)) for prime, values in enumerate(pooled)]
        return tuple([self.public.dump_result(ciphertext, kept) for ciphertext in flooded])

    def evaluated(self, values: Residues, prime: int) -> tuple[Ciphertext, Residues]:
        """Return what is encrypted of the sums, and a mask with the rest: each is the total over its slots of both."""
        modulus = self.public.parameters.plain_moduli[prime]
        at, clear, hidden = self.release.evaluate(values, modulus), [], []
        for total in self.release.sums:
            expanded = [coefficients(term, at, modulus) for term in total.terms]
            clear.append(running_sums(np.concatenate([first for first, _ in expanded]), modulus)[-1])
            hidden.append([vector for _, vectors in expanded for vector in vectors])
        mask = self.layout.mask(KeyStream(secrets.token_bytes(_SEED_BYTES)), np.array(clear), modulus)
        return self.public.sum_of_products(prime, self.ciphertexts[prime], list(self.layout.place(hidden))), mask


def _digest(release: Release) -> bytes:
    return hashlib.sha256(encode(release)).digest()
