"""The two-party step of `pairs` for real: randomised response on the kernel's value, inside a BFV ciphertext.

Any kernel on a small public domain of k records, with q different values v_0 … v_{q-1}. N = 4096 is the ring dimension,
M = N - k the size of the noise table T of `pairs.ValueResponse`, q the plaintext modulus.

    first user    fresh keys; draws u uniform in [0, M); sends the public key and Enc(a), a(X) = X^i + X^(k+u)
    second user   draws w uniform in [0, M); b(X) = Σ_j ± b_j X^(N-j) with b_j = index of f(point j, own record) for
                  j < k and b_(k+j) = T[(j + w) mod M]; returns Enc(a)·b + Enc(mask) + flooding
    first user    decrypts; the constant coefficient is y = (index of f + T[(u + w) mod M]) mod q, and goes to the
                  aggregator

One multiplication by a plaintext, no relinearisation or rotation keys. Who sees what, both users following the
protocol:

* The second user sees an encryption of the first one's record under the first one's key, and not the result.
* The first user sees y. The mask is uniform on all coefficients but the constant one. Ciphertext noise, which would
  tell b to whoever knows key and encryption randomness, is hidden: a fresh public-key encryption makes the second
  polynomial pseudorandom, and flooding uniform over 2^`FLOODING_BITS` covers the noise to a statistical distance below
  2^-40 over all coefficients.
* The aggregator sees y. So do those who collude with it.
* Keys, u and w serve one exchange: both roles answer once and refuse a second call. Answers to the same user with the
  same w would add up, in the end to a table without noise.
* **The noise is known to neither**: it is entry u + w of the table, u known to one user, w to the other, and uniform
  for whoever lacks one of them. An aggregator that colludes with one user of the pair learns of the other one's record
  what y tells, and y is ε₁-differentially private, with no δ for a truncated tail: residues have none.

What it does not withstand is a user that deviates (a malformed ciphertext, a chosen u), which garbled circuits with
malicious security would; and a user can always lie about the own record. BFV is Microsoft SEAL's, through TenSEAL:
128-bit classical security at N = 4096 with 106 bits of modulus.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import tenseal.sealapi as seal

from fhe_auc.base.errors import InputError
from fhe_auc.base.serialise import decode, encode
from fhe_auc.rlwe import seal_format
from fhe_auc.rlwe.layout import CoefficientLayout
from fhe_auc.rlwe.polynomials import Words
from fhe_auc.rlwe.seal_library import new_context
from fhe_auc_protocols import exact_sampling
from fhe_auc_protocols.u_statistics.domain import Domain
from fhe_auc_protocols.u_statistics.kernels import ROUNDING, Floats, Integers, Kernel
from fhe_auc_protocols.u_statistics.pairs import PairStep, ValueResponse

RING_DIMENSION = 4096
MODULUS_BITS = (45, 44, 17)
"""Of primes; the last is SEAL's special one, which is used in encryption only. In all 106, the most at 128 bits
(`fhe_auc.rlwe.parameters.MAX_MODULUS_BITS`)."""

FLOODING_BITS = 82
"""At q = 64 the product's noise stays below 21·N·q/2 < 2^22 (SEAL's errors are at most 21: centred binomial ones, on
[-21, 21]), and that of the fresh encryption below 21·(2N + 1) < 2^18; so the flooded noise of two records differs by
less than 2^(24 - 82) per coefficient, 2^-46 over all. Half the space between two messages is 2^89 / 2q >= 2^82, which
±2^81 stays inside."""

MAX_RECORDS, MAX_VALUES = 1024, 64


class EncryptedRecord(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The first user's message: coefficients of a public key and of a ciphertext."""

    public_key: bytes
    ciphertext: bytes


class TwoPartyResponse(PairStep):
    """The public parameters of the step, and both users played in this process; epsilon is the step's budget ε₁ = ε/P.

    Raises `InputError`: the domain has more than 1,024 records, or the kernel more than 64 values on it; or as for
    `ValueResponse`.
    """

    chunk = 8

    def __init__(self, kernel: Kernel, domain: Domain, epsilon: float) -> None:
        if len(domain) > MAX_RECORDS:
            raise InputError(
                f"the two-party step is for at most {MAX_RECORDS:,} different records, got {len(domain):,}"
            )
        values, indices = _distinct(kernel.matrix(domain.points), ROUNDING * kernel.width)
        if len(values) > MAX_VALUES:
            raise InputError(f"the two-party step is for kernels of at most {MAX_VALUES} values, got {len(values):,}")
        self.domain = domain
        self.indices = indices
        self.response = ValueResponse(values, epsilon, RING_DIMENSION - len(domain))
        self.scheme = _Scheme(len(values))

    @property
    def noise_variance(self) -> float:
        """Largest variance of an answer, given the kernel's value."""
        return self.response.noise_variance

    def noisy(self, first: Floats, second: Floats) -> Floats:
        """Return the unbiased estimate for each pair of records, every message really exchanged."""
        answers = []
        for x, y in zip(self.domain.index(first), self.domain.index(second), strict=True):
            user = FirstUser(self, int(x))
            answers.append(user.answer(SecondUser(self, int(y)).reply(user.request())))
        return self.response.unbiased(np.array(answers, np.int64))


class FirstUser:
    """The user who holds the keys of one step; good for one request and one answer.

    `record` is the index of the own record in the domain. `draw` returns a uniform integer below its argument:
    `secrets.randbelow`, and nothing else where it protects someone.
    """

    def __init__(self, step: TwoPartyResponse, record: int, draw: Callable[[int], int] = secrets.randbelow) -> None:
        self._scheme = step.scheme
        self._records, self._record, self._draw = len(step.domain), record, draw
        self._keys: Any = None  # until the request
        self._answered = False

    def __repr__(self) -> str:
        return "FirstUser(...)"

    def request(self) -> bytes:
        """Return the message to the second user, under fresh keys; raise `InputError` the second time."""
        if self._keys is not None:
            raise InputError("a two-party step asks once; make a new FirstUser")
        self._keys = seal.KeyGenerator(self._scheme.context)
        noise = self._draw(RING_DIMENSION - self._records)
        ciphertext = seal.Ciphertext()
        encryptor = seal.Encryptor(self._scheme.context, self._keys.secret_key())
        encryptor.encrypt_symmetric(_plaintext({self._record: 1, self._records + noise: 1}), ciphertext)
        key = self._scheme.public_key.pack(seal_format.save(seal_format.public_key(self._keys)))
        return encode(EncryptedRecord(key, self._scheme.ciphertext.pack(seal_format.save(ciphertext))))

    def answer(self, reply: bytes) -> int:
        """Return y in [0, q); `DeserialisationError`: damaged, another may follow; `InputError`: not asked, or told."""
        if self._keys is None or self._answered:
            raise InputError("a two-party step answers once, after its request; make a new FirstUser")
        found = int(self._decrypt(reply)[0])
        self._answered = True
        return found

    def _decrypt(self, reply: bytes) -> Integers:
        """Return all coefficients of the reply: what this user can see."""
        ciphertext = self._scheme.load(seal.Ciphertext(), self._scheme.ciphertext, reply)
        plaintext = seal.Plaintext()
        seal.Decryptor(self._scheme.context, self._keys.secret_key()).decrypt(ciphertext, plaintext)
        found = np.zeros(RING_DIMENSION, np.int64)
        found[: plaintext.coeff_count()] = [plaintext[place] for place in range(plaintext.coeff_count())]
        return found


class SecondUser:
    """The user who computes on the first one's ciphertext; good for one reply. Arguments are as of `FirstUser`."""

    def __init__(self, step: TwoPartyResponse, record: int, draw: Callable[[int], int] = secrets.randbelow) -> None:
        self._scheme, self._draw = step.scheme, draw
        self._indices, self._table = step.indices[:, record], step.response.table
        self._replied = False

    def __repr__(self) -> str:
        return "SecondUser(...)"

    def reply(self, request: bytes) -> bytes:
        """Return the reply; `DeserialisationError`: damaged, another may follow; `InputError`: it has replied once."""
        if self._replied:
            raise InputError("a two-party step answers once; make a new SecondUser")
        message = decode(request, EncryptedRecord, "request")
        scheme, q = self._scheme, self._scheme.plain_modulus
        key = scheme.load(seal.PublicKey(), scheme.public_key, message.public_key)
        record = scheme.load(seal.Ciphertext(), scheme.ciphertext, message.ciphertext)
        self._replied = True
        chosen = self._weights(self._draw(len(self._table)))
        # X^j · (-X^(N-j)) = 1, as X^N = -1.
        weights = {RING_DIMENSION - j: int(-b % q) for j, b in enumerate(chosen) if j and b}
        if chosen[0]:
            weights[0] = int(chosen[0])
        product, fresh = seal.Ciphertext(), seal.Ciphertext()
        scheme.evaluator.multiply_plain(record, _plaintext(weights), product)
        mask = exact_sampling.integers(exact_sampling.secure(), q, RING_DIMENSION).tolist()
        places = {place: value for place, value in enumerate(mask) if place and value}
        seal.Encryptor(scheme.context, key).encrypt(_plaintext(places), fresh)
        scheme.evaluator.add_inplace(product, fresh)
        words = scheme.ciphertext.polynomials.unpack(scheme.ciphertext.pack(seal_format.save(product)))
        scheme.ciphertext.polynomials.add_in_place(words, scheme.flooding())
        return scheme.ciphertext.polynomials.pack(words)

    def _weights(self, shift: int) -> Integers:
        """Return b_0 … b_{N-1} where w is `shift`."""
        return np.concatenate([self._indices, np.roll(self._table, -shift)])


class _Scheme:
    """A BFV context, and the layouts of public keys and of ciphertexts: two polynomials, modulo each of two primes."""

    def __init__(self, plain_modulus: int) -> None:
        self.plain_modulus = plain_modulus
        kind = seal.SCHEME_TYPE.BFV
        self.context, key_moduli = new_context(kind, RING_DIMENSION, MODULUS_BITS, plain_modulus)
        self.evaluator = seal.Evaluator(self.context)
        self._moduli = key_moduli[:-1]
        generator = seal.KeyGenerator(self.context)
        key, ciphertext = seal_format.public_key(generator), seal.Ciphertext()
        seal.Encryptor(self.context, key).encrypt_zero(ciphertext)
        self.public_key: CoefficientLayout = seal_format.layout_of(key, RING_DIMENSION, key_moduli)
        self.ciphertext: CoefficientLayout = seal_format.layout_of(ciphertext, RING_DIMENSION, self._moduli)

    def load(self, empty: Any, layout: CoefficientLayout, packed: bytes) -> Any:
        """Fill `empty` (a SEAL object) from packed coefficients."""
        return seal_format.parse(empty, self.context, layout.unpack(packed))

    def flooding(self) -> Words:
        """Return words to add to a ciphertext: uniform within ±2^(FLOODING_BITS - 1), in its first polynomial only."""
        drawn = [secrets.randbits(FLOODING_BITS) - (1 << (FLOODING_BITS - 1)) for _ in range(RING_DIMENSION)]
        added = np.array([[number % modulus for number in drawn] for modulus in self._moduli], np.uint64)
        return np.concatenate([added, np.zeros_like(added)])


def _distinct(matrix: Floats, tolerance: float) -> tuple[Floats, Integers]:
    """Return the values of a matrix, ascending, and which each entry is; neighbours within the tolerance are one."""
    values, indices = np.unique(matrix, return_inverse=True)
    starts = np.diff(values, prepend=-np.inf) > tolerance
    groups = starts.cumsum() - 1
    return values[starts], groups[indices].reshape(matrix.shape).astype(np.int64)


def _plaintext(coefficients: dict[int, int]) -> Any:
    """Return a SEAL polynomial from place and coefficient, by the text form that it reads: hexadecimal, falling."""
    terms = (
        f"{coefficients[place]:X}x^{place}" if place else f"{coefficients[place]:X}"
        for place in sorted(coefficients, reverse=True)
    )
    return seal.Plaintext(" + ".join(terms))
