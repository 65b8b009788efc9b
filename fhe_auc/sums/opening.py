"""The opening: the pads' sum, encrypted in products, with which the aggregator evaluates sums under the pads.

    key holder    `make_opening`      for each prime, the monomials of the pads' sum
    aggregator    `Opening.result`    for each prime, Σ coefficient · monomial, masked and flooded
    party         `Layout.totals`     the sums for each prime, from the slots that it decrypts; integers by
                  `modular.centred`

A result shows those who decrypt it the sums, and nothing else: its slots are uniform but for the sums' totals, and
flooding hides the noise, a function of the coefficients (`fhe_auc.bfv.flooding`).
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.base.keystream import KeyStream
from fhe_auc.base.serialise import encode, frame, unframe
from fhe_auc.bfv import Ciphertext, PublicContext, SecretContext
from fhe_auc.rlwe.modular import Residues
from fhe_auc.sums.layout import Layout
from fhe_auc.sums.monomials import coefficients, monomials
from fhe_auc.sums.terms import Release, running_sums

_MAGIC = b"fheopen"
_SEED_BYTES = 32


class _Stored(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    release: bytes  # SHA-256
    ciphertexts: tuple[bytes, ...]  # of the first prime, in order, then of the next


def make_opening(secret: SecretContext, release: Release, pads: Sequence[Residues]) -> bytes:
    """Return the opening for the sum of all pads, one vector of shape (sketch.size,) for each prime.

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
class Opening:
    """An opening that the aggregator has read; ciphertexts for each prime."""

    public: PublicContext
    release: Release
    layout: Layout
    ciphertexts: Sequence[Sequence[Ciphertext]]

    @classmethod
    def load(cls, public: PublicContext, release: Release, data: bytes) -> Opening:
        """Read what `make_opening` wrote; `DeserialisationError` for other bytes, `CapacityError` as `Layout.of`."""
        stored = unframe(_MAGIC, data, _Stored, "opening")
        if stored.release != _digest(release):
            raise DeserialisationError("the opening is for other sums", field="release")
        layout = Layout.of(release, public.parameters.slots)
        count = len(public.parameters.plain_moduli) * layout.ciphertexts
        if len(stored.ciphertexts) != count:
            raise DeserialisationError(
                f"an opening for these sums has {count} ciphertexts, got {len(stored.ciphertexts)}"
            )
        ciphertexts: list[list[Ciphertext]] = [[] for _ in public.parameters.plain_moduli]
        for number, data in enumerate(stored.ciphertexts):
            prime = number // layout.ciphertexts
            ciphertexts[prime].append(public.ciphertext(public.read_submission(data, prime), prime))
        return cls(public, release, layout, ciphertexts)

    def result(self, pooled: Sequence[Residues], kept: int | None = None) -> tuple[bytes, ...]:
        """Return a result for each prime, for `SecretContext.decrypt`.

        `pooled` is the sum of all padded sketches for each prime, shape (sketch.size,); ValueError for anything else.
        `kept` is as of `PublicContext.dump_result`.
        """
        return tuple(
            self.public.dump_result(self.public.flood(self._evaluated(values, prime)), kept)
            for prime, (values, _) in enumerate(zip(pooled, self.ciphertexts, strict=True))
        )

    def _evaluated(self, values: Residues, prime: int) -> Ciphertext:
        """Return the sums, masked: each is the total over its slots."""
        modulus = self.public.parameters.plain_moduli[prime]
        at = self.release.evaluate(values, modulus)
        expanded = [[self._coefficients(term, at, modulus) for term in total.terms] for total in self.release.sums]
        clear = [running_sums(np.concatenate([first for first, _ in terms]), modulus)[-1] for terms in expanded]
        mask = self.layout.mask(KeyStream(secrets.token_bytes(_SEED_BYTES)), np.array(clear), modulus)
        factors = self.layout.place([[vector for _, hidden in terms for vector in hidden] for terms in expanded])
        total: Ciphertext | None = None
        for ciphertext, slots in zip(self.ciphertexts[prime], factors, strict=True):
            if slots.any():  # times nothing but zeros, a ciphertext would hide nothing
                product = self.public.multiply_values(ciphertext, slots)
                if total is None:
                    total = product
                else:
                    self.public.add_in_place(total, product)
        return self.public.encrypt(mask, prime) if total is None else self.public.add_values(total, mask)

    _coefficients = staticmethod(coefficients)  # a liar in the laboratory takes others


def _digest(release: Release) -> bytes:
    return hashlib.sha256(encode(release)).digest()
