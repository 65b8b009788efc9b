"""The plan of an exact AUC as it stands in a manifest: how large messages are, and what it says to its readers."""

import math
from typing import Any, ClassVar

import msgspec

from fhe_auc.base import quantities
from fhe_auc.base.errors import DeserialisationError
from fhe_auc.base.serialise import decode
from fhe_auc.input_proofs.sessions import proof_bytes
from fhe_auc.input_proofs.statement import PROOFS
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
            shape = self.proved.statement.shape
            rows.append(
                Parameter(
                    "input proofs",
                    f"{PROOFS} of {shape.size:,} numbers",
                    f"that a party's counts, as digits to the base {shape.base}, add up to its row cap; a party that "
                    f"lies passes below {quantities.chance_text(shape.error(self.proved.prime) ** (PROOFS - 1))}, once "
                    f"it has tried 2^{math.floor(math.log2(self.proved.prime))} submissions",
                )
            )
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

    @property
    def _proved_caps(self) -> Parameter:
        """With the largest cap: a study may name none, and the plan is whoever's who convenes."""
        why = "each party proves that its counts add up to its cap; who fails is left out, and named"
        return Parameter("row caps", f"proved, {max(self.caps):,} at most", why)

    def terms(self) -> Terms:
        """Return what the session's parties agree to."""
        analysis, sums = self.analysis, self.release.sums
        released = ", ".join(each.name for each in sums) if analysis.is_plain else f"{len(sums):,} numbers"
        private = [] if self.privacy is None else self.privacy.describe()
        noisy = ", each with noise" if private else ""
        bound = Parameter("rows", f"at most {self.max_rows:,}", "of all parties together, a public bound")
        pairs = "; each is compared with each" if analysis.each_pair else ""
        by = "; ".join(f"{each.name}: {', '.join(each.levels)}" for each in analysis.by)
        asked = [
            ("models", ", ".join(analysis.models), "columns of scores" + pairs, len(analysis.models) > 1),
            ("classes", ", ".join(analysis.classes), "labels, one a model", bool(analysis.classes)),
            ("groups", by, "columns, and all levels that they may have", bool(by)),
            ("across groups", "yes", "positives of each against negatives of each other", analysis.cross_groups),
            (
                "sums over sites",
                "yes",
                "who knows all sites with rows of both labels but three can work out these three's AUCs",
                analysis.heterogeneity,
            ),
            ("patients", analysis.cluster or "", "a column; how many there are, and sums", bool(analysis.cluster)),
            (
                "average precision",
                "yes",
                "by each site's result of the session before; and how many sites have other rows than then",
                self.average_precision,
            ),
        ]
        return Terms(
            [
                *(Parameter(*row) for *row, there in asked if there),
                *([] if private else [bound]),
                *([self._proved_caps] if self.caps else []),
                Parameter(
                    "released", released, f"as integers{noisy}, to the parties and to nobody else; the AUC is of these"
                ),
                *private,
            ],
            {
                "max_rows": self.max_rows,
                "analysis": msgspec.to_builtins(analysis),
                "average_precision": self.average_precision,
                "row_caps_proved": bool(self.caps),
            },
        )
