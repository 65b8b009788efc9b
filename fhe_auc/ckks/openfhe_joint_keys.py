"""Joint keys for CKKS: what `fhe_auc.rlwe.openfhe_joint_keys` leaves to the scheme, and encryption under a share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fhe_auc.ckks.context import Ciphertext, PublicContext, Slots, StoredPublic, checked
from fhe_auc.ckks.openfhe_backend import schemes_for
from fhe_auc.ckks.parameters import CkksParameters
from fhe_auc.rlwe import container
from fhe_auc.rlwe.openfhe_joint_keys import BaseJointSetup, BaseJointShare
from fhe_auc.rlwe.openfhe_library import openfhe, parsed
from fhe_auc.rlwe.polynomials import Polynomials, Words
from fhe_auc.rlwe.second_error import add_second_error


class JointSetup(BaseJointSetup[CkksParameters]):
    """What everybody knows of one CKKS session's joint keys; `parameters` are of the openfhe backend.

    `binding` is 32 bytes that name the session and all parties' keys, which the common polynomials are expanded from;
    `multiplies` says whether the circuit multiplies ciphertexts, which a sum does not.
    """

    def __init__(self, parameters: CkksParameters, binding: bytes, *, multiplies: bool) -> None:
        (self.scheme,) = schemes_for(parameters)
        super().__init__(parameters, binding, self.scheme, multiplies=multiplies)
        self.halves["rotation keys"] = self.scheme.rotation_halves

    @property
    def rotation_part(self) -> Polynomials:
        """Shape of a party's part of the rotation keys."""
        return self.halves["rotation keys"].half if self.parameters.rotations else super().rotation_part

    def public_context(self, key_parts: Sequence[Words], relinearisation_part: Words) -> PublicContext:
        """Return the aggregator's context from the sums of all parties' parts, of the first and the second round."""
        joined = self.joined_keys(key_parts, relinearisation_part)
        _, _, rotation_keys = key_parts
        halves = self.halves["rotation keys"]
        packed = halves.pack(rotation_keys, self.common("rotation keys")) if self.parameters.rotations else b""
        return PublicContext(StoredPublic(self.parameters, *joined, packed), [self.scheme])

    def submission(self, total: Words, block: int, fingerprint: bytes) -> bytes:
        """Return the sum of all parties' parts of a block, for `PublicContext.load_submission`."""
        packed = self.submission_part.pack(total) + self.seed("submission", block)
        return container.seal("submission", fingerprint, packed)

    def ciphertext(self, first: Words, second: Words) -> Ciphertext:
        """Return the ciphertext of degree 1 with these polynomials, called by this session's name."""
        return self.scheme.ciphertext(self.halves["submission"].join(first, second), self.tag)


class JointShare(BaseJointShare[CkksParameters]):
    """One party's share of a CKKS session's secret key."""

    setup: JointSetup

    def encrypt(self, values: Slots, block: int, mask: Words | None = None, *, shift_bits: int = 0) -> bytes:
        """Return this party's part of the encrypted sum of a block; `values` and `mask` as of `SecretContext.encrypt`.

        What is encrypted is 2^shift_bits times the values, from whose encoding nothing more is rounded off.

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
        encoded = self._encoded(values, shift_bits)
        setup.scheme.context.EvalAddInPlace(ciphertext, encoded)
        part = self._made("submission", setup.scheme.submission, ciphertext, common)
        add_second_error(setup.submission_part, part, self.secret_words)
        if mask is not None:
            setup.submission_part.add_in_place(part, mask)
        return setup.submission_part.pack(part)

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

    def _encoded(self, values: Slots, shift_bits: int) -> Any:
        """Return what is to be added to a ciphertext: a plaintext, or a ciphertext that hides nothing."""
        setup, scheme = self.setup, self.setup.scheme
        plaintext = scheme.encoded(values, 1)
        if not shift_bits:
            return plaintext
        zeros = setup.submission_part.zeros()
        shifted = setup.ciphertext(zeros, zeros)
        scheme.context.EvalAddInPlace(shifted, plaintext)
        shifted = scheme.context.EvalMult(shifted, scheme.integers(np.full(len(values), 2.0**shift_bits, complex)))
        return scheme.at_degree(shifted, 1)
