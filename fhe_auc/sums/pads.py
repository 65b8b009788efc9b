"""One-time pads of vectors, padded vectors as bytes, and the pad key, which takes the sum of pads off.

With a pad, uniform and used once, a vector is as secret as with any encryption, in as many bytes as it has in the
clear. Two vectors under the same pad tell their difference.

**Bytes.** Each residue modulo t takes the ⌈log2 t⌉ bits that it needs: residue i those from i·⌈log2 t⌉ on, the lowest
first; bit b is bit b mod 8, from the lowest, of byte b div 8. The last byte is filled up with zeros.

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
import math
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
_WORD_BITS = 64
_MAGIC = b"fhepads"
_SEED_BYTES = 32


def pad(seed: bytes, session: bytes, party: int, prime: int, modulus: int, size: int) -> Residues:
    """Return the pad of one party for one prime, shape (size,), uniform in [0, modulus).

    The `seed`, 32 bytes (`InputError` for another length), is known to the party and to who makes the pad key;
    `session`, the session's random id, before that is made. `party` and `prime` are indices, `modulus` is the prime.
    """
    return modular.uniform(KeyStream(derived_key(seed, session, _LABEL, party, prime)), modulus, size)


def packed_size(count: int, prime: int) -> int:
    """Return the bytes of so many residues."""
    return -(-count * _width(prime) // 8)


def pack(values: Residues, prime: int) -> bytes:
    """Return residues, shape (count,), as bytes; raise ValueError where one is not below the prime, of 2 to 63 bits."""
    if int(values.max(initial=0)) >= prime:
        raise ValueError("a residue is not below its prime")
    octets = np.ascontiguousarray(values, "<u8").view(np.uint8).reshape(-1, _WORD_BITS // 8)
    bits = np.unpackbits(octets, axis=1, count=_width(prime), bitorder="little")
    return np.packbits(bits, bitorder="little").tobytes()


def unpack(data: bytes | memoryview, count: int, prime: int) -> Residues:
    """Return so many residues, shape (count,); `DeserialisationError` for other than what `pack` has made."""
    size, width = packed_size(count, prime), _width(prime)
    if len(data) != size:
        raise DeserialisationError(f"expected {size} bytes of residues, got {len(data)}", field="length")
    if data[-1] >> (8 - (8 * size - count * width)):
        raise DeserialisationError("the bits behind the last residue are not zero")
    # Residues begin at the same bits again after some bytes: those of one such place are read together.
    group = 8 // math.gcd(width, 8)
    step, rows = group * width // 8, -(-count // group)
    padded = b"".join((data, bytes(step + 9)))
    table = np.empty((rows, group), np.uint64)
    for place in range(group):
        start, shift = divmod(place * width, 8)
        column = table[:, place]
        np.right_shift(np.ndarray(rows, "<u8", padded, start, (step,)), np.uint64(shift), out=column)
        if width + shift > _WORD_BITS:
            above: Residues = np.ndarray(rows, np.uint8, padded, start + 8, (step,)).astype(np.uint64)
            column |= above << np.uint64(_WORD_BITS - shift)
    table &= np.uint64(2**width - 1)
    values: Residues = table.reshape(-1)[:count]
    if int(values.max()) >= prime:
        raise DeserialisationError(f"residue {int((values >= prime).argmax())} is not below its prime, {prime}")
    return values


def _width(prime: int) -> int:
    return (prime - 1).bit_length()


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
            [public.ciphertext(public.read_submission(data, prime), prime) for data in own]
            for prime, own in enumerate(stored.ciphertexts)
        ]
        return cls(public, releases, layouts, ciphertexts)

    def result(self, pooled: Sequence[Residues], kept: int) -> tuple[bytes, ...]:
        """Return the results for each prime, one for each layer, for `SecretContext.decrypt`.

        `pooled` is the sum of all padded sketches for each prime, shape (sketch.size,); ValueError for anything else.
        `kept` is as of `PublicContext.dump_result`.
        """
        flooded = [
            self.public.flood(own) for prime, values in enumerate(pooled) for own in self.evaluated(values, prime)
        ]
        return tuple([self.public.dump_result(ciphertext, kept) for ciphertext in flooded])

    def evaluated(self, values: Residues, prime: int) -> list[Ciphertext]:
        """Return the sums of each layer, masked: each is the total over its slots."""
        modulus, release, layout = self.public.parameters.plain_moduli[prime], self.releases[prime], self.layouts[prime]
        at = release.evaluate(values, modulus)
        clear, hidden = zip(*[coefficients(total, at, modulus) for total in release.sums], strict=True)
        return [self.combined(np.concatenate(clear), hidden, prime, layer) for layer in range(layout.layers)]

    def combined(self, clear: Residues, hidden: Sequence[Sequence[Residues]], prime: int, layer: int) -> Ciphertext:
        """Return a layer's sums, masked, of the coefficients of each sum: those of 1, shape (sums,), and the others."""
        modulus, layout = self.public.parameters.plain_moduli[prime], self.layouts[prime]
        mask = layout.mask(KeyStream(secrets.token_bytes(_SEED_BYTES)), clear, modulus, layer)
        products: Ciphertext | None = None
        for ciphertext, slots in zip(self.ciphertexts[prime], layout.coefficients(hidden, layer), strict=True):
            if slots.any():  # times nothing but zeros, a ciphertext would hide nothing
                product = self.public.multiply_values(ciphertext, slots)
                if products is None:
                    products = product
                else:
                    self.public.add_in_place(products, product)
        return self.public.encrypt(mask, prime) if products is None else self.public.add_values(products, mask)


def _digest(releases: Sequence[Release]) -> bytes:
    return hashlib.sha256(encode(tuple(releases))).digest()
