"""Joint keys for CKKS, on OpenFHE: what `fhe_auc.rlwe.joint_keys` leaves to the scheme.

The factors w are those of key-switching digits, one of each prime of Q.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from fhe_auc.ckks.context import Ciphertext, PublicContext, Slots, StoredPublic, checked
from fhe_auc.ckks.openfhe_backend import schemes_for
from fhe_auc.ckks.parameters import CkksParameters
from fhe_auc.rlwe import container
from fhe_auc.rlwe.joint_keys import BaseJointSetup, BaseJointShare, KeyParts, Purpose
from fhe_auc.rlwe.layout import Layout
from fhe_auc.rlwe.openfhe_library import Halves, freshly_seeded, openfhe, parsed, save, tag_of
from fhe_auc.rlwe.polynomials import Polynomials, Words
from fhe_auc.rlwe.second_error import add_second_error
from fhe_auc.serialise import decode, encode


class JointSetup(BaseJointSetup[CkksParameters]):
    """What everybody knows of one CKKS session's joint keys; `parameters` are of the openfhe backend.

    `binding` is 32 bytes that name the session and all parties' keys, which the common polynomials are expanded from.
    """

    def __init__(self, parameters: CkksParameters, binding: bytes) -> None:
        super().__init__(parameters, binding)
        (self.scheme,) = schemes_for(parameters)
        self.tag = tag_of(binding)  # what keys and ciphertexts of this session are called inside OpenFHE
        self.halves: dict[Purpose, Halves] = {
            "public key": Halves(self.scheme.public_key, b_first=True),
            "relinearisation key": self.scheme.switching_halves,
            "rotation keys": self.scheme.rotation_halves,
            "submission": self.scheme.ciphertext_halves,
        }

    @property
    def key_parts(self) -> tuple[Polynomials, Polynomials, Polynomials]:
        """Shapes of `KeyParts`."""
        return self.halves["public key"].half, self.scheme.relinearisation_key.polynomials, self.rotation_part

    @property
    def rotation_part(self) -> Polynomials:
        """Shape of a party's part of the rotation keys."""
        return self.halves["rotation keys"].half if self.parameters.rotations else self.nothing

    @property
    def relinearisation_part(self) -> Polynomials:
        """Shape of a party's second part of the relinearisation key."""
        return self.halves["relinearisation key"].half

    @property
    def submission_part(self) -> Polynomials:
        """Shape of a party's part of one ciphertext."""
        return self.halves["submission"].half

    @property
    def result_part(self) -> Polynomials:
        """Shape of one polynomial of a result: as of a submission."""
        return self.submission_part

    def common(self, purpose: Purpose, index: int = 0) -> Words:
        """Return the polynomials `a` for a purpose; submissions have others for every ciphertext."""
        return self.halves[purpose].half.uniform(self.seed(purpose, index))

    def public_context(self, key_parts: Sequence[Words], relinearisation_part: Words) -> PublicContext:
        """Return the aggregator's context from the sums of all parties' parts, of the first and the second round."""
        public_key, relinearisation, rotation_keys = key_parts
        _, g = self.halves["relinearisation key"].split(relinearisation)
        relinearised = self.halves["relinearisation key"].pack(relinearisation_part, g)
        halves = self.halves["rotation keys"]
        rotating = halves.pack(rotation_keys, self.common("rotation keys")) if self.parameters.rotations else b""
        packed = self.packed_public_key(public_key)
        return PublicContext(StoredPublic(self.parameters, packed, relinearised, rotating), [self.scheme])

    def packed_public_key(self, b: Words) -> bytes:
        """Return the public key of this half, packed as all are: the other one is `common`, which a seed says."""
        return self.halves["public key"].half.pack(b) + self.seed("public key", 0)

    def submission(self, total: Words, block: int, fingerprint: bytes) -> bytes:
        """Return the sum of all parties' parts of a block, for `PublicContext.load_submission`."""
        packed = self.submission_part.pack(total) + self.seed("submission", block)
        return container.seal("submission", fingerprint, packed)

    def ciphertext(self, first: Words, second: Words) -> Ciphertext:
        """Return the ciphertext of degree 1 with these polynomials, called by this session's name."""
        return self.scheme.ciphertext(self.halves["submission"].join(first, second), self.tag)


class _Share(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    secret: bytes
    ephemeral: bytes
    encrypted: tuple[int, ...]

    def __repr__(self) -> str:
        return "<share of a secret key (secret)>"


class JointShare(BaseJointShare[CkksParameters]):
    """One party's share of a CKKS session's secret key."""

    setup: JointSetup

    def __init__(self, setup: JointSetup) -> None:
        super().__init__(setup)
        self.secret_key, self._public_key = freshly_seeded(self._new_secret)
        self._ephemeral, _ = freshly_seeded(self._new_secret)  # u_i; its "public key" has the same `a`, goes nowhere

    @classmethod
    def restored(cls, setup: JointSetup, saved: bytes) -> JointShare:
        """Return the share that `saved` has written down; raise `DeserialisationError` where it is none."""
        found = decode(saved, _Share, "share of a secret key")
        share = cls.__new__(cls)
        BaseJointShare.__init__(share, setup)
        share._encrypted = set(found.encrypted)
        share.secret_key = setup.scheme.load_secret_key(found.secret, setup.tag)
        share._ephemeral = setup.scheme.load_secret_key(found.ephemeral, setup.tag)
        return share

    def saved(self) -> bytes:
        """Return the share as bytes, once `key_parts` has been sent; nobody else may see them."""
        pack = self.setup.scheme.secret_key.pack
        secret, ephemeral = (pack(save(key)) for key in (self.secret_key, self._ephemeral))
        return encode(_Share(secret, ephemeral, tuple(sorted(self._encrypted))))

    @property
    def secret_words(self) -> Words:
        """The share itself, as values at the roots of unity modulo all primes of Q."""
        words = self.setup.scheme.secret_key.words(save(self.secret_key))
        return words[: len(self.setup.parameters.modulus_bits)]

    def key_parts(self) -> KeyParts:
        """Return this party's parts of the keys, first round."""
        return freshly_seeded(self._key_parts)

    def _key_parts(self) -> KeyParts:
        setup = self.setup
        shapes = setup.key_parts
        public_key = self._made("public key", setup.scheme.public_key, self._public_key, setup.common("public key"))
        parts = public_key, self._relinearisation(), self._rotation_keys()
        return KeyParts(*(shape.pack(part) for shape, part in zip(shapes, parts, strict=True)))

    def relinearisation_part(self, total: Words) -> bytes:
        """Return this party's second part of the relinearisation key.

        `total`, uint64, is the sum of all parties' first parts, added up by the caller: from a sum chosen by somebody
        else the answer would tell the share.
        """
        return freshly_seeded(lambda: self._relinearisation_part(total))

    def _relinearisation_part(self, total: Words) -> bytes:
        setup, scheme = self.setup, self.setup.scheme
        half = setup.relinearisation_part
        h, g = setup.halves["relinearisation key"].split(total)
        part, minus = scheme.products(self.secret_key, h, g, setup.tag)
        plus, _ = scheme.products(self._ephemeral, g, half.zeros(), setup.tag)
        half.subtract_in_place(part, minus)
        half.add_in_place(part, plus)
        return half.pack(part)

    def encrypt(self, values: Slots, block: int, mask: Words | None = None) -> bytes:
        """Return this party's part of the encrypted sum of a block; `values` and `mask` as of `SecretContext.encrypt`.

        Raises `ValueError`: not one finite value a slot, or a value beyond the modulus; or the block has been encrypted
        before: two values under the same random polynomials tell their difference.
        """
        setup = self.setup
        values = checked(values, setup.parameters, 1)
        self._use(block)
        common = setup.common("submission", block)
        reference = setup.halves["relinearisation key"].half.zeros()
        reference[: len(common)] = common  # one digit, modulo Q
        product, _ = setup.scheme.products(self.secret_key, reference, np.zeros_like(reference), setup.tag)
        first = setup.submission_part.zeros()
        setup.submission_part.subtract_in_place(first, product[: len(common)])
        ciphertext = setup.ciphertext(first, common)
        setup.scheme.context.EvalAddInPlace(ciphertext, setup.scheme.encoded(values, 1))
        part = self._made("submission", setup.scheme.submission, ciphertext, common)
        add_second_error(setup.submission_part, part, self.secret_words)
        if mask is not None:
            setup.submission_part.add_in_place(part, mask)
        return setup.submission_part.pack(part)

    def _new_secret(self) -> tuple[Any, Any]:
        """Return a fresh secret, and its part of the public key."""
        setup, scheme = self.setup, self.setup.scheme
        zeros = setup.halves["public key"].half.zeros()
        reference = scheme.load_public_key(setup.packed_public_key(zeros), setup.tag)
        pair = scheme.context.MultipartyKeyGen(reference, False, True)
        return pair.secretKey, pair.publicKey

    def _relinearisation(self) -> Words:
        """Return h_i and g_i, as one key."""
        setup, scheme = self.setup, self.setup.scheme
        halves, common = setup.halves["relinearisation key"], setup.common("relinearisation key")
        reference = scheme.load_switching_key(halves.pack(np.zeros_like(common), common), setup.tag)
        switching = scheme.context.MultiKeySwitchGen(self.secret_key, self._ephemeral, reference)
        h = self._made("relinearisation key", scheme.relinearisation_key, switching, common)
        scheme.add_errors(h, self._ephemeral, setup.tag)
        g, _ = scheme.products(self.secret_key, common, np.zeros_like(common), setup.tag)
        return halves.join(h, g)

    def _rotation_keys(self) -> Words:
        setup, scheme = self.setup, self.setup.scheme
        if not setup.parameters.rotations:
            return setup.nothing.zeros()
        common = setup.common("rotation keys")
        packed = setup.halves["rotation keys"].pack(np.zeros_like(common), common)
        raw = scheme.rotation_keys.unpack(packed, setup.tag.encode())
        reference = parsed(openfhe.DeserializeEvalKeyMapString, raw)
        elements = list(scheme.elements.values())
        keys = scheme.context.MultiEvalAutomorphismKeyGen(self.secret_key, reference, elements, setup.tag)
        parts = self._made("rotation keys", scheme.rotation_keys, keys, common)
        scheme.add_errors(parts, self.secret_key, setup.tag)
        return parts

    def _made(self, purpose: Purpose, layout: Layout, item: Any, common: Words) -> Words:
        """Return the half of a fresh object that is this party's own.

        Raises RuntimeError if the library did not use the common polynomials: nothing made so may leave the process.
        """
        own, found = self.setup.halves[purpose].split(layout.words(save(item)))
        if not np.array_equal(found, common):
            raise RuntimeError(f"OpenFHE made a part of a {purpose} with other common polynomials")
        return own
