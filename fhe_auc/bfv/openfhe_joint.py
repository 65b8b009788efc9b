"""Joint keys for BFV: what `fhe_auc.rlwe.openfhe_joint` leaves to the scheme.

One set of keys serves all plaintext moduli, as always. A party's noise on its partial decryption is uniform on
[-2^c, 2^c): it hides, as flooding does (`fhe_auc.bfv.flooding`), the noise that could tell its share.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fhe_auc.bfv.context import PublicContext, Residues, StoredPublic, checked, kind_of
from fhe_auc.bfv.flooding import uniform_noise
from fhe_auc.bfv.openfhe_backend import OpenFhePublicContext, schemes_for
from fhe_auc.bfv.parameters import BfvParameters
from fhe_auc.rlwe import container
from fhe_auc.rlwe.openfhe_joint import BaseJointSetup, BaseJointShare
from fhe_auc.rlwe.openfhe_library import openfhe, save
from fhe_auc.rlwe.polynomials import Words
from fhe_auc.rlwe.seeded import SEED_BYTES, Seeded


class JointSetup(BaseJointSetup[BfvParameters]):
    """What everybody knows of one BFV session's joint keys.

    Parameters
    ----------
    parameters : BfvParameters
        Of the openfhe backend.
    session : bytes
        16 bytes, fresh and random; the common polynomials are expanded from it.
    """

    def __init__(self, parameters: BfvParameters, session: bytes) -> None:
        self.schemes = schemes_for(parameters)
        super().__init__(parameters, session, self.schemes[0], multiplies=True)

    def public_context(self, key_parts: Sequence[Words], relinearisation_part: Words) -> PublicContext:
        """Return the aggregator's context from the sums of all parties' parts, of the first and the second round."""
        return OpenFhePublicContext(StoredPublic(self.parameters, *self.joined_keys(key_parts, relinearisation_part)))

    def submission(self, total: Words, block: int, prime: int, fingerprint: bytes) -> bytes:
        """Return the sum of all parties' parts of a ciphertext, for `PublicContext.read_submission`."""
        packed = self.submission_part.pack(total) + self.seed("submission", block)
        return container.seal(kind_of("submission", self.parameters, prime), fingerprint, packed)

    def split_result(self, result: bytes, prime: int) -> tuple[Words, Words]:
        """Return both polynomials of a result; `DeserialisationError` where it is none for that prime."""
        _, packed = container.open_any(kind_of("result", self.parameters, prime), result)
        return self.halves["submission"].unpack(packed)

    def fuse(self, result: bytes, prime: int, partials: Iterable[Words]) -> Residues:
        """Return the slots of a result from all parties' partial decryptions (unpacked), each once and none left out.

        Raises
        ------
        DeserialisationError
            Not a result of these parameters for that prime.
        """
        total, _ = self.split_result(result, prime)
        for partial in partials:
            self.submission_part.add_in_place(total, partial)
        scheme = self.schemes[prime]
        fused = scheme.ciphertext(self.halves["submission"].join(total, np.zeros_like(total)), self.tag)
        no_key = scheme.load(
            openfhe.DeserializePrivateKeyString, scheme.secret_key, bytes(scheme.secret_key.packed_size), self.tag
        )
        return scheme.decoded(scheme.context.Decrypt(no_key, fused))


class JointShare(BaseJointShare[BfvParameters]):
    """One party's share of a BFV session's secret key.

    Parameters
    ----------
    setup : JointSetup
    """

    _setup: JointSetup

    def encrypt(self, values: ArrayLike, prime: int, block: int) -> bytes:
        """Return this party's part of the encrypted sum of a ciphertext.

        Parameters
        ----------
        values : array of int, shape (N,)
        prime : int
            Index of the plaintext modulus.
        block : int
            Number of the ciphertext among all of the session, whatever its prime.

        Raises
        ------
        ValueError
            Not one integer in [0, t) a slot; or the ciphertext has been encrypted before: two values under the same
            random polynomials tell their difference.
        """
        setup = self._setup
        residues = checked(values, setup.parameters, prime)
        self._use(block)
        scheme = setup.schemes[prime]
        words = scheme.submission.words(save(scheme.encrypt(self._secret_keys[prime], residues)))
        seeded = Seeded(scheme.submission.polynomials)
        return seeded.reseed(words, self._secret_words, setup.seed("submission", block))[:-SEED_BYTES]

    def partial(self, result: bytes, prime: int, smudging_exponent: int) -> bytes:
        """Return this party's partial decryption of a result.

        Parameters
        ----------
        result : bytes
            From `PublicContext.dump_result`.
        prime : int
            Index of the plaintext modulus.
        smudging_exponent : int
            c, of the noise to add.

        Raises
        ------
        DeserialisationError
            Not a result of these parameters for that prime.
        """
        half = self._setup.submission_part
        _, second = self._setup.split_result(result, prime)
        partial = half.multiply(second, self._secret_words)
        half.add_in_place(partial, uniform_noise(half, smudging_exponent))
        return half.pack(partial)

    @cached_property
    def _secret_words(self) -> Words:
        return self._setup.library.secret_key.words(save(self._secret))

    @cached_property
    def _secret_keys(self) -> list[Any]:
        """The share as every plaintext modulus' context has it."""
        packed = self._setup.library.secret_key.polynomials.pack(self._secret_words)
        return [
            each.load(openfhe.DeserializePrivateKeyString, each.secret_key, packed, self._setup.tag)
            for each in self._setup.schemes
        ]
