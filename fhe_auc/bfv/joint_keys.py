"""Joint keys for BFV: n parties, n shares of a secret key that never exists as a whole; in words, without a library.

Party i draws its own share s_i, and once more a secret u_i that it needs for one key only; S = Σ s_i is the secret key.
The random polynomials `a` that parts must have in common are expanded from what names the session and all its parties'
keys, others for every purpose, so that nobody chooses them and they need not travel. Every e is a fresh error, w what
the key switches, which is public. In round 1 parties commit to what they send in round 2
(`fhe_auc_keys.roles.joint_roles`).

    round 2   public key         b_i = e - a·s_i                               pk = (Σ b_i, a)
              relinearisation    h_i = e - a·u_i + w·s_i,  g_i = e + a·s_i     H = Σ h_i, G = Σ g_i
    round 3   relinearisation    r_i = e + s_i·H + (u_i - s_i)·G               (Σ r_i, G): encrypts w·S²
              submission         b_i = e - a·s_i + m_i                         (Σ b_i, a): encrypts Σ m_i
    round 4   result (c0, c1)    d_i = c1·s_i + smudging                       c0 + Σ d_i: decrypts to the result

Sources: Mouchet et al., PoPETs 2021 (protocols 1 to 3; without u_i, as in OpenFHE's own, the two relinearisation parts
of one party add up to w·s_i and an error: anybody who sees both reads the share). That a submission is one party's part
of a single ciphertext is ours: it takes half the bytes of a public-key encryption, its noise grows with √n instead of
n, and only the sum of all parties' parts can be decrypted.

Whoever chose `a`, H or G could read s_i from a single answer: with H large and G = 0, e + s_i·H. So every party expands
`a`, and adds up H and G, itself, from parts whose authors it has verified, and who had committed to them before. Still,
an aggregator that deviates, with a party, reads s_i: of a result with c1 = D + round(q/t·k), k random modulo t and D =
2.5·2^c with the smudging's exponent c, the answer lies D·s_i and at most 0.4·D of smudging beside a multiple of q/t.

A product of ciphertexts (c0, c1)·(c0', c1') = (d0, d1, d2) decrypts to d0 + d1·S + d2·S². Every second polynomial is a
common one, which nobody chooses and everybody knows from the start; so is d2. What a relinearisation key must encrypt
is therefore one polynomial, d2·S²: there are no digits, and no noise to speak of comes from them.

    w = d2 = round(t·q/Q²·Σ a·a')     over the integers, for each plaintext modulus t
    (d0 + Σ r_i, d1 + G)              decrypts to the product, modulo q

A usual key (Mouchet et al., protocol 2) yields one of this form. It has parts h_ij, g_ij, r_ij for each of D digits,
with a public constant P_j in place of w (say 2^(b·(j-1)), D = log2 q / b) and a public uniform a_j. With the digits w_j
of w, so that Σ w_j·P_j = w, and a' = Σ w_j·a_j (uniform, if some w_j is invertible), anybody can add up

    h'_i = Σ w_j·h_ij = e' - a'·u_i + w·s_i
    g'_i = Σ w_j·g_ij = e' + a'·s_i
    r'_i = Σ w_j·r_ij = e' + s_i·H' + (u_i - s_i)·G'     H' = Σ w_j·H_j = Σ h'_i, G' = Σ w_j·G_j = Σ g'_i

If errors e have the standard deviation σ, e' = Σ w_j·e_j has about σ·2^b·√(D·N/12); the e' of different parts and
parties are independent given w. What this proves, and what is assumed: docs/security/joint-keys.md, "From a usual key
to this one".

Parties encrypt modulo Q; the product is rounded to q, the first primes of Q, as it is taken, and all keys are modulo q.
`JointEvaluator` is what the aggregator does. No library takes part: a product is one over the integers
(`fhe_auc.rlwe.integer_products`), its relinearisation two additions.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import ArrayLike

from fhe_auc.base.serialise import decode, encode
from fhe_auc.bfv.context import checked, decoded, encoded, uniform_noise
from fhe_auc.bfv.parameters import BfvParameters
from fhe_auc.rlwe.ciphertexts import fresh_keys, kept_shape, second_error, ternary, unpack_result, unwrap, wrap
from fhe_auc.rlwe.integer_products import lifted, rounded, summed_products
from fhe_auc.rlwe.modular import Residues
from fhe_auc.rlwe.polynomials import Polynomials, Words, values_of

_SEED_BYTES = 32

Purpose = Literal["public key", "relinearisation key", "submission"]


class KeyParts(NamedTuple):
    """What a party contributes to the keys in the second round, packed; `JointSetup.key_parts` has the shapes.

    The relinearisation part is both h_i and g_i, and empty where nothing is multiplied.
    """

    public_key: bytes
    relinearisation: bytes


class JointSetup:
    """What everybody knows of one BFV session's joint keys; `parameters` are of a chain for these.

    `binding` is 32 bytes that name the session and all parties' keys (`fhe_auc_keys.bundles.roster.Roster.binding`),
    which the common polynomials are expanded from. For each plaintext modulus so many `products` of two ciphertexts are
    added up, of blocks 2j and 2j + 1, counted through all moduli. Results have the first `kept` primes of Q.

    A party's part of a ciphertext has the shape `submission_part`, modulo Q; a result's polynomial `result_part`.
    """

    def __init__(self, parameters: BfvParameters, binding: bytes, *, products: int, kept: int) -> None:
        self.parameters = parameters
        self.binding = binding
        self.products = products
        self.kept = kept
        self.submission_part = Polynomials(parameters.ring_dimension, parameters.joint_moduli)
        self.result_part = kept_shape(self.submission_part, kept)

    @property
    def relinearisation_part(self) -> Polynomials:
        """Shape of a party's second part of the relinearisation key: a polynomial for each plaintext modulus."""
        return Polynomials(self.parameters.ring_dimension, len(self.parameters.plain_moduli) * self.result_part.moduli)

    @property
    def key_parts(self) -> tuple[Polynomials, Polynomials]:
        """Shapes of `KeyParts`: the relinearisation part is all h_i, then all g_i."""
        part = self.relinearisation_part
        return self.result_part, Polynomials(part.ring_dimension, 2 * part.moduli)

    def seed(self, purpose: Purpose, index: int) -> bytes:
        """Return the seed of the common polynomials for a purpose; submissions have others for every ciphertext."""
        label = encode((self.binding, encode(self.parameters), purpose, index))
        return hashlib.sha256(b"fhe-auc joint keys\0" + label).digest()

    def common(self, block: int) -> Words:
        """Return the common polynomial of a ciphertext, modulo Q."""
        return self.submission_part.uniform(self.seed("submission", block))

    def blocks(self, prime: int) -> range:
        """Return which ciphertexts are for the plaintext modulus of index `prime`."""
        return range(2 * self.products * prime, 2 * self.products * (prime + 1))

    def switched_keys(self) -> tuple[Words, ...]:
        """Return w for each plaintext modulus, modulo q. It is computed once for the session in a process."""
        return _switched_keys(self.parameters, self.binding, self.products, self.kept)

    def split_result(self, kind: str, result: bytes) -> tuple[Words, Words]:
        """Return both polynomials of a result; errors as `unwrap`, `unpack_result`."""
        half = self.result_part
        whole = Polynomials(half.ring_dimension, 2 * half.moduli)
        first, second = np.split(unpack_result(whole, unwrap(kind, result, self.binding)[1]), 2)
        return first, second

    def result_kind(self, prime: int) -> str:
        """Say what a result is, and for which plaintext modulus."""
        return f"joint result modulo {self.parameters.plain_moduli[prime]}"


@lru_cache(maxsize=1)
def _switched_keys(parameters: BfvParameters, binding: bytes, products: int, kept: int) -> tuple[Words, ...]:
    setup = JointSetup(parameters, binding, products=products, kept=kept)
    half, found = setup.submission_part, []
    for prime, t in enumerate(parameters.plain_moduli):
        factors = iter([lifted(half, setup.common(block)) for block in setup.blocks(prime)])
        found.append(rounded(half, summed_products(half, zip(factors, factors, strict=True)), t, kept))
    return tuple(found)


class _Share(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    secret: bytes
    ephemeral: bytes
    encrypted: tuple[int, ...]

    def __repr__(self) -> str:
        return "<share of a secret key (secret)>"


class JointShare:
    """One party's share of a session's secret key: ternary, from a seed of 32 bytes, drawn when made.

    It is never printed, pickled or sent; an encrypted key store may keep it between rounds: `saved` and `restored`.
    """

    def __init__(self, setup: JointSetup) -> None:
        self.setup = setup
        self._encrypted: set[int] = set()
        self._draw(secrets.token_bytes(_SEED_BYTES), secrets.token_bytes(_SEED_BYTES))

    def _draw(self, secret: bytes, ephemeral: bytes) -> None:
        self._seeds = secret, ephemeral
        self.secret_words = ternary(self.setup.submission_part, secret)  # s_i
        self._ephemeral = ternary(self.setup.result_part, ephemeral)  # u_i

    @classmethod
    def restored(cls, setup: JointSetup, saved: bytes) -> JointShare:
        """Return the share that `saved` has written down; raise `DeserialisationError` where it is none."""
        found = decode(saved, _Share, "share of a secret key")
        share = cls(setup)
        share._encrypted = set(found.encrypted)
        share._draw(found.secret, found.ephemeral)
        return share

    def __repr__(self) -> str:
        return f"<JointShare of session {self.setup.binding.hex()} (secret)>"

    def __reduce__(self) -> str:
        raise TypeError("a share of a secret key is not pickled; it ends with its session")

    def saved(self) -> bytes:
        """Return the share as bytes, once `key_parts` are made; nobody else may see them."""
        return encode(_Share(*self._seeds, tuple(sorted(self._encrypted))))

    def key_parts(self) -> KeyParts:
        """Return this party's parts of the keys, second round; with fresh errors, so that they are made once."""
        setup, secret = self.setup, self._secret_modulo_q
        shape, both = setup.key_parts
        public_key = self._sample(shape, shape.uniform(setup.seed("public key", 0)), secret)
        h, g = [], []
        for prime, switched in enumerate(setup.switched_keys()):
            common = shape.uniform(setup.seed("relinearisation key", prime))
            h.append(self._sample(shape, common, self._ephemeral, shape.multiply(switched, secret)))
            minus = shape.zeros()
            shape.subtract_in_place(minus, common)
            g.append(self._sample(shape, minus, secret))
        return KeyParts(shape.pack(public_key), both.pack(np.array(h + g).reshape(both.shape)))

    def relinearisation_part(self, total: Words) -> bytes:
        """Return this party's second part of the relinearisation key.

        `total`, uint64, is the caller's own sum of all first parts: another's sum would make the answer tell the share.
        """
        setup, secret = self.setup, self._secret_modulo_q
        shape, parts = setup.result_part, []
        for h, g in zip(*total.reshape(2, -1, *shape.shape), strict=True):
            added = shape.multiply(h, secret), shape.multiply(g, self._ephemeral)
            parts.append(self._sample(shape, g, secret, *added))
        whole = setup.relinearisation_part
        return whole.pack(np.array(parts, np.uint64).reshape(whole.shape))

    def encrypt(self, values: ArrayLike, prime: int, block: int) -> bytes:
        """Return this party's part of the encrypted sum of a ciphertext, of `values` in [0, t), of shape (N,).

        `prime` is the index of the plaintext modulus, `block` the number of the ciphertext among all of the session,
        whatever its prime. Raises ValueError as `checked`, or where the ciphertext has been encrypted before: two
        values under the same random polynomials tell their difference.
        """
        setup, half = self.setup, self.setup.submission_part
        found = checked(values, setup.parameters, prime)
        if block in self._encrypted:
            raise ValueError(f"block {block} has been encrypted before with this share")
        self._encrypted.add(block)
        message = values_of(half, encoded(half, setup.parameters.plain_moduli[prime], found))
        return half.pack(self._sample(half, setup.common(block), self.secret_words, message))

    def partial_decryption(self, result: bytes, prime: int, smudging_exponent: int, mask: Residues) -> bytes:
        """Return this party's partial decryption of a result: one polynomial, of the shape `JointSetup.result_part`.

        `prime` is the index of the plaintext modulus, `smudging_exponent` is c: the noise added is uniform on
        [-2^c, 2^c). It hides, as flooding does (`fhe_auc.bfv.context`), the noise of the result that could tell a
        share. `mask`, in [0, t), is added to the slots. `DeserialisationError` where `result` is none for that prime.
        """
        setup, half = self.setup, self.setup.result_part
        _, second = setup.split_result(setup.result_kind(prime), result)
        partial = half.multiply(second, self._secret_modulo_q)
        half.add_in_place(partial, uniform_noise(half, smudging_exponent))
        half.add_in_place(partial, values_of(half, encoded(half, setup.parameters.plain_moduli[prime], mask)))
        return half.pack(partial)

    @property
    def _secret_modulo_q(self) -> Words:
        return self.secret_words[: self.setup.kept]

    def _sample(self, shape: Polynomials, common: Words, secret: Words, *added: Words) -> Words:
        """Return e - common·secret and what is added, all values at the roots of -1, with a fresh error e."""
        error = fresh_keys(self.secret_words, common, *added).error
        sample = values_of(shape, second_error(shape, error))
        shape.subtract_in_place(sample, shape.multiply(common, secret))
        for each in added:
            shape.add_in_place(sample, each)
        return sample


class JointEvaluator:
    """The parties' public keys: sums of their parts, `key_parts` of the second round, `relinearisation` of the third.

    Results here are two polynomials modulo q, as values at the roots of -1, of a plaintext modulus named by its index.
    """

    def __init__(self, setup: JointSetup, key_parts: Sequence[Words], relinearisation: Words) -> None:
        self._setup = setup
        self._half, self._small = setup.submission_part, setup.result_part
        self._public_key, both = key_parts
        self._first = relinearisation.reshape(-1, *self._small.shape)
        _, self._second = both.reshape(2, -1, *self._small.shape)

    def product(self, totals: Sequence[Words], prime: int) -> Words:
        """Return Σ left·right, slot by slot, relinearised; `totals` are the sums of the parts of all `blocks`."""
        setup, half, small = self._setup, self._half, self._small
        ciphertexts = iter(
            [
                (lifted(half, total), lifted(half, setup.common(block)))
                for total, block in zip(totals, setup.blocks(prime), strict=True)
            ]
        )
        pairs = list(zip(ciphertexts, ciphertexts, strict=True))
        products = (
            [(b, other_b) for (b, _), (other_b, _) in pairs],
            [each for (b, a), (other_b, other_a) in pairs for each in ((b, other_a), (a, other_b))],
        )
        t = setup.parameters.plain_moduli[prime]
        first, second = (rounded(half, summed_products(half, each), t, setup.kept) for each in products)
        small.add_in_place(first, self._first[prime])
        small.add_in_place(second, self._second[prime])
        return np.concatenate((first, second))

    def add_values(self, result: Words, values: ArrayLike, prime: int) -> None:
        """Add plaintext values in [0, t), shape (N,), slot by slot; ValueError as `fhe_auc.bfv.context.checked`."""
        summands = checked(values, self._setup.parameters, prime)
        message = encoded(self._small, self._setup.parameters.plain_moduli[prime], summands)
        self._small.add_in_place(result[: self._setup.kept], values_of(self._small, message))

    def flood(self, result: Words, exponent: int) -> None:
        """Add a fresh encryption of zero, and noise uniform on ±2^exponent: see `fhe_auc.bfv.context`."""
        small, setup = self._small, self._setup
        ephemeral = ternary(small, secrets.token_bytes(_SEED_BYTES))
        keys = self._public_key, small.uniform(setup.seed("public key", 0))
        for polynomial, key in zip(np.split(result, 2), keys, strict=True):
            small.add_in_place(polynomial, small.multiply(key, ephemeral))
            small.add_in_place(polynomial, values_of(small, second_error(small, secrets.token_bytes(_SEED_BYTES))))
        small.add_in_place(result[: setup.kept], uniform_noise(small, exponent))

    def dump_result(self, result: Words, prime: int) -> bytes:
        """Serialise a result for `JointShare.partial_decryption`."""
        setup = self._setup
        whole = Polynomials(self._small.ring_dimension, 2 * self._small.moduli)
        return wrap(setup.result_kind(prime), setup.binding, whole.pack(result))


def fuse(setup: JointSetup, result: bytes, prime: int, partials: Iterable[Words]) -> Residues:
    """Return the slots of a result from all parties' partial decryptions (unpacked), each once and none left out.

    `prime` and errors as of `JointShare.partial_decryption`.
    """
    phase, _ = setup.split_result(setup.result_kind(prime), result)  # c0, to which all d_i are added
    for partial in partials:
        setup.result_part.add_in_place(phase, partial)
    return decoded(setup.result_part, setup.parameters.plain_moduli[prime], phase)
