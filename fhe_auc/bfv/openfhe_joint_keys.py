"""Joint keys for BFV: what `fhe_auc.rlwe.openfhe_joint_keys` leaves to the scheme, and encryption under a share.

One set of keys serves all plaintext moduli, as always.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from numpy.typing import ArrayLike

from fhe_auc.bfv import slots
from fhe_auc.bfv.context import PublicContext, StoredPublic, checked, kind_of
from fhe_auc.bfv.openfhe_backend import schemes_for
from fhe_auc.bfv.parameters import BfvParameters
from fhe_auc.rlwe import container
from fhe_auc.rlwe.openfhe_joint_keys import BaseJointSetup, BaseJointShare
from fhe_auc.rlwe.openfhe_library import OpenFheDecryptor
from fhe_auc.rlwe.polynomials import Words
from fhe_auc.rlwe.seeded import SEED_BYTES, Seeded


class JointSetup(BaseJointSetup[BfvParameters]):
    """What everybody knows of one BFV session's joint keys; `parameters` are of the openfhe backend.

    `binding` is 32 bytes that name the session and all parties' keys, which the common polynomials are expanded from.
    """

    def __init__(self, parameters: BfvParameters, binding: bytes) -> None:
        self.schemes = schemes_for(parameters)
        super().__init__(parameters, binding, self.schemes[0], multiplies=parameters.multiplies)

    def public_context(self, key_parts: Sequence[Words], relinearisation_part: Words) -> PublicContext:
        """Return the aggregator's context from the sums of all parties' parts, of the first and the second round."""
        joined = self.joined_keys(key_parts, relinearisation_part)
        return PublicContext(StoredPublic(self.parameters, *joined), self.schemes)

    def submission(self, total: Words, block: int, prime: int, fingerprint: bytes) -> bytes:
        """Return the sum of all parties' parts of a ciphertext, for `PublicContext.read_submission`."""
        packed = self.submission_part.pack(total) + self.seed("submission", block)
        return container.seal(kind_of("submission", self.parameters, prime), fingerprint, packed)


class JointShare(BaseJointShare[BfvParameters]):
    """One party's share of a BFV session's secret key."""

    setup: JointSetup

    def encrypt(self, values: ArrayLike, prime: int, block: int) -> bytes:
        """Return this party's part of the encrypted sum of a ciphertext, of `values` in [0, t), of shape (N,).

        `prime` is the index of the plaintext modulus, `block` the number of the ciphertext among all of the session,
        whatever its prime. Raises ValueError as `checked`, or where the ciphertext has been encrypted before: two
        values under the same random polynomials tell their difference.
        """
        setup = self.setup
        residues = checked(values, setup.parameters, prime)
        self._use(block)
        scheme, seeded = setup.schemes[0], Seeded(setup.library.submission.polynomials)
        words = scheme.words(self._decryptor.encrypt(scheme.zero))
        message = slots.message(seeded.half, setup.parameters.plain_moduli[prime], residues)
        return seeded.reseed(words, self.secret_words, setup.seed("submission", block), message)[:-SEED_BYTES]

    @cached_property
    def _decryptor(self) -> OpenFheDecryptor:
        return OpenFheDecryptor(self.setup.library, self.secret_key, self.setup.tag)
