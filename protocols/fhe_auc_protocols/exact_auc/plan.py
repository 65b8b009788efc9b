"""The plan of an exact AUC as it stands in a manifest: how large messages are, and what it says to its readers."""

import math
from typing import Any, ClassVar

import msgspec

from fhe_auc.base import quantities
from fhe_auc.base.errors import DeserialisationError
from fhe_auc.base.serialise import decode
from fhe_auc.input_proofs.sessions import proof_bytes
from fhe_auc.session.plan import (
    BLOB_BYTES,
    WRAPPED_BYTES,
    Parameter,
    Terms,
    describe_download,
    describe_flooding,
    describe_ring,
    describe_upload,
    ring_as_dict,
)
from fhe_auc.sums.pads import packed_size
from fhe_auc_protocols.exact_auc.parameters import ExactParameters


class ExactPlan(ExactParameters, frozen=True):
    """All that parties and aggregator agree on, in public; errors as its base. Bytes are without envelopes."""

    kind: ClassVar[str] = "exact sums"

    @property
    def blocks(self) -> int:
        """Parts of a submission: a padded sketch for each prime."""
        return self.primes

    @property
    def submission_bytes(self) -> int:
        """Bytes of one party's submission."""
        size = self.computed.sketch.size if self.proved is None else self.proved.size
        sketch = sum(packed_size(size, prime) for prime in self.parameters.plain_moduli)
        return sketch + self.helpers * BLOB_BYTES + self.proof_bytes

    @property
    def proof_bytes(self) -> int:
        """Bytes of a party's proofs that its counts are within its cap; 0 where there are none."""
        return 0 if self.proved is None else proof_bytes(self.proved.statement)

    @property
    def result_bytes(self) -> int:
        """Bytes of the result's ciphertexts: one for each prime, both polynomials."""
        kept = self.parameters.modulus_bits[: self.kept]
        return 2 * self.primes * self.parameters.ring_dimension * sum(-(-each // 8) for each in kept)

    def result_parts(self, result: bytes) -> tuple[bytes, ...]:
        """Return a result's ciphertexts, one for each prime; raise `DeserialisationError` where it is none."""
        parts = decode(result, tuple[bytes, ...], "result")
        if len(parts) != self.primes:
            raise DeserialisationError(f"a result of {len(parts)} ciphertexts, of {self.primes}")
        return parts

    @property
    def download_bytes(self) -> int:
        """Bytes that a party receives: the result."""
        if self.helpers:
            return 8 * self.primes * len(self.computed.sums) + WRAPPED_BYTES * self.parties
        return self.result_bytes

    def describe(self) -> list[Parameter]:
        """Return the parameters with their reasons."""
        parameters = self.parameters
        rows = [
            *([] if self.privacy is None else self.privacy.describe()),
            *describe_ring(
                parameters,
                "the smallest whose modulus takes a plaintext times a ciphertext, and its flooding; N slots a "
                "ciphertext",
                "the room for noise, which is what hides",
            ),
            Parameter(
                "plaintext primes",
                f"{self.primes} of {min(parameters.plain_moduli).bit_length()} bits",
                "as many as tell every sum of {max_rows:,} rows (--max-rows) from every other",
            ),
            Parameter(
                "numbers of a sketch",
                f"{self.computed.sketch.size:,}",
                f"rows of each label in {self.thresholds:,} bins"
                + ("" if self.analysis.is_plain else ", for each model and group")
                + (", twice as many with their authenticators" if self.authenticated else ""),
            ),
            describe_flooding(math.floor(self.flooding_margin), -self.flooding_margin),
        ]
        if (soundness := self.soundness(self.parties)) is not None:
            why = "chance for the aggregator in a session, proved, where all must submit"
            rows.append(Parameter("a lie passes", f"< {quantities.chance_text(soundness)}", why))
        if self.proved is not None:
            rows.append(self.proved.describe())
        opening = Parameter(
            "opening, ciphertexts", f"{self.layout.ciphertexts * self.primes}", "made by who has the key, once"
        )
        return [*rows, opening, describe_upload(self, "its padded sketch"), describe_download(self)]

    def as_dict(self) -> dict[str, Any]:
        """Return the parameters as plain data."""
        return {
            **ring_as_dict(self),
            "plain_moduli": list(self.parameters.plain_moduli),
            "sketch_entries": self.computed.sketch.size,
            "products": self.layout.ciphertexts,
            "kept_primes": self.kept,
            "result_bytes": self.result_bytes,
            "flooding_bits": self.flooding_margin,
            "soundness": self.soundness(self.parties),
            "proof_bytes": self.proof_bytes,
        }

    def terms(self) -> Terms:
        """Return what the session's parties agree to."""
        analysis, sums = self.analysis, self.release.sums
        released = ", ".join(total.name for total in sums) if analysis.is_plain else f"{len(sums):,} numbers"
        noisy = "" if self.privacy is None else ", each with noise"
        bound = Parameter("rows", f"at most {self.max_rows:,}", "of all parties together, a public bound")
        why = f"as integers{noisy}, to the parties and to nobody else; the AUC is of these"
        return Terms(
            [
                *[row for part in self.parts for row in part.terms()],
                *[bound] * (not noisy),
                Parameter("released", released, why),
            ],
            {
                "max_rows": self.max_rows,
                "analysis": msgspec.to_builtins(analysis),
                "row_caps_proved": bool(self.caps),
            },
        )
