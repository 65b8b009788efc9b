"""What an exact session sends: how many ciphertexts and bytes a party's submission, the result and keys are."""

from __future__ import annotations

from fhe_auc.base.errors import DeserialisationError
from fhe_auc.base.serialise import decode
from fhe_auc.session.plan import BLOB_BYTES, WRAPPED_BYTES
from fhe_auc.sums.residues import packed_size
from fhe_auc_protocols.exact_auc.parameters import ExactParameters


class ExactSizes(ExactParameters, frozen=True):
    """Parameters, and how large the messages of a session are that has them."""

    @property
    def blocks(self) -> int:
        """Parts of a submission: a padded sketch for each prime; with joint keys both factors' ciphertexts."""
        return (2 * self.layout.ciphertexts if self.joint_keys else 1) * self.primes

    @property
    def submission_bytes(self) -> int:
        """Bytes of one party's submission, without envelopes."""
        if self.joint_keys:
            return self.blocks * self.parameters.submission_bytes
        sketch = sum(packed_size(self.computed.sketch.size, prime) for prime in self.parameters.plain_moduli)
        return sketch + self.helpers * BLOB_BYTES

    @property
    def result_bytes(self) -> int:
        """Bytes of the result's ciphertexts, without envelopes: one for each prime, both polynomials."""
        return 2 * self.primes * self._result_polynomial

    def result_parts(self, result: bytes) -> tuple[bytes, ...]:
        """Return a result's ciphertexts, one for each prime; raise `DeserialisationError` where it is none."""
        parts = decode(result, tuple[bytes, ...], "result")
        if len(parts) != self.primes:
            raise DeserialisationError(f"a result of {len(parts)} ciphertexts, of {self.primes}")
        return parts

    @property
    def key_bytes(self) -> int:
        """Bytes of one party's parts of joint keys, without envelopes: 0 without them.

        A polynomial of the public key, and for each plaintext prime three of the relinearisation key.
        """
        return (1 + 3 * self.primes) * self._result_polynomial if self.joint_keys else 0

    @property
    def download_bytes(self) -> int:
        """Bytes that a party receives, without envelopes.

        The result; with joint keys also of every party two polynomials of the relinearisation key for each plaintext
        prime, and its partial decryption.
        """
        if self.helpers:
            return 8 * self.primes * len(self.computed.sums) + WRAPPED_BYTES * self.parties
        others = 3 * self.parties * self.primes * self._result_polynomial if self.joint_keys else 0
        return self.result_bytes + others

    @property
    def _result_polynomial(self) -> int:
        return self.parameters.ring_dimension * sum(-(-each // 8) for each in self.parameters.modulus_bits[: self.kept])
