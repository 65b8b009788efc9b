"""The interface of a CKKS backend: one type for the aggregator, one for the parties.

What is encrypted is the slots of C components, complex numbers in plain units (`fhe_auc.ckks.encoding`); the scale Δ is
the context's affair. The aggregator squares sums of submissions, slot by slot, and parties read the sums over all slots
of some components. Nothing is rotated, relinearised or rescaled: there are no evaluation keys.

The library makes secret keys. The rest is arithmetic on words, the same on every backend.

Before it sends a product, the aggregator re-randomises it, so that the sums show and nothing else.

A product (c₀, c₁, c₂) holds M under s: c₀ + c₁s + c₂s² = M. From a public key (p₀, p₁), with p₀ + p₁s = e, and fresh
ternary u, v, small errors e₁, e₂, and f uniform on [-2^b, 2^b) in each coefficient, the aggregator sends

    c₁' = r·c₁ + u·p₁ + v·p₀ + e₁        whole
    c₂' = r·c₂ + v·p₁ + e₂               whole
    c₀' = r·c₀ + u·p₀ + f                only at the coefficients that hold sums

modulo a smaller Q. They decrypt to r·M + f + x with x = u·e + v·e·s + e₁s + e₂s²: v·(0, p₀, p₁) is s times an
encryption of zero, so that nobody needs a key for s², or an assumption about one.

What a holder of s learns: f hides x, and which multiple of r is beneath, up to the distance below. What is left of c₀'
follows from c₁', c₂', s and r·M + f. So u, v, e₁, e₂ are nowhere else, and c₂' and c₁' are samples of Ring-LWE with p₁
under the secrets v and u: they look uniform. (Without v, c₂ is r·a² with the known sum a of all parties' random
polynomials, and one division gives r.)

x is below 2^19 at seven deviations, N up to 16384: e₂s² has √(N·V·8N/9), v·e·s √(N·V·4N/9), V the errors' variance. Let
r ≤ 2^ρ with ρ ≥ 19. At most eight coefficients are sent. Moved by 2^(ρ-1) each, f shows that by a statistical distance
of at most 8·2^(ρ-1)/2^(b+1), 2^-(λ+1) with b = λ + ρ + 2.

M has noise of its own, of the parties' encryptions times what they encrypt. It is far larger than f, and stays.
"""

import math
import secrets
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.ckks import encoding
from fhe_auc.ckks.encoding import Slots
from fhe_auc.ckks.parameters import CkksParameters
from fhe_auc.rlwe import ciphertexts
from fhe_auc.rlwe.context import BasePublicContext, BaseSecretContext, PublicKeys, SecretKey, generated, loaded
from fhe_auc.rlwe.modular import centred
from fhe_auc.rlwe.polynomials import Polynomials, Words, coefficients_of, values_of

_SEED_BYTES = 32


class PublicContext(BasePublicContext[CkksParameters]):
    """What the aggregator holds."""

    kind, stored_as = "public context", PublicKeys[CkksParameters]

    def read_submission(self, data: bytes, into: Words | None = None) -> Words:
        """Return the coefficients in what `SecretContext.encrypt` wrote, `into` an array of `ciphertext_shape` if any.

        Adding them up needs no encryption library: see `fhe_auc.rlwe.polynomials.PolynomialSum`. Raises
        `DeserialisationError` for what is damaged, made for another context, or not a ciphertext of these parameters.
        """
        _, packed = ciphertexts.unwrap("submission", data, self.fingerprint)
        return self._seeded.expand(packed, into)

    def sum_of_squares(self, sums: Sequence[Words]) -> Words:
        """Return Σ z², of ciphertexts of `ciphertext_shape`: three polynomials, as values at the roots of unity.

        Raises `DeserialisationError` where a second polynomial is zero, so that it hides nothing.
        """
        half = self._seeded.half
        shape = Polynomials(half.ring_dimension, 3 * half.moduli)
        total = shape.zeros()
        for words in sums:
            first, second = np.split(words, 2)
            if not second.any():
                raise DeserialisationError("not a ciphertext: its second polynomial is zero")
            middle = half.multiply(first, second)
            half.add_in_place(middle, middle.copy())
            parts = half.multiply(first, first), middle, half.multiply(second, second)
            shape.add_in_place(total, np.concatenate(parts))
        return total

    def dump_sums(self, squares: Sequence[Words], multiplier: int, flooding_bits: int) -> bytes:
        """Serialise the sums over slots of each of the results of `sum_of_squares`, for `SecretContext.decrypt_sums`.

        All are multiplied by `multiplier`, an integer below 2^55, flooded, re-randomised and switched down.
        """
        half, kept = self._seeded.half, self.parameters.kept
        positions = encoding.sum_positions(half.ring_dimension, self.parameters.components)
        few, whole = _result_shapes(half, self.parameters)
        packed = []
        for square in squares:
            parts = released(
                half, self._public_key, np.split(square, 3), multiplier, flooding_bits, positions=positions, kept=kept
            )
            packed += [shape.pack(part) for shape, part in zip((few, whole, whole), parts, strict=True)]
        return ciphertexts.wrap("result", self.fingerprint, b"".join(packed))


class SecretContext(BaseSecretContext[CkksParameters]):
    """What a party holds."""

    kind, stored_as = "secret context", SecretKey[CkksParameters]

    def encrypt(self, values: Slots, mask: Words | None = None) -> bytes:
        """Return slots, shape (C, B), encrypted under the secret key, serialised, for `PublicContext.read_submission`.

        `mask`, of the shape `mask_shape`, is added to the ciphertext's first polynomial; None adds nothing. A uniform
        one leaves nothing that could be decrypted, until masks that make up for it have been added.

        Raises `ValueError`: not one finite value a slot, or a value beyond the modulus.
        """
        numbers = encoding.coefficients(checked(values, self.parameters)) * self.parameters.scale
        message = encoding.message(self.mask_shape, numbers)
        told = message if mask is None else np.concatenate([message, mask])
        packed = self._seeded.encrypt(self.secret_words, message, told, mask)
        return ciphertexts.wrap("submission", self.fingerprint, packed)

    def decrypt_sums(self, data: bytes, count: int) -> NDArray[np.complex128]:
        """Return the sums over slots in what `PublicContext.dump_sums` wrote of so many squares.

        Shape (count · triples, 2): of each square, a row for each triple of `fhe_auc.ckks.parameters.PRODUCTS`.

        Raises `DeserialisationError`: damaged, of another context, parameters or count, or a ciphertext that hides
        nothing.
        """
        half, kept = self.mask_shape, self.parameters.kept
        few, whole = _result_shapes(half, self.parameters)
        _, packed = ciphertexts.unwrap("result", data, self.fingerprint)
        positions = encoding.sum_positions(half.ring_dimension, self.parameters.components)
        secret = self.secret_words[:kept]
        found = []
        for wanted, *others in ciphertexts.unpack_products((few, whole, whole), packed, count):
            first, second = [values_of(whole, part) for part in others]
            whole.add_in_place(first, whole.multiply(second, secret))
            phase = coefficients_of(whole, whole.multiply(first, secret))[:, positions]
            few.add_in_place(phase, wanted)
            found.append([float(each) for each in centred(list(phase), few.moduli)])
        unit = float(math.prod(half.moduli[kept:]))
        numbers = np.array(found).reshape(-1, 2, 2) * (unit * self.parameters.slots / self.parameters.scale**2)
        return np.asarray(numbers[..., 0] + 1j * numbers[..., 1])


def released(
    half: Polynomials,
    public_key: Sequence[Words],
    product: Sequence[Words],
    multiplier: int,
    flooding_bits: int,
    *,
    positions: Sequence[int],
    kept: int,
) -> list[Words]:
    """Return c₀' at `positions`, c₁' and c₂' as coefficients modulo the first `kept` primes; `flooding_bits` is b.

    `public_key` and `product` are two and three polynomials of the shape `half`, as values at the roots of unity. The
    `multiplier` is r, below every prime.
    """
    first, second = public_key
    u, v = [ciphertexts.ternary(half, secrets.token_bytes(_SEED_BYTES)) for _ in range(2)]
    parts = [half.multiply(u, first), half.multiply(u, second), half.multiply(v, second)]
    half.add_in_place(parts[1], half.multiply(v, first))
    times = np.full((len(half.moduli), 1), multiplier, np.uint64)
    for number, (part, factor) in enumerate(zip(parts, product, strict=True)):
        half.add_in_place(part, half.multiply(factor, times))
        parts[number] = coefficients_of(half, part)
    parts[0] = parts[0][:, positions]
    noise = [secrets.randbits(flooding_bits + 1) - 2**flooding_bits for _ in positions]
    half.add_in_place(parts[0], np.array([[each % prime for each in noise] for prime in half.moduli], np.uint64))
    for part in parts[1:]:
        error = ciphertexts.fresh_error(half.ring_dimension, secrets.token_bytes(_SEED_BYTES))
        half.add_in_place(part, half.residues(error))
    return [ciphertexts.divided(half, part, kept) for part in parts]


def checked(values: Slots, parameters: CkksParameters) -> Slots:
    """Return `values` as a contiguous complex array, shape (C, B), that a ciphertext can hold.

    Raises ValueError where there is not one finite value a slot, or a value beyond the modulus.
    """
    slots = np.ascontiguousarray(values, np.complex128)
    shape = parameters.components, parameters.slots
    if slots.shape != shape:
        raise ValueError(f"expected values of shape {shape}, got {slots.shape}")
    # Coefficients are at most as large as the largest slot; half the modulus is for either sign.
    most = min(parameters.log2_modulus - 1.0, encoding.MOST_BITS) - parameters.log2_scale
    if not np.abs(slots).max() < 2.0**most:
        raise ValueError("a value is not finite, or larger than a ciphertext holds")
    return slots


def _result_shapes(half: Polynomials, parameters: CkksParameters) -> tuple[Polynomials, Polynomials]:
    """Return the shapes of a result's parts: of the coefficients of sums, and of each of two whole polynomials."""
    whole = ciphertexts.kept_shape(half, parameters.kept)
    return Polynomials(2 * len(encoding.summed(parameters.components)), whole.moduli), whole


class KeyPair(NamedTuple):
    """Both halves of a freshly generated context."""

    public: PublicContext
    secret: SecretContext


generate = partial(generated, KeyPair, PublicContext, SecretContext)
load_public, load_secret = partial(loaded, PublicContext), partial(loaded, SecretContext)
