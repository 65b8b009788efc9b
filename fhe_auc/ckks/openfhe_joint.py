"""Joint keys for CKKS: what `fhe_auc.rlwe.openfhe_joint` leaves to the scheme."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from fhe_auc.ckks.context import PublicContext, Slots, StoredPublic, checked
from fhe_auc.ckks.openfhe_backend import OpenFhePublicContext, scheme_for
from fhe_auc.ckks.parameters import CkksParameters
from fhe_auc.rlwe import container
from fhe_auc.rlwe.layout import Layout
from fhe_auc.rlwe.openfhe_joint import BaseJointSetup, BaseJointShare
from fhe_auc.rlwe.openfhe_library import openfhe, save
from fhe_auc.rlwe.polynomials import Polynomials, Words


class JointSetup(BaseJointSetup[CkksParameters]):
    """What everybody knows of one CKKS session's joint keys.

    Parameters
    ----------
    parameters : CkksParameters
        Of the openfhe backend.
    session : bytes
        16 bytes, fresh and random; the common polynomials are expanded from it.
    multiplies : bool
        Whether the circuit multiplies ciphertexts; a sum does not.
    """

    def __init__(self, parameters: CkksParameters, session: bytes, *, multiplies: bool) -> None:
        self.scheme = scheme_for(parameters)
        super().__init__(parameters, session, self.scheme, multiplies=multiplies)
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
        return OpenFhePublicContext(StoredPublic(self.parameters, *joined, packed))

    def submission(self, total: Words, block: int, fingerprint: bytes) -> bytes:
        """Return the sum of all parties' parts of a block, for `PublicContext.load_submission`."""
        packed = self.submission_part.pack(total) + self.seed("submission", block)
        return container.seal("submission", fingerprint, packed)

    def fuse(self, result: bytes, partials: Iterable[Words]) -> Slots:
        """Return the slots of a result from all parties' partial decryptions (unpacked), each once and none left out.

        Raises
        ------
        DeserialisationError
            Not a result of these parameters.
        """
        total, _ = self.split_result(result)
        for partial in partials:
            self.partial.polynomials.add_in_place(total, partial)
        packed = self.partial.polynomials.pack(total)
        fused = self.load(openfhe.DeserializeCiphertextString, self.partial, packed)
        plaintext = self.scheme.context.MultipartyDecryptFusion([fused])
        unit = self.scheme.library_scale / self.parameters.scale**2
        return np.asarray(np.asarray(plaintext.GetCKKSPackedValue(), complex) * unit)

    @cached_property
    def partial(self) -> Layout:
        """Layout of a partial decryption: one polynomial."""
        keys = self.scheme.context.KeyGen()
        ciphertext = self.scheme.encrypt(keys.secretKey, np.zeros(self.parameters.slots, complex), 1)
        (partial,) = self.scheme.context.MultipartyDecryptLead([ciphertext], keys.secretKey)
        return self.scheme.learn(partial, partial.GetKeyTag())

    def split_result(self, result: bytes) -> tuple[Words, Words]:
        """Return both polynomials of a result; `DeserialisationError` where it is none."""
        _, packed = container.open_any("result", result)
        return self.halves["submission"].unpack(packed)  # which differs from a result in the header only


class JointShare(BaseJointShare[CkksParameters]):
    """One party's share of a CKKS session's secret key.

    Parameters
    ----------
    setup : JointSetup
    """

    _setup: JointSetup

    def encrypt(self, values: Slots, block: int, mask: Words | None = None, *, shift_bits: int = 0) -> bytes:
        """Return this party's part of the encrypted sum of a block.

        Parameters
        ----------
        values : ndarray of complex128, shape (N/2,)
        block : int
        mask : ndarray of uint64, optional
            As `SecretContext.encrypt` takes it.
        shift_bits : int
            Encrypt 2^shift_bits times the values, from whose encoding nothing more is rounded off.

        Raises
        ------
        ValueError
            Not one finite value a slot, or a value beyond the modulus; or the block has been encrypted before: two
            values under the same random polynomials tell their difference.
        """
        setup = self._setup
        values = checked(values, setup.parameters, 1)
        self._use(block)
        common = setup.common("submission", block)
        reference = setup.halves["relinearisation key"].half.zeros()
        reference[: len(common)] = common  # one digit, modulo Q
        product, _ = setup.scheme.products(self._secret, reference, np.zeros_like(reference), setup.tag)
        first = setup.submission_part.zeros()
        setup.submission_part.subtract_in_place(first, product[: len(common)])
        ciphertext = self._ciphertext(first, common)
        encoded = self._encoded(values * setup.parameters.scale, shift_bits)
        setup.scheme.context.EvalAddInPlace(ciphertext, encoded)
        part = self._made("submission", setup.scheme.submission, ciphertext, common)
        if mask is not None:
            setup.submission_part.add_in_place(part, mask)
        return setup.submission_part.pack(part)

    def partial(self, result: bytes, smudging: Sequence[Slots]) -> bytes:
        """Return this party's partial decryption of a result.

        Parameters
        ----------
        result : bytes
            From `PublicContext.dump_result`.
        smudging : sequence of ndarray
            Noise to add, in plain units over all slots, one layer after the other (`fhe_auc.ckks.flooding`). The library
            adds only 2^20 of its own.

        Raises
        ------
        DeserialisationError
            Not a result of these parameters.
        """
        setup, scheme = self._setup, self._setup.scheme
        _, second = setup.split_result(result)
        noise = self._ciphertext(np.zeros_like(second), second)
        for layer in smudging:
            scheme.context.EvalAddInPlace(noise, scheme.integers(layer * setup.parameters.scale**2))
        # The library's "lead" decrypts (c0, c1) as c0 + c1·s: here c0 is the smudging noise, for every party.
        (partial,) = scheme.context.MultipartyDecryptLead([noise], self._secret)
        return setup.partial.pack(save(partial))

    def _rotation_keys(self) -> Words:
        setup, scheme = self._setup, self._setup.scheme
        if not setup.parameters.rotations:
            return setup.nothing.zeros()
        common = setup.common("rotation keys")
        packed = setup.halves["rotation keys"].pack(np.zeros_like(common), common)
        reference = setup.load(openfhe.DeserializeEvalKeyMapString, scheme.rotation_keys, packed)
        elements = list(scheme.elements.values())
        keys = scheme.context.MultiEvalAutomorphismKeyGen(self._secret, reference, elements, setup.tag)
        parts = self._made("rotation keys", scheme.rotation_keys, keys, common)
        scheme.add_errors(parts, self._secret, setup.tag)
        return parts

    def _encoded(self, values: Slots, shift_bits: int) -> Any:
        """Return what is to be added to a ciphertext: a plaintext, or a ciphertext that hides nothing."""
        scheme = self._setup.scheme
        plaintext = scheme.integers(values)
        if not shift_bits:
            return plaintext
        zeros = self._setup.submission_part.zeros()
        shifted = self._ciphertext(zeros, zeros)
        scheme.context.EvalAddInPlace(shifted, plaintext)
        shifted = scheme.context.EvalMult(shifted, scheme.integers(np.full(len(values), 2.0**shift_bits, complex)))
        shifted.SetNoiseScaleDeg(1)
        shifted.SetScalingFactor(scheme.library_scale)
        return shifted

    def _ciphertext(self, first: Words, second: Words) -> Any:
        setup = self._setup
        packed = setup.halves["submission"].pack(first, second)
        return setup.load(openfhe.DeserializeCiphertextString, setup.scheme.submission, packed)
