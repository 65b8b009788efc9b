"""Joint keys on OpenFHE, whatever the scheme: n parties, n shares of a secret key that never exists as a whole.

Party i draws its own share s_i, and once more a secret u_i that it needs for one key only; S = Σ s_i is the secret key.
The random polynomials `a` that parts must have in common are expanded from what names the session and all its parties'
keys, others for every purpose, so that nobody chooses them and they need not travel. Every e is a fresh error, w the
factor of a key-switching digit:

    round 1   public key         b_i = e - a·s_i                               pk = (Σ b_i, a)
              rotation keys      b_i = e - a·s_i + w·σ(s_i)                    (Σ b_i, a), for each rotation
              relinearisation    h_i = e - a·u_i + w·s_i,  g_i = e + a·s_i     H = Σ h_i, G = Σ g_i
    round 2   relinearisation    r_i = e + s_i·H + (u_i - s_i)·G               (Σ r_i, G): encrypts w·S²
              submission         b_i = e - a·s_i + m_i                         (Σ b_i, a): encrypts Σ m_i
    round 3   result (c0, c1)    d_i = c1·s_i + smudging                       c0 + Σ d_i: decrypts to the result

Sources: Mouchet et al., PoPETs 2021 (protocols 1 to 3; without u_i, as in OpenFHE's own, the two relinearisation parts
of one party add up to w·s_i and an error: anybody who sees both reads the share). That a submission is one party's part
of a single ciphertext is ours: it takes half the bytes of a public-key encryption, its noise grows with √n instead of
n, and only the sum of all parties' parts can be decrypted.

Whoever chose `a`, H or G could read s_i from a single answer. So every party expands `a` itself, and adds up H and G
itself from parts whose authors it has verified. Whether a part is right nobody can tell; only that it is one.

Rounds 1 and 2 are here and, as far as schemes differ, in ``openfhe_joint_keys`` of `fhe_auc.ckks` and `fhe_auc.bfv`,
round 3 in their ``openfhe_partial_decryption``.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, Generic, Literal, NamedTuple, TypeVar

import msgspec
import numpy as np

from fhe_auc.rlwe import container, hidden
from fhe_auc.rlwe.context import BasePublicContext
from fhe_auc.rlwe.layout import Layout
from fhe_auc.rlwe.library import P
from fhe_auc.rlwe.modulus_switching import kept_shape
from fhe_auc.rlwe.openfhe_library import Halves, OpenFheLibrary, freshly_seeded, save, tag_of
from fhe_auc.rlwe.polynomials import Polynomials, Words
from fhe_auc.serialise import decode, encode

Purpose = Literal["public key", "relinearisation key", "rotation keys", "submission"]


class KeyParts(NamedTuple):
    """What a party contributes to the keys in the first round, packed; `BaseJointSetup.key_parts` has the shapes.

    The relinearisation part is both h_i and g_i. It and rotation keys are empty where a circuit needs none.
    """

    public_key: bytes
    relinearisation: bytes
    rotation_keys: bytes


class BaseJointSetup(ABC, Generic[P]):
    """What everybody knows of one session's joint keys: the common polynomials, and the shapes of all parts.

    `parameters` are of the openfhe backend, and `library` is of these. `binding` is 32 bytes that name the session and
    all parties' keys (`fhe_auc_keys.roster.Roster.binding`): the common polynomials are expanded from it. Where the
    circuit never `multiplies` ciphertexts, no relinearisation key is made, and all its parts are empty.
    """

    def __init__(self, parameters: P, binding: bytes, library: OpenFheLibrary[P], *, multiplies: bool) -> None:
        self.parameters = parameters
        self.binding = binding
        self.tag = tag_of(binding)  # what keys and ciphertexts of this session are called inside OpenFHE
        self.library = library
        self.multiplies = multiplies
        self.nothing = Polynomials(parameters.ring_dimension, ())
        self.halves: dict[Purpose, Halves] = {
            "public key": Halves(library.public_key, b_first=True),
            "relinearisation key": library.switching_halves,
            "submission": library.ciphertext_halves,
        }

    @property
    def key_parts(self) -> tuple[Polynomials, Polynomials, Polynomials]:
        """Shapes of `KeyParts`."""
        whole = self.library.relinearisation_key.polynomials if self.multiplies else self.nothing
        return self.halves["public key"].half, whole, self.rotation_part

    @property
    def rotation_part(self) -> Polynomials:
        """Shape of a party's part of the rotation keys: none, unless a scheme says otherwise."""
        return self.nothing

    @property
    def relinearisation_part(self) -> Polynomials:
        """Shape of a party's second part of the relinearisation key."""
        return self.halves["relinearisation key"].half if self.multiplies else self.nothing

    @property
    def submission_part(self) -> Polynomials:
        """Shape of a party's part of one ciphertext."""
        return self.halves["submission"].half

    def common(self, purpose: Purpose, index: int = 0) -> Words:
        """Return the polynomials `a` for a purpose; submissions have others for every ciphertext."""
        return self.halves[purpose].half.uniform(self.seed(purpose, index))

    def seed(self, purpose: Purpose, index: int) -> bytes:
        """Return the seed of `common`."""
        label = encode((self.binding, encode(self.parameters), purpose, index))
        return hashlib.sha256(b"fhe-auc joint keys\0" + label).digest()

    @abstractmethod
    def public_context(self, key_parts: Sequence[Words], relinearisation_part: Words) -> BasePublicContext[P]:
        """Return the aggregator's context from the sums of all parties' parts, of the first and the second round."""

    def joined_keys(self, key_parts: Sequence[Words], relinearisation_part: Words) -> tuple[bytes, bytes]:
        """Return public key and relinearisation key, packed, from the same sums."""
        public_key, relinearisation, _ = key_parts
        packed = self.packed_public_key(public_key)
        if not self.multiplies:
            return packed, b""
        _, g = self.halves["relinearisation key"].split(relinearisation)
        return packed, self.halves["relinearisation key"].pack(relinearisation_part, g)

    def packed_public_key(self, b: Words) -> bytes:
        """Return the public key of this half, packed as all are: the other one is `common`, which a seed says."""
        return self.halves["public key"].half.pack(b) + self.seed("public key", 0)

    def result_part(self, kept: int | None = None) -> Polynomials:
        """Return the shape of one polynomial of a result, and of its partial decryptions.

        Results may be switched down to the first `kept` primes of Q; None: all. ValueError where there are not so many.
        """
        return self.submission_part if kept is None else kept_shape(self.submission_part, kept)

    def split_result(self, kind: str, result: bytes, kept: int | None = None) -> tuple[Words, Words]:
        """Return both polynomials of a result; errors as `container.open_any`, `hidden.unpack` and `result_part`."""
        half = self.result_part(kept)
        _, packed = container.open_any(kind, result)
        first, second = np.split(hidden.unpack(Polynomials(half.ring_dimension, 2 * half.moduli), packed), 2)
        return first, second

    def fused(self, kind: str, result: bytes, partials: Iterable[Words], kept: int | None = None) -> Words:
        """Return c0 + Σ d_i of a result and all partial decryptions; errors as `split_result`."""
        total, _ = self.split_result(kind, result, kept)
        for partial in partials:
            self.result_part(kept).add_in_place(total, partial)
        return total


Share = TypeVar("Share", bound="BaseJointShare[Any]")


class _Share(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    secret: bytes
    ephemeral: bytes
    encrypted: tuple[int, ...]

    def __repr__(self) -> str:
        return "<share of a secret key (secret)>"


class BaseJointShare(Generic[P]):
    """One party's share of the secret key, drawn when made; it is never printed, pickled or sent.

    Between rounds it may be kept in an encrypted key store: `saved` and `restored`.
    """

    setup: BaseJointSetup[P]

    def __init__(self, setup: BaseJointSetup[P]) -> None:
        self.setup = setup
        self._encrypted: set[int] = set()
        self.secret_key, self._public_key = freshly_seeded(self._new_secret)
        self._ephemeral, _ = freshly_seeded(self._new_secret)  # u_i; its "public key" has the same `a`, goes nowhere

    @classmethod
    def restored(cls: type[Share], setup: BaseJointSetup[P], saved: bytes) -> Share:
        """Return the share that `saved` has written down; raise `DeserialisationError` where it is none."""
        found = decode(saved, _Share, "share of a secret key")
        share = cls.__new__(cls)
        share.setup = setup
        share._encrypted = set(found.encrypted)
        share.secret_key = setup.library.load_secret_key(found.secret, setup.tag)
        share._ephemeral = setup.library.load_secret_key(found.ephemeral, setup.tag)
        return share

    def saved(self) -> bytes:
        """Return the share as bytes, once `key_parts` has been sent; nobody else may see them."""
        pack = self.setup.library.secret_key.pack
        secret, ephemeral = (pack(save(key)) for key in (self.secret_key, self._ephemeral))
        return encode(_Share(secret, ephemeral, tuple(sorted(self._encrypted))))

    def __repr__(self) -> str:
        return f"<JointShare of session {self.setup.binding.hex()} (secret)>"

    def __reduce__(self) -> str:
        raise TypeError("a share of a secret key is not pickled; it ends with its session")

    @property
    def secret_words(self) -> Words:
        """The share itself, as values at the roots of unity modulo all primes of Q."""
        words = self.setup.library.secret_key.words(save(self.secret_key))
        return words[: len(self.setup.parameters.modulus_bits)]

    def key_parts(self) -> KeyParts:
        """Return this party's parts of the keys, first round."""
        return freshly_seeded(self._key_parts)

    def _key_parts(self) -> KeyParts:
        setup = self.setup
        shapes = setup.key_parts
        public_key = self._made("public key", setup.library.public_key, self._public_key, setup.common("public key"))
        parts = public_key, self._relinearisation(), self._rotation_keys()
        return KeyParts(*(shape.pack(part) for shape, part in zip(shapes, parts, strict=True)))

    def relinearisation_part(self, total: Words) -> bytes:
        """Return this party's second part of the relinearisation key.

        `total`, uint64, is the sum of all parties' first parts, added up by the caller: from a sum chosen by somebody
        else the answer would tell the share.
        """
        return freshly_seeded(lambda: self._relinearisation_part(total))

    def _relinearisation_part(self, total: Words) -> bytes:
        setup, library = self.setup, self.setup.library
        half = setup.relinearisation_part
        if not setup.multiplies:
            return half.pack(total)
        h, g = setup.halves["relinearisation key"].split(total)
        part, minus = library.products(self.secret_key, h, g, setup.tag)
        plus, _ = library.products(self._ephemeral, g, half.zeros(), setup.tag)
        half.subtract_in_place(part, minus)
        half.add_in_place(part, plus)
        return half.pack(part)

    def _use(self, block: int) -> None:
        """Note that a ciphertext's common polynomials are about to be used.

        Raises ValueError if they have been before: two values under the same random polynomials tell their difference.
        """
        if block in self._encrypted:
            raise ValueError(f"block {block} has been encrypted before with this share")
        self._encrypted.add(block)

    def _new_secret(self) -> tuple[Any, Any]:
        """Return a fresh secret, and its part of the public key."""
        setup, library = self.setup, self.setup.library
        zeros = setup.halves["public key"].half.zeros()
        reference = library.load_public_key(setup.packed_public_key(zeros), setup.tag)
        pair = library.context.MultipartyKeyGen(reference, False, True)
        return pair.secretKey, pair.publicKey

    def _relinearisation(self) -> Words:
        """Return h_i and g_i, as one key."""
        setup, library = self.setup, self.setup.library
        if not setup.multiplies:
            return setup.nothing.zeros()
        halves, common = setup.halves["relinearisation key"], setup.common("relinearisation key")
        reference = library.load_switching_key(halves.pack(np.zeros_like(common), common), setup.tag)
        switching = library.context.MultiKeySwitchGen(self.secret_key, self._ephemeral, reference)
        h = self._made("relinearisation key", library.relinearisation_key, switching, common)
        library.add_errors(h, self._ephemeral, setup.tag)
        g, _ = library.products(self.secret_key, common, np.zeros_like(common), setup.tag)
        return halves.join(h, g)

    def _rotation_keys(self) -> Words:
        return self.setup.rotation_part.zeros()

    def _made(self, purpose: Purpose, layout: Layout, item: Any, common: Words) -> Words:
        """Return the half of a fresh object that is this party's own.

        Raises RuntimeError if the library did not use the common polynomials: nothing made so may leave the process.
        """
        own, found = self.setup.halves[purpose].split(layout.words(save(item)))
        if not np.array_equal(found, common):
            raise RuntimeError(f"OpenFHE made a part of a {purpose} with other common polynomials")
        return own
