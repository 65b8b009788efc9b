"""What the aggregator does to a product before it sends it, so that the sums show and nothing else.

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

import secrets
from collections.abc import Sequence

import numpy as np

from fhe_auc.rlwe.error_sampling import second_error, ternary
from fhe_auc.rlwe.modulus_switching import divided
from fhe_auc.rlwe.number_theoretic_transform import coefficients_of
from fhe_auc.rlwe.polynomials import Polynomials, Words

_SEED_BYTES = 32


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
    u, v = (ternary(half, secrets.token_bytes(_SEED_BYTES)) for _ in range(2))
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
        half.add_in_place(part, second_error(half, secrets.token_bytes(_SEED_BYTES)))
    return [divided(half, part, kept) for part in parts]
